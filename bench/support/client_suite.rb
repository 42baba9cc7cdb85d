# frozen_string_literal: true

# bench/client: requests of each HTTP client, in a fresh process on one core, to a local nginx on
# the other: small ones over kept connections, plain, over TLS and HTTP/2; 100 MB down and up; many
# that wait; what an idle connection takes.

require "json"
require_relative "certificate"
require_relative "child"
require_relative "client_work"
require_relative "h2load"
require_relative "nginx"
require_relative "suite"

module Bench
  # HTTP clients.
  class ClientSuite < Suite
    RUBY = (ClientWork::LABELS.keys - ["h2load"]).freeze
    LARGE_BYTES = 100_000_000

    # Work of a child process against a server.
    class Work < Scenario
      LIMIT_S = 240

      def initialize(key, title, subjects, columns, counts, work: key, protocol: :http1)
        super(key, title, subjects: subjects, columns: columns)
        @counts = counts
        @work = work
        @protocol = protocol
      end

      def measure(subject, settings)
        count = [((@counts[subject] || @counts.fetch("each")) * settings[:scale]).to_i, 1].max
        metrics(subject, count, settings)
      end

      def finish
        @server&.stop
        @server = nil
      end

      private

      def metrics(subject, count, _settings)
        result = child(subject, count)
        return result unless result[:cpu_s]

        cpu_each_s = result[:cpu_s] / count
        result.merge(wall_us: result[:wall_s] / count * 1e6, cpu_us: cpu_each_s * 1e6, cpu_each_s: cpu_each_s)
      end

      def child(subject, count)
        arguments = [subject, @work, server.url(""), @protocol, count, ClientSuite.large].map(&:to_s)
        command = Setup.ruby_command(File.join(__dir__, "client_child.rb"), *arguments)
        environment = Setup.gem_environment.merge(Setup.yjit_environment)
        JSON.parse(Child.output(environment, *command, limit_s: LIMIT_S).lines.last, symbolize_names: true)
      end

      def server
        @server ||= Server.new("nginx-client", scheme: @protocol == :http1 ? "http" : "https", core: LOAD_CORE) do |port|
          ClientSuite.large
          Nginx.command(port, (Certificate.path unless @protocol == :http1), http2: @protocol == :http2)
        end.start
      end
    end

    # 64 at once, and h2load beside them; over HTTP/2 on one connection.
    class Small < Work
      COLUMNS = [Column.new("CPU, µs a request", :cpu_us, 2), Column.new("µs a request", :wall_us, 2)].freeze
      COUNTS = { "gyre" => 200_000, "async-http" => 50_000, "typhoeus" => 6_400, "http.rb" => 12_800, "each" => 32_000 }.freeze

      def initialize(key, title, subjects, protocol)
        super(key, title, subjects, COLUMNS, COUNTS, work: "small", protocol: protocol)
      end

      private

      def metrics(subject, count, settings)
        subject == "h2load" ? h2load(settings) : super
      end

      # Of the process alone, which runs on the clients' core.
      def h2load(settings)
        requests = [(200_000 * settings[:scale]).to_i, 1000].max
        way = @protocol == :http2 ? %w[-c1 -m64] : %w[--h1 -c64]
        command = ["taskset", "-c", SERVER_CORE.to_s, Setup.program("h2load"), *way, "-t1", "-n#{requests}", server.url("/")]
        before = Process.times
        start_s = Process.clock_gettime(Process::CLOCK_MONOTONIC)
        text = IO.popen([*command, { err: %i[child out] }], &:read)
        wall_s = Process.clock_gettime(Process::CLOCK_MONOTONIC) - start_s
        after = Process.times
        raise Problem, "h2load said:\n#{text}" unless text.include?("#{requests} succeeded")

        { wall_us: wall_s / requests * 1e6, cpu_us: (after.cutime + after.cstime - before.cutime - before.cstime) / requests * 1e6 }
      end
    end

    # Requests that wait at a slow server of Gyre.
    class Waiting < Work
      private

      def server
        @server ||= Server.new("waiting", Setup.gem_environment.merge(Setup.yjit_environment), core: LOAD_CORE) do |port|
          Setup.ruby_command(File.join(ROOT, "exe/gyre"), "serve", "-q", File.join(ROOT, "bench/apps/waiting.ru"), "-e", "production",
                             "-b", "tcp://127.0.0.1:#{port}?backlog=8192")
        end.start
      end
    end

    FILE_COLUMNS = [Column.new("CPU, s each", :cpu_each_s, 3), Column.new("s each", :wall_s, 3)].freeze
    FILES = %w[gyre async-http net-http httpx http.rb].freeze

    SCENARIOS = [
      Small.new("small", "GET of 26 bytes, 64 at once, kept connections", ClientWork::LABELS.keys, :http1),
      Small.new("tls", "The same over TLS", %w[h2load gyre async-http net-http-gyre net-http httpx], :tls),
      Small.new("http2", "The same over HTTP/2", %w[h2load gyre async-http httpx], :http2),
      Work.new("down", "A body of 100 MB down", FILES, FILE_COLUMNS, { "each" => 1 }),
      Work.new("up", "A body of 100 MB up, from a file", FILES, FILE_COLUMNS, { "each" => 1 }),
      Waiting.new("waiting", "5,000 requests at once that wait 1 s each", %w[gyre async-http],
                  [Column.new("seconds", :wall_s, 3), Column.new("CPU, s", :cpu_s, 3)], { "each" => 5_000 }),
      Waiting.new("fan-out", "Three requests at once that wait 0.1, 0.2 and 0.3 s", RUBY,
                  [Column.new("seconds", :wall_s, 3)], { "each" => 1 }),
      Work.new("idle", "Memory of an idle kept connection", %w[gyre net-http async-http], [Column.new("RSS, KB each", :each_kb, 2)],
               { "each" => 8_000 }, work: "idle"),
      Work.new("idle-tls", "The same over TLS", %w[gyre async-http], [Column.new("RSS, KB each", :each_kb, 2)],
               { "each" => 2_000 }, work: "idle", protocol: :tls)
    ].freeze

    # The file that goes up and down.
    def self.large
      path = File.join(Nginx.files, "100m")
      File.write(path, "x" * LARGE_BYTES) unless File.size?(path) == LARGE_BYTES
      path
    end

    def name = "client"
    def title = "HTTP clients: Gyre, async-http, httpx, http.rb, Net::HTTP, Typhoeus"
    def cores = "The client on one core, nginx on the other."
    def scenarios = SCENARIOS
    def subject_option = "clients"
    def labels = ClientWork::LABELS
    def row_heading = "client"
    def defaults = { rounds: 3, scale: 1.0 }
    def short = { rounds: 1 }
    def quick = { rounds: 1, scale: 0.1 }
    def programs(_subjects) = %w[taskset nginx h2load]

    def versions(_subjects)
      { "gyre" => Machine.gyre, "nginx" => Nginx.version }.merge(Setup.gem_versions.slice("async-http", "httpx", "http", "typhoeus"))
    end

    def about(settings)
      ["#{Gyre::Units.count(settings[:rounds], 'round')}, clients taking turns, a fresh process each time; " \
       "cells are medians (lowest–highest round)."]
    end

    def targets
      [
        ratio("64 at once: CPU against async-http's", :at_most, 0.35, "small", :cpu_us, "gyre", "async-http"),
        ratio("64 at once: CPU against h2load's", :at_most, 1.6, "small", :cpu_us, "gyre", "h2load"),
        ratio("over TLS: CPU against async-http's", :at_most, 0.35, "tls", :cpu_us, "gyre", "async-http"),
        ratio("over TLS: CPU against h2load's", :at_most, 1.6, "tls", :cpu_us, "gyre", "h2load"),
        ratio("over HTTP/2: CPU against async-http's", :at_most, 0.35, "http2", :cpu_us, "gyre", "async-http"),
        ratio("over HTTP/2: CPU against h2load's", :at_most, 1.6, "http2", :cpu_us, "gyre", "h2load"),
        ratio("100 MB down: CPU against Net::HTTP's", :at_most, 0.5, "down", :cpu_each_s, "gyre", "net-http"),
        ratio("100 MB up: CPU against Net::HTTP's", :at_most, 0.5, "up", :cpu_each_s, "gyre", "net-http"),
        figure("5,000 waiting requests", :at_most, 1.6, " s", 2, "waiting", :wall_s),
        figure("fan-out over three", :at_most, 0.306, " s", 3, "fan-out", :wall_s),
        figure("idle kept connection", :at_most, 1.0, " KB", 2, "idle", :each_kb),
        figure("idle kept connection over TLS", :at_most, 16.0, " KB", 2, "idle-tls", :each_kb)
      ]
    end
  end
end
