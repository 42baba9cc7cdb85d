# frozen_string_literal: true

# bench/event_machine: the same programs on Gyre's reactor and on EventMachine's, each by
# `require "eventmachine"`.

require "json"
require_relative "child"
require_relative "load_client"
require_relative "suite"

module Bench
  # Gyre under EventMachine's name, and EventMachine.
  class EventMachineSuite < Suite
    LABELS = { "gyre" => "Gyre", "eventmachine" => "EventMachine, epoll" }.freeze
    DROP_IN = File.join(ROOT, "lib/gyre/event_machine/features")

    # A script of bench/ with one of the two.
    module Programs
      private

      def program(subject, script, *arguments)
        ruby, *rest = Setup.ruby_command(File.join(ROOT, "bench", script), *arguments)
        subject == "gyre" ? [ruby, "-I", DROP_IN, *rest] : [ruby, *rest]
      end

      def environment = Setup.gem_environment.merge(Setup.yjit_environment)
    end

    # What needs a server and the load client.
    class Served < Scenario
      include Programs

      def initialize(key, title, kind, columns)
        super(key, title, subjects: LABELS.keys, columns: columns)
        @kind = kind
      end

      private

      def serve(subject)
        server = Server.new("event_machine-#{@kind}-#{subject}", environment) { |port| program(subject, "apps/event_machine.rb", @kind, port.to_s) }
        yield server.start
      ensure
        server&.stop
      end

      def load(server, *arguments)
        kind = { "echo" => "plain", "idle" => "plain" }.fetch(@kind, @kind)
        [Setup.compiled("net_load", "-lssl", "-lcrypto"), kind, server.port, *arguments]
      end
    end

    # Clients that send and wait for the echo.
    class Echo < Served
      def initialize(key, title, kind, clients:, bytes: 64)
        super(key, title, kind, [Column.new("echoes/s", :echoes_per_s, 0), Column.new("server CPU, µs an echo", :cpu_us, 2),
                                 Column.new("RSS, MB", :rss_mb, 1)])
        @clients = clients
        @bytes = bytes
      end

      # Connections are opened before, and closed after what is measured.
      def measure(subject, settings)
        serve(subject) do |server|
          LoadClient.hold(*load(server, @clients, @bytes)) do |clients|
            LoadClient.messages(clients, server, 1)
            result = LoadClient.messages(clients, server, settings[:seconds])
            { echoes_per_s: result["messages"] / result["seconds"], cpu_us: result["cpu_us"], rss_mb: server.tree.rss_kb / 1024.0,
              errors: ("#{result['lost'].to_i} lost" if result["lost"].positive?) }
          end
        end
      end
    end

    # Connections that have made one echo each and are left alone.
    class Idle < Served
      COUNT = 15_000
      WARM_UP = 64

      def initialize
        super("idle", "Memory of an idle connection (#{COUNT} open, each has made one echo)", "idle",
              [Column.new("RSS, KB a connection", :rss_kb_each, 2), Column.new("RSS with none, MB", :rss_before_mb, 1),
               Column.new("RSS with all, MB", :rss_mb, 1)])
      end

      def measure(subject, _settings)
        serve(subject) do |server|
          LoadClient.hold(*load(server, WARM_UP, 64)) { nil }
          sleep 0.5
          before = server.tree.rss_kb
          LoadClient.hold(*load(server, COUNT, 64)) do
            sleep 1
            after = server.tree.rss_kb
            { rss_kb_each: (after - before) / COUNT.to_f, rss_before_mb: before / 1024.0, rss_mb: after / 1024.0 }
          end
        end
      end
    end

    # A process by itself: `event_machine_child.rb`.
    class Alone < Scenario
      include Programs

      LIMIT_S = 120

      def initialize(key, title, count)
        super(key, title, subjects: LABELS.keys, columns: [Column.new("seconds", :wall_s, 3), Column.new("CPU, µs each", :cpu_us, 2)])
        @count = count
      end

      def measure(subject, _settings)
        command = program(subject, "support/event_machine_child.rb", key, @count.to_s)
        result = JSON.parse(Child.output(environment, *command, limit_s: LIMIT_S).lines.last, symbolize_names: true)
        { wall_s: result[:wall_s], cpu_us: result[:cpu_s] / @count * 1e6 }
      end
    end

    # EM::Protocols::Memcache with 100 pending callbacks, as in bench/memcached.
    class Memcache < Scenario
      include Programs

      COUNT = 100_000 # of each command
      LIMIT_S = 120

      def initialize
        super("memcached", "#{COUNT / 1000},000 each of set, get and delete by EM::Protocols::Memcache", subjects: LABELS.keys,
              columns: [Column.new("µs an operation", :wall_us, 2), Column.new("client CPU, µs an operation", :cpu_us, 2)])
      end

      def measure(subject, _settings)
        command = program(subject, "support/memcached_child.rb", "eventmachine", memcached.port.to_s, COUNT.to_s, memcached.tree.pids.first.to_s)
        result = JSON.parse(Child.output(environment, *command, limit_s: LIMIT_S).lines.last, symbolize_names: true)
        operations = result[:operations]
        { wall_us: result.values_at(:set_s, :get_s, :delete_s).sum / operations * 1e6, cpu_us: result[:cpu_s] / operations * 1e6 }
      end

      def finish
        @memcached&.stop
        @memcached = nil
      end

      private

      def memcached
        @memcached ||= Server.new("memcached", core: LOAD_CORE) do |port|
          ["memcached", "-l", "127.0.0.1", "-p", port.to_s, "-U", "0", "-t", "1", *(%w[-u nobody] if Process.uid.zero?)]
        end.start
      end
    end

    SCENARIOS = [
      Echo.new("echo-1", "Echo of 64 bytes, 1 connection", "echo", clients: 1),
      Echo.new("echo-64", "Echo of 64 bytes, 64 connections", "echo", clients: 64),
      Echo.new("echo-1024", "Echo of 64 bytes, 1,024 connections", "echo", clients: 1024),
      Echo.new("lines", "16 lines of 64 bytes by LineText2, 64 connections", "lines", clients: 64, bytes: 1024),
      Echo.new("udp", "Echo of 64 bytes over UDP, 64 clients", "udp", clients: 64),
      Alone.new("timers", "100,000 timers of up to half a second", 100_000),
      Alone.new("ticks", "500,000 ticks in ten chains", 500_000),
      Memcache.new,
      Idle.new
    ].freeze

    def name = "event_machine"
    def title = "Programs of EventMachine: on Gyre's reactor and on EventMachine's"
    def cores = "The measured process on one core, the load or memcached on the other."
    def scenarios = SCENARIOS
    def subject_option = "subjects"
    def labels = LABELS
    def row_heading = "reactor"
    def defaults = { rounds: 7, seconds: 2 }
    def short = { rounds: 5, seconds: 1 }
    def programs(_subjects) = %w[taskset cc memcached]
    def versions(_subjects) = { "gyre" => Machine.gyre }.merge(Setup.gem_versions.slice("eventmachine"))

    def about(settings)
      ["#{Gyre::Units.count(settings[:rounds], 'round')} of #{settings[:seconds]} s, the two taking turns, a fresh process each time; " \
       "cells are medians (lowest–highest round).",
       "Both run the same programs by `require \"eventmachine\"`. EventMachine polls by epoll (`EM.epoll`); its default is select."]
    end

    def targets
      limits = SCENARIOS.to_h { |scenario| [scenario, scenario.key == "udp" ? 0.9 : 0.8] }
      limits.filter_map do |scenario, limit|
        ratio("#{scenario.title}: CPU time", :at_most, limit, scenario.key, :cpu_us, "gyre", "eventmachine") unless scenario.is_a?(Idle)
      end << ratio("memory of an idle connection", :at_most, 1.0, "idle", :rss_kb_each, "gyre", "eventmachine")
    end
  end
end
