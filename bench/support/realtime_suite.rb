# frozen_string_literal: true

# bench/realtime: echoes and broadcasts over WebSockets, and what idle sockets and event streams
# hold, beside Iodine, node's ws, Falcon and C on epoll.

require_relative "load_client"
require_relative "servers"
require_relative "suite"

module Bench
  # WebSockets and event streams.
  class RealtimeSuite < Suite
    LABELS = { "gyre" => "Gyre, with a handler", "gyre-fiber" => "Gyre, a fiber for each socket", "iodine" => "Iodine",
               "ws" => "node, ws", "falcon" => "Falcon, async-websocket", "c" => "C, epoll",
               "gyre-cable" => "Action Cable on Gyre", "gyre-hijack-cable" => "Action Cable on Gyre, hijacked",
               "puma-cable" => "Action Cable on Puma", "puma-anycable" => "AnyCable's Rack server on Puma" }.freeze
    NODE_PACKAGES = %w[ws bufferutil].freeze

    # How each server is started.
    module Realtime
      APPS = File.join(ROOT, "bench/apps/realtime")

      module_function

      def server(subject)
        Server.new("realtime-#{subject}", environment(subject)) { |port| command(subject, port) }
      end

      def environment(subject)
        case subject
        when "c" then {}
        when "ws" then { "NODE_ENV" => "production", "NODE_PATH" => File.join(Realtime.node_folder, "node_modules") }
        else Servers.ruby_environment.merge("REALTIME" => subject.delete_prefix("gyre-"))
        end
      end

      def command(subject, port)
        app = File.join(APPS, "#{subject[/[a-z]*cable\z/] || subject[/\w+/]}.ru")
        case subject
        when "c" then [Setup.compiled("websocket_reference", "-lcrypto"), port.to_s]
        when "ws" then [Setup.program("node"), File.join(APPS, "ws.js"), port.to_s]
        else Servers::COMMANDS.fetch(subject[/\w+/]).call(port).map { |word| word == Servers::APP ? app : word }
        end
      end

      # node's packages, below tmp/bench like the gems.
      def install_node_packages
        return if Dir.exist?(File.join(node_folder, "node_modules/ws"))

        FileUtils.mkdir_p(node_folder)
        Setup.run({}, Setup.program("npm"), "install", "--prefix", node_folder, "--no-audit", "--no-fund", "--silent", *NODE_PACKAGES)
      end

      def node_version = JSON.parse(File.read(File.join(node_folder, "node_modules/ws/package.json"))).fetch("version")
      def node_folder = File.join(WORK, "node")
    end

    # A scenario has a fresh server for each sample.
    class RealtimeScenario < Scenario
      SETTLE_S = 1 # after clients have opened

      private

      def serve(subject)
        Realtime.install_node_packages if subject == "ws"
        server = Realtime.server(subject).start
        yield server
      rescue Problem => e
        raise Problem, [e.message, *("the server has ended" unless server&.alive?), server&.printed].join("\n")
      ensure
        server&.stop
      end

      def hold(server, count)
        LoadClient.hold(Setup.compiled("websocket_load"), @kind, server.port, count, 64) do |clients|
          sleep SETTLE_S
          yield clients
        end
      end
    end

    # Messages that come back, to their sender or to all.
    class Messages < RealtimeScenario
      # The core that takes what is sent on loopback; 0: the sender's.
      RECEIVER = "/sys/class/net/lo/queues/rx-0/rps_cpus"
      OWN = Column.new("without the clients' side, µs", :own_us, 2)
      HALF = Column.new("until half have it, ms", :half_ms, 1)
      DELIVERIES = ["deliveries/s", "server CPU, µs a delivery"].freeze
      COLUMNS = { "echo" => ["echoes/s", "server CPU, µs an echo"] }.freeze
      MORE = { "broadcast" => [OWN], "room" => [HALF] }.freeze

      def initialize(key, title, subjects, kind:, clients:)
        rate, cost = COLUMNS.fetch(kind, DELIVERIES)
        super(key, title, subjects: subjects,
                          columns: [Column.new(rate, :messages_per_s, 0), Column.new(cost, :cpu_us, 2), *MORE[kind],
                                    Column.new("RSS, MB", :rss_mb, 1)])
        @kind = kind
        @clients = clients
      end

      def measure(subject, settings)
        serve(subject) do |server|
          hold(server, @clients) do |clients|
            LoadClient.messages(clients, server, [settings[:seconds] / 2, 1].max)
            result = LoadClient.messages(clients, server, settings[:seconds])
            own = received_elsewhere { LoadClient.messages(clients, server, settings[:seconds]) } if columns.include?(OWN)
            { messages_per_s: result["messages"] / result["seconds"], cpu_us: result["cpu_us"], own_us: own&.fetch("cpu_us"),
              half_ms: result["half_ms"], rss_mb: server.tree.rss_kb / 1024.0 }
          end
        end
      end

      private

      # Returns nil where the setting cannot be changed.
      def received_elsewhere
        return unless File.writable?(RECEIVER)

        before = File.read(RECEIVER)
        File.write(RECEIVER, (1 << LOAD_CORE).to_s(16))
        yield
      ensure
        File.write(RECEIVER, before) if before
      end
    end

    # Sockets, event streams or cables that are left alone. The server had some before, so that what
    # opening them leaves to the collector does not count.
    class Idle < RealtimeScenario
      COUNT = 15_000 # `ulimit -n` of 16,000 is enough
      CABLES = 5000
      WARM_UP = 2000

      def initialize(key, title, subjects, kind, count = COUNT)
        super(key, "#{title} (#{count.to_s.insert(-4, ',')} open)", subjects: subjects,
              columns: [Column.new("RSS, KB each", :rss_kb_each, 2), Column.new("RSS with none, MB", :rss_before_mb, 1),
                        Column.new("RSS with all, MB", :rss_mb, 1), Column.new("CPU, ms a second", :cpu_ms, 1),
                        *([Column.new("threads", :threads, 0)] if kind == "cables")])
        @kind = kind
        @count = count
      end

      def measure(subject, settings)
        serve(subject) do |server|
          before_kb = hold(server, WARM_UP) { server.tree.rss_kb }
          hold(server, @count) do
            before_s = server.tree.cpu_s
            sleep(seconds = settings[:seconds] * 2)
            { rss_kb_each: (server.tree.rss_kb - before_kb) / (@count - WARM_UP).to_f, rss_before_mb: before_kb / 1024.0,
              rss_mb: server.tree.rss_kb / 1024.0, cpu_ms: (server.tree.cpu_s - before_s) / seconds * 1e3,
              threads: server.tree.threads }
          end
        end
      end
    end

    CABLES = %w[gyre-cable gyre-hijack-cable puma-cable].freeze
    MANY_CABLES = [*CABLES, "puma-anycable"].freeze
    ALL = (LABELS.keys - MANY_CABLES).freeze
    SCENARIOS = [
      Messages.new("echo-100", "Echo of 64 bytes, 100 sockets", ALL, kind: "echo", clients: 100),
      Messages.new("echo-1000", "Echo of 64 bytes, 1,000 sockets", ALL, kind: "echo", clients: 1000),
      Messages.new("broadcast-1000", "Broadcast of 64 bytes to 1,000 sockets", ALL, kind: "broadcast", clients: 1000),
      Messages.new("broadcast-10000", "Broadcast of 64 bytes to 10,000 sockets", ALL - %w[falcon], kind: "broadcast", clients: 10_000),
      Messages.new("burst-1000", "Bursts of 100 messages of 64 bytes to 1,000 sockets", ALL - %w[falcon], kind: "burst", clients: 1000),
      Idle.new("idle-sockets", "Memory of an idle socket", ALL - %w[c falcon], "sockets"),
      Idle.new("idle-events", "Memory of an idle event stream", ALL - %w[c falcon], "events"),
      Idle.new("idle-cables", "Memory of an idle cable", CABLES, "cables", Idle::CABLES),
      Messages.new("room-2000", "Action Cable: broadcast of 64 bytes to 2,000 cables", MANY_CABLES, kind: "room", clients: 2000),
      Messages.new("room-5000", "Action Cable: broadcast of 64 bytes to 5,000 cables", CABLES, kind: "room", clients: 5000)
    ].freeze

    def name = "realtime"
    def title = "WebSockets, broadcast and event streams: Gyre, Iodine, node's ws, Falcon and C"
    def cores = "The server on one core, the load on the other, one worker each."
    def scenarios = SCENARIOS
    def labels = LABELS
    def defaults = { rounds: 3, seconds: 3 }
    def programs(subjects) = ["taskset", "cc", *(%w[node npm] if subjects.include?("ws"))]

    def versions(subjects)
      Realtime.install_node_packages if subjects.include?("ws")
      gems = Setup.gem_versions.slice("iodine", "falcon", "async-websocket", "puma", "actioncable", "anycable-rack-server")
      { "gyre" => Machine.gyre, **gems, **(subjects.include?("ws") ? { "ws" => Realtime.node_version } : {}) }
    end

    def about(settings)
      ["#{Gyre::Units.count(settings[:rounds], 'round')} of #{settings[:seconds]} s, servers taking turns, a fresh process each time; " \
       "cells are medians (lowest–highest round).",
       "The load client never sleeps, because the kernel would charge its wake-ups to the server that sends, and a client on another " \
       "machine costs a server none. A figure is the median of slices of a quarter of a second.",
       "On loopback a sender also runs the receiver's TCP. Without the clients' side: the load's core runs it, as another machine would.",
       "Messages are not compressed. C makes no checks. Action Cable pings each cable every three seconds.",
       "Falcon is left out where it needs most of a minute to open the sockets."]
    end

    def targets
      echoes = [100, 1000].flat_map do |count|
        [ratio("echo, #{count} sockets: CPU time against Iodine's", :at_most, 0.75, "echo-#{count}", :cpu_us, "gyre", "iodine"),
         ratio("… against C on epoll", :at_most, 1.3, "echo-#{count}", :cpu_us, "gyre", "c")]
      end
      broadcasts = [1000, 10_000].flat_map do |count|
        [best("broadcast to #{count}: CPU time against the best peer", 0.65, "broadcast-#{count}", :cpu_us),
         best("… without the clients' side", 0.65, "broadcast-#{count}", :own_us)]
      end
      idle = { "sockets" => "idle socket", "events" => "idle event stream" }.flat_map do |kind, text|
        [figure("#{text}, resident, without a fiber", :at_most, 1, " KB", 2, "idle-#{kind}", :rss_kb_each),
         figure("… with one", :at_most, 14, " KB", 2, "idle-#{kind}", :rss_kb_each, subject: "gyre-fiber")]
      end
      echoes + broadcasts + idle + cables
    end

    private

    def cables
      [ratio("5,000 idle cables: memory against Puma's", :at_most, 0.5, "idle-cables", :rss_mb, "gyre-cable", "puma-cable"),
       *[2000, 5000].map do |count|
         ratio("broadcast to #{count} cables: CPU time against Puma's", :at_most, 0.33, "room-#{count}", :cpu_us, "gyre-cable", "puma-cable")
       end]
    end

    def best(text, limit, key, metric)
      Target.new(text: text, direction: :at_most, limit: limit, unit: " ×", decimals: 2,
                 measure: ->(results) { %w[iodine ws].filter_map { |other| results.ratio(key, metric, "gyre", other) }.max })
    end
  end
end
