# frozen_string_literal: true

# bench/rails: a Rails app on Gyre alone, and on Puma behind Thruster, as Rails' own Dockerfile has
# it. Clients accept gzip, as browsers do.

require "fileutils"
require "zlib"
require_relative "http_scenarios"
require_relative "suite"

module Bench
  # How the app is started.
  module RailsServers
    NAMES = %w[gyre thruster].freeze
    APP = File.join(ROOT, "bench/apps/rails/config.ru")
    ASSET = "/assets/app-1a2b3c4d.js"
    ASSET_BYTES = 31_000
    FILE_BYTES = 1 << 20

    module_function

    def build(name) = Server.new("rails-#{name}", environment) { |port| command(name, port) }

    def command(name, port)
      return thruster(port) if name == "thruster"

      Setup.ruby_command(File.join(ROOT, "exe/gyre"), "serve", "-q", APP, "-C", File.join(ROOT, "bench/apps/rails/gyre.rb"),
                         "-b", "tcp://127.0.0.1:#{port}", "-e", "production")
    end

    # Thruster listens before Puma does; the check of the first answer waits for it.
    def thruster(port)
      target = Server.free_port
      ["env", "HTTP_PORT=#{port}", "TARGET_PORT=#{target}", "LOG_REQUESTS=false", thrust, *puma(target)]
    end

    def puma(port)
      Setup.ruby_command("puma", "-C", Servers::PUMA_SETTINGS, "-s", "-e", "production", "-b", "tcp://127.0.0.1:#{port}", APP)
    end

    # The program itself: the gem's own command is a Ruby program that becomes it.
    def thrust
      Dir[File.join(Setup.gem_folder, "installed/ruby/*/gems/thruster-*/exe/*-linux/thrust")].first or raise Problem, "no thruster for this machine"
    end

    def environment = Servers.ruby_environment.merge("FOLDER" => folder, "RAILS_ENV" => "production")

    # Makes what the app sends: an asset with its compressed form, which Gyre alone takes, and a
    # file.
    def folder
      @folder ||= File.join(WORK, "rails").tap do |folder|
        %w[public/assets storage log tmp].each { |name| FileUtils.mkdir_p(File.join(folder, name)) }
        asset = script
        File.write(File.join(folder, "public#{ASSET}"), asset)
        Zlib::GzipWriter.open(File.join(folder, "public#{ASSET}.gz"), 9) { |gzip| gzip.write(asset) }
        File.binwrite(File.join(folder, "storage/file.bin"), Random.new(1).bytes(FILE_BYTES))
      end
    end

    # Text that compresses about as a script does.
    def script
      random = Random.new(1)
      lines = Array.new(ASSET_BYTES / 40) { "function name#{random.rand(500)}(value#{random.rand(50)}) { return value + #{random.rand(10_000)}; }\n" }
      lines.join[0, ASSET_BYTES]
    end
  end

  # Requests for one path of the app.
  class RailsScenario < LoadScenario
    CONNECTIONS = 8
    COLUMNS = [Column.new("requests/s", :requests_per_s, 0), CPU, Column.new("p99, ms", :p99_ms, 2), Column.new("KB sent", :sent_kb, 1),
               Column.new("PSS, MB", :pss_mb, 1)].freeze
    READY_WITHIN_S = 30

    def initialize(key, title, path)
      super(key, title, path: path, connections: CONNECTIONS, headers: { "Accept-Encoding" => "gzip" }, servers: RailsServers::NAMES)
      @columns = COLUMNS
    end

    def take(server, seconds)
      super.tap { |sample| sample[:sent_kb] = sample[:gigabytes_per_s] * 1e6 / sample[:requests_per_s] }
    end

    private

    def build(name) = RailsServers.build(name)

    # Returns the bytes of the head, once the app answers.
    def check(server)
      until_s = Process.clock_gettime(Process::CLOCK_MONOTONIC) + READY_WITHIN_S
      begin
        head = head(server)
        raise Problem, "GET #{@path}: #{head.lines.first}" unless head.start_with?("HTTP/1.1 200 ")
      rescue Problem
        raise if Process.clock_gettime(Process::CLOCK_MONOTONIC) > until_s

        sleep 0.2
        retry
      end
      head.bytesize
    end

    def head(server)
      Answers.connect(server.port, false) do |socket|
        socket.write("GET #{@path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept-Encoding: gzip\r\nConnection: close\r\n\r\n")
        socket.read.to_s.b[/\A.*?\r\n\r\n/m] || ""
      end
    end
  end

  # The app, and its servers.
  class RailsSuite < Suite
    LABELS = { "gyre" => "Gyre", "thruster" => "Thruster and Puma" }.freeze
    KEYS = %w[page up asset file public].freeze

    def name = "rails"
    def title = "A Rails app: Gyre, and Thruster with Puma"
    def cores = "Server on one core, load on the other, one process of the app each."
    def labels = LABELS
    def programs(_subjects) = %w[taskset wrk]
    def versions(_subjects) = super.merge(Setup.gem_versions.slice("railties", "thruster", "puma"))
    def targets
      KEYS.map { |key| ratio("#{key}: CPU a request against Thruster and Puma", :at_most, 1.0, key, :cpu_us, "gyre", "thruster") }
    end

    def about(settings)
      ["#{Gyre::Units.count(settings[:rounds], "round")} of #{settings[:seconds]} s, servers taking turns; cells are medians (lowest–highest round).",
       "#{RailsScenario::CONNECTIONS} connections, which accept gzip. All with the app's logs off; Puma with five threads. " \
       "Gyre has `static`, `sendfile`, `compress` and `cache`, which Thruster does by default."]
    end

    def scenarios
      @scenarios ||= [
        RailsScenario.new("page", "A page of a layout and 60 rows", "/"),
        RailsScenario.new("up", "The health check, by the app", "/up"),
        RailsScenario.new("asset", "An asset of 31 KB", RailsServers::ASSET),
        RailsScenario.new("file", "A file of 1 MB by send_file", "/file"),
        RailsScenario.new("public", "The page, public for ten minutes", "/public")
      ]
    end
  end
end
