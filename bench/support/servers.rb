# frozen_string_literal: true

# How each server of bench/http is started: one worker, production, the app in apps/config.ru, logs
# of requests off, keep-alive without end. nginx gives the same answers from its configuration. Used
# by bench/http and bench/profile.

require_relative "certificate"
require_relative "machine"
require_relative "nginx"
require_relative "server"

module Bench
  # The servers that can be measured, by name.
  module Servers
    APP = File.join(ROOT, "bench/apps/config.ru")
    PUMA_SETTINGS = File.join(ROOT, "bench/apps/puma.rb")

    NAMES = %w[nginx gyre iodine falcon puma].freeze

    # Below Ruby 3.2 the newest Iodine is 0.7, which has other options; the key is whether it is
    # 0.8.
    IODINE = {
      true => ->(port) { ["-b", "http://127.0.0.1:#{port}", "--no-dynamic-deflate", "-R"] },
      false => ->(port) { ["-b", "127.0.0.1", "-p", port.to_s] }
    }.freeze

    COMMANDS = {
      "nginx" => ->(port) { Nginx.command(port) },
      "gyre" => lambda do |port|
        Setup.ruby_command(File.join(ROOT, "exe/gyre"), "serve", "-q", APP, "-b", "tcp://127.0.0.1:#{port}",
                           "-e", "production")
      end,
      "iodine" => lambda do |port|
        Setup.ruby_command("iodine", *IODINE[Setup.gem_versions["iodine"] >= "0.8"].call(port),
                           "-w", "1", "-t", "1", "-k", "255", APP)
      end,
      "falcon" => lambda do |port|
        Setup.ruby_command("falcon", "serve", "-b", "http://127.0.0.1:#{port}", "-n", "1", "-c", APP)
      end,
      "puma" => lambda do |port|
        Setup.ruby_command("puma", "-C", PUMA_SETTINGS, "-s", "-e", "production", "-b", "tcp://127.0.0.1:#{port}", APP)
      end
    }.freeze

    # The same over TLS, with a certificate of P-256; Falcon takes its own. Iodine's TLS is left
    # out.
    TLS_COMMANDS = {
      "nginx" => ->(port) { Nginx.command(port, Certificate.path) },
      "gyre" => lambda do |port|
        Setup.ruby_command(File.join(ROOT, "exe/gyre"), "serve", "-q", APP, "-e", "production",
                           "-b", "ssl://127.0.0.1:#{port}?cert=#{Certificate.path}&key=#{Certificate.path}")
      end,
      "falcon" => lambda do |port|
        Setup.ruby_command("falcon", "serve", "-b", "https://127.0.0.1:#{port}", "-n", "1", "-c", APP)
      end,
      "puma" => lambda do |port|
        Setup.ruby_command("puma", "-C", PUMA_SETTINGS, "-s", "-e", "production",
                           "-b", "ssl://127.0.0.1:#{port}?cert=#{Certificate.path}&key=#{Certificate.path}", APP)
      end
    }.freeze

    module_function

    def build(name, tls: false, files: false, http2: false, workers: nil)
      environment = name == "nginx" ? {} : ruby_environment
      command = (tls ? TLS_COMMANDS : COMMANDS).fetch(name)
      command = ->(port) { COMMANDS.fetch(name).call(port) + ["--static", Nginx.files] } if files && name == "gyre"
      command = ->(port) { Nginx.command(port, (Certificate.path if tls), http2: true) } if http2 && name == "nginx"
      command = ->(port) { COMMANDS.fetch(name).call(port) + ["-w", workers.to_s] } if workers
      cores = workers ? "#{SERVER_CORE},#{LOAD_CORE}" : SERVER_CORE
      Server.new(name, environment, scheme: tls ? "https" : "http", core: cores, &command)
    end

    def version(name)
      case name
      when "nginx" then Nginx.version
      when "gyre" then Machine.gyre
      else Setup.gem_versions.fetch(name)
      end
    end

    def ruby_environment
      Setup.gem_environment.merge(Setup.yjit_environment, "RACK_ENV" => "production", "CONSOLE_LEVEL" => "error")
    end
  end
end
