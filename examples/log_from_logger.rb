# frozen_string_literal: true

# From Ruby's Logger: the same calls; once `flush` returns, the messages are in another process's
# file. In Rails: config.logger = ActiveSupport::TaggedLogging.new(Gyre::Log::Client.new("shop")).
#
#   ruby -Ilib examples/log_from_logger.rb

require "gyre/log/client"
require "rbconfig"
require "tmpdir"

Dir.mktmpdir do |folder|
  gyre = [RbConfig.ruby, "-I", File.expand_path("../lib", __dir__), File.expand_path("../exe/gyre", __dir__)]
  server = IO.popen([*gyre, "log", "-p", "0", { chdir: folder, err: %i[child out] }])
  port = server.gets[/listens on \S+:(\d+)/, 1].to_i

  # was: logger = Logger.new("shop.log", level: Logger::INFO)
  logger = Gyre::Log::Client.new("shop", port: port, level: Logger::INFO, spool: File.join(folder, "spool"))

  logger.info("started")
  logger.debug { "never made: the level is info" }
  logger.warn("stock") { "hardly any left" }
  begin
    Integer("three")
  rescue ArgumentError => error
    logger.error(error) # with its trace, in one line
  end
  logger.formatter = proc { |_severity, _time, program, message| "[#{program}] #{message}" }
  logger.info("order 7") { "paid" }

  # Threads and children log as well.
  threads = Array.new(2) { |number| Thread.new { logger.info("threads") { "number #{number}" } } }
  threads.each(&:join)
  Process.wait(fork { logger.info("child") { "forked" } })

  puts "stored: #{logger.flush}"
  Process.kill(:KILL, server.pid) # loses nothing
  server.close
  lines = File.readlines(File.join(folder, "log"), encoding: "UTF-8", chomp: true)
  puts lines.map { |line| line.split("|", 4).drop(1).join("|")[0, 70] }.sort
  logger.close(0)
end
