# frozen_string_literal: true

# From Analogger: its unchanged configuration, and its client's code with another require.
#
#   ruby -Ilib examples/log_from_analogger.rb

require "gyre/log/analogger" # was: require "swiftcore/Analogger/Client"
require "rbconfig"
require "tmpdir"

CONFIGURATION = <<~YAML
  port: 0
  host: 127.0.0.1
  key: open sesame
  interval: 1
  syncinterval: 60
  default_log: everything.log
  logs:
  - service: shop
    levels: info,warn,error
    logfile: shop.log
    cull: true
YAML

Dir.mktmpdir do |folder|
  File.write(File.join(folder, "analogger.yml"), CONFIGURATION)

  # was: analogger -c analogger.yml
  gyre = [RbConfig.ruby, "-I", File.expand_path("../lib", __dir__), File.expand_path("../exe/gyre", __dir__)]
  server = IO.popen([*gyre, "log", "-c", "analogger.yml", { chdir: folder, err: %i[child out] }])
  port = server.gets[/listens on \S+:(\d+)/, 1].to_i # 0 took a free one

  # Everything here is unchanged.
  logger = Swiftcore::Analogger::Client.new("shop", "127.0.0.1", port, "open sesame")
  logger.log("info", "an order of 3 cafés") # the gem would count characters, and break the connection
  logger.log("debug", "not among the levels, so it is dropped")
  3.times { logger.log("warn", "hardly any left") }
  logger.log("error", "two\nlines, and one line in the file")
  logger.close

  begin
    Swiftcore::Analogger::Client.new("shop", "127.0.0.1", port, "guessed")
  rescue Swiftcore::Analogger::Client::FailedToAuthenticate => error
    puts "a wrong key: #{error.class}"
  end

  Process.kill(:TERM, server.pid)
  server.read
  server.close
  puts File.read(File.join(folder, "shop.log"), encoding: "UTF-8")
  puts "the server ended with status #{$?.exitstatus}"
end
