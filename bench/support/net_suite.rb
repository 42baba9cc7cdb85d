# frozen_string_literal: true

# bench/net: echoes over Gyre's transports against the same in C on epoll and libssl, what an idle
# TLS connection takes, and echoes of datagrams from a Ruby block beside Async's and EventMachine's.

require_relative "../../test/support/certificates"
require_relative "load_client"
require_relative "suite"

module Bench
  # Layer 3: streams and datagrams.
  class NetSuite < Suite
    # subject => [kind of load, what the report calls it]
    SUBJECTS = {
      "gyre-plain" => ["plain", "Gyre, a task for each connection"],
      "gyre-loop-plain" => ["plain", "Gyre, on a keyed loop"],
      "c-plain" => ["plain", "C, epoll"],
      "gyre-tls" => ["tls", "Gyre, a task for each connection"],
      "gyre-loop-tls" => ["tls", "Gyre, on a keyed loop"],
      "c-tls" => ["tls", "C, epoll and libssl"],
      "gyre-udp" => ["udp", "Gyre"],
      "c-udp" => ["udp", "C, epoll, recvfrom and sendto"],
      "c-mmsg" => ["udp", "C, epoll, recvmmsg and sendmmsg"],
      "async-udp" => ["udp", "Async"],
      "eventmachine-udp" => ["udp", "EventMachine"]
    }.freeze

    # What both scenarios need: servers, and the load client.
    class NetScenario < Scenario
      private

      def serve(subject)
        command = lambda do |port|
          kind, = SUBJECTS.fetch(subject)
          arguments = [port.to_s, *(certificate if kind == "tls")]
          next [Setup.compiled("net_reference", "-lssl", "-lcrypto"), subject.delete_prefix("c-"), *arguments] if subject.start_with?("c-")

          Setup.ruby_command(File.join(ROOT, "bench/apps/net_server.rb"), subject, *arguments)
        end
        environment = subject.start_with?("c-") ? {} : Setup.gem_environment.merge(Setup.yjit_environment)
        server = Server.new("net-#{subject}", environment, &command).start
        yield server
      ensure
        server&.stop
      end

      def certificate
        @certificate ||= GyreTest::Certificates.new(File.join(WORK, "net").tap { |path| FileUtils.mkdir_p(path) }).issue("localhost")
      end

      def load(subject, server, *arguments)
        [Setup.compiled("net_load", "-lssl", "-lcrypto"), SUBJECTS.fetch(subject).first, server.port, *arguments]
      end
    end

    # Clients that send and wait for the echo.
    class Echo < NetScenario
      def initialize(key, title, subjects, clients:, bytes:)
        super(key, title, subjects: subjects,
                          columns: [Column.new("echoes/s", :echoes_per_s, 0), Column.new("server CPU, µs an echo", :cpu_us, 2),
                                    Column.new("RSS, MB", :rss_mb, 1)])
        @clients = clients
        @bytes = bytes
      end

      # Connections are opened before, and closed after what is measured.
      def measure(subject, settings)
        serve(subject) do |server|
          LoadClient.hold(*load(subject, server, @clients, @bytes)) do |clients|
            LoadClient.messages(clients, server, 1)
            result = LoadClient.messages(clients, server, settings[:seconds])
            { echoes_per_s: result["messages"] / result["seconds"], cpu_us: result["cpu_us"], rss_mb: server.tree.rss_kb / 1024.0,
              errors: ("#{result['lost'].to_i} lost" if result["lost"].positive?) }
          end
        end
      end
    end

    # Connections that have made one echo each and are left alone.
    class Idle < NetScenario
      COUNT = 10_000
      WARM_UP = 64

      def initialize(key, kind, subjects)
        super(key, "Memory of an idle #{kind} connection (#{COUNT} open, each has made one echo)", subjects: subjects,
              columns: [Column.new("RSS, KB a connection", :rss_kb_each, 2), Column.new("RSS with none, MB", :rss_before_mb, 1),
                        Column.new("RSS with all, MB", :rss_mb, 1)])
      end

      def measure(subject, _settings)
        serve(subject) do |server|
          hold(subject, server, WARM_UP) { nil }
          sleep 0.5
          before = server.tree.rss_kb
          hold(subject, server, COUNT) do
            sleep 1
            after = server.tree.rss_kb
            { rss_kb_each: (after - before) / COUNT.to_f, rss_before_mb: before / 1024.0, rss_mb: after / 1024.0 }
          end
        end
      end

      private

      def hold(subject, server, count, &block)
        LoadClient.hold(*load(subject, server, count, 64), &block)
      end
    end

    SCENARIOS = [
      Echo.new("plain", "Echo of 64 bytes, 64 connections", %w[gyre-plain gyre-loop-plain c-plain], clients: 64, bytes: 64),
      Echo.new("tls", "Echo of 64 bytes over TLS 1.3, 64 connections", %w[gyre-tls gyre-loop-tls c-tls], clients: 64, bytes: 64),
      Echo.new("udp", "Echo of 64 bytes over UDP, 64 clients", %w[gyre-udp c-udp c-mmsg async-udp eventmachine-udp], clients: 64, bytes: 64),
      Idle.new("idle-tls", "TLS", %w[gyre-loop-tls c-tls])
    ].freeze

    def name = "net"
    def title = "Streams and datagrams: Gyre, C, Async and EventMachine"
    def cores = "The server on one core, the load on the other."
    def scenarios = SCENARIOS
    def subject_option = "subjects"
    def labels = SUBJECTS.transform_values(&:last)
    def defaults = { rounds: 3, seconds: 2 }
    def programs(_subjects) = %w[taskset cc]
    def versions(_subjects) = { "gyre" => Machine.gyre }.merge(Setup.gem_versions.slice("async", "io-event", "eventmachine"))

    def about(settings)
      ["#{Gyre::Units.count(settings[:rounds], 'round')} of #{settings[:seconds]} s, servers taking turns, a fresh process each time; " \
       "cells are medians (lowest–highest round).",
       "Gyre's echoes are made by Ruby code."]
    end

    def targets
      [
        *%w[gyre gyre-loop].product([["plain", 1.1, "plain echo: CPU time against epoll in C"],
                                     ["tls", 1.3, "echo over TLS: CPU time against libssl and epoll in C"]]).map do |one, (kind, limit, text)|
          ratio("#{text}, #{labels["#{one}-#{kind}"].delete_prefix('Gyre, ')}", :at_most, limit, kind, :cpu_us, "#{one}-#{kind}", "c-#{kind}")
        end,
        ratio("idle TLS connection, resident, against libssl's", :at_most, 1.15, "idle-tls", :rss_kb_each, "gyre-loop-tls", "c-tls"),
        Target.new(text: "echo over UDP: CPU time against the better of Async and EventMachine", direction: :at_most, limit: 0.5, unit: " ×",
                   decimals: 2, measure: lambda { |results|
                     %w[async-udp eventmachine-udp].filter_map { |other| results.ratio("udp", :cpu_us, "gyre-udp", other) }.max
                   })
      ]
    end
  end
end
