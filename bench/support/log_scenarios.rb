# frozen_string_literal: true

# What bench/log measures: each scenario has its subjects (a server, or a client of ours or
# Analogger's), how one sample of one is taken, and the columns of its table. What a sample wrote is
# compared with what was sent, line by line, before it counts.

require "json"
require "timeout"
require_relative "log_load"
require_relative "log_servers"
require_relative "suite"

module Bench
  # What the log's scenarios have in common.
  class LogScenario < Scenario
    def heading = "#{key}\n\n#{title}."
  end

  # A server takes numbered messages as fast as it can: rate until the last line is in the file, and
  # until fdatasync of the file has returned; CPU time and memory of the server. A subject that
  # takes part on another wire has a name of its own.
  class FloodScenario < LogScenario
    COLUMNS = [Column.new("messages", :sent, 0), Column.new("in the file, messages/s", :written_per_s, 0),
               Column.new("with fdatasync, messages/s", :synced_per_s, 0), Column.new("server CPU, µs a message", :cpu_us, 2),
               Column.new("peak RSS, MB", :rss_mb, 0), Column.new("out of order", :disordered, 0)].freeze
    WARM_UP = 100_000

    def initialize(key, title, size:, connections:, subjects:, columns: [])
      super(key, title, subjects: subjects.keys, columns: COLUMNS + columns)
      @size = size
      @connections = connections
      @loads = subjects
    end

    def measure(subject, settings)
      name, wire, count = @loads.fetch(subject)
      count = (count * settings[:scale]).to_i / @connections * @connections
      LogServer.run(name) do |server|
        load = { port: wire.start_with?("rfc5424") ? server.syslog_port : server.port, wire: wire, size: @size, file: server.file }
        LogLoad.flood(**load, count: [WARM_UP, count / 4].min, connections: 1) { nil }
        before = nil
        result = LogLoad.flood(**load, count: count, connections: @connections) { before = [server.bytes, server.tree.cpu_s] }
        cpu_s = server.tree.cpu_s - before.last
        disordered = LogLoad.verify(file: server.file, offset: before.first, size: @size, count: count, connections: @connections)
        sample(count, cpu_s, result).merge(rss_mb: server.tree.peak_rss_kb / 1024.0, disordered: disordered)
      end
    end

    private

    def sample(count, cpu_s, result)
      acknowledged_per_s = count / result[:acknowledged_s] if result[:acknowledged_s].positive?
      { sent: count, written_per_s: count / result[:written_s], synced_per_s: count / result[:synced_s], cpu_us: cpu_s / count * 1e6,
        acknowledged_per_s: acknowledged_per_s }
    end
  end

  # One client in a process of its own logs to our server: rate as the caller sees it, until flush
  # has returned, until all is in the file; CPU time of the client's whole process.
  class ClientScenario < LogScenario
    COLUMNS = [Column.new("messages", :sent, 0), Column.new("logged, messages/s", :logged_per_s, 0),
               Column.new("flushed, messages/s", :flushed_per_s, 0), Column.new("in the file, messages/s", :written_per_s, 0),
               Column.new("client CPU, µs a message", :cpu_us, 2), Column.new("server CPU, µs a message", :server_cpu_us, 2)].freeze
    SUBJECTS = { "gyre" => "unacknowledged", "analogger" => "analogger", "gyre-acknowledged" => "acknowledged" }.freeze
    LIMIT_S = 120

    def initialize(key, title, size:, count:)
      super(key, title, subjects: SUBJECTS.keys, columns: COLUMNS)
      @size = size
      @count = count
    end

    def measure(subject, settings)
      count = (@count * settings[:scale]).to_i
      LogServer.run("gyre") do |server|
        result = converse(server, SUBJECTS.fetch(subject), count)
        LogLoad.verify(file: server.file, offset: 0, size: @size, count: count, connections: 1)
        { sent: count, logged_per_s: count / result[:logged_s], flushed_per_s: count / result[:flushed_s],
          written_per_s: count / result[:written_s], cpu_us: result[:cpu_s] / count * 1e6, server_cpu_us: result[:server_cpu_s] / count * 1e6 }
      end
    end

    private

    def converse(server, client, count)
      folder = server.folder("client")
      environment = Setup.gem_environment.merge(Setup.yjit_environment, "TMPDIR" => folder)
      script = File.join(__dir__, "log_client.rb")
      command = ["taskset", "-c", LOAD_CORE.to_s, *Setup.ruby_command(script, client, server.port.to_s, @size.to_s, count.to_s, folder)]
      io = IO.popen([environment, *command, { err: [complaints = File.join(WORK, "log-client.log"), "w"] }], "r+")
      Timeout.timeout(LIMIT_S) { take(io, server, count) }
    rescue EOFError, Errno::EPIPE
      raise Problem, "the client ended: #{File.read(complaints)}"
    rescue Timeout::Error
      raise Problem, "the client did not end within #{LIMIT_S} s; #{server.bytes} bytes were written"
    ensure
      LogLoad.finish(io)
    end

    def take(io, server, count)
      io.readline # ready
      before_s = server.tree.cpu_s
      begin_s = now
      io.puts "go"
      result = JSON.parse(io.readline, symbolize_names: true)
      # A line: YYYY/MM/DD HH:MM:SS|bench|info|message
      sleep 0.001 until server.bytes >= count * (32 + @size)
      result.update(written_s: now - begin_s, server_cpu_s: server.tree.cpu_s - before_s)
      io.puts "end"
      result
    end

    def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  end

  # Many connections that send a little each: how late a line is in the file, whether the server
  # grows.
  class TrickleScenario < LogScenario
    CONNECTIONS = 1000
    RATE = 10
    SECONDS = 18
    SIZE = 100
    COLUMNS = [Column.new("messages", :noted, 0), Column.new("p50, ms", :p50_ms, 0), Column.new("p99, ms", :p99_ms, 0),
               Column.new("max, ms", :max_ms, 0), Column.new("server CPU, µs a message", :cpu_us, 2),
               Column.new("RSS in the second third, MB", :rss_middle_mb, 1), Column.new("in the last third, MB", :rss_late_mb, 1)].freeze
    SUBJECTS = { "gyre" => "analogger", "gyre-0.1" => "analogger", "analogger" => "analogger", "rsyslog" => "syslog" }.freeze

    def initialize
      super("trickle", "#{CONNECTIONS} connections, #{RATE} messages of #{SIZE} bytes a second on each: from send to the line in the file",
            subjects: SUBJECTS.keys, columns: COLUMNS)
    end

    def measure(subject, settings)
      LogServer.run(subject) do |server|
        resident = []
        before_s = 0
        watch = -> { resident << (server.tree.rss_kb / 1024.0) }
        load = { port: server.port, wire: SUBJECTS.fetch(subject), size: SIZE, file: server.file, rate: RATE, connections: CONNECTIONS }
        result = LogLoad.trickle(**load, seconds: [(SECONDS * settings[:scale]).to_i, 6].max, watch: watch) { before_s = server.tree.cpu_s }
        cpu_s = server.tree.cpu_s - before_s
        { noted: result[:noted], p50_ms: result[:p50_s] * 1000, p99_ms: result[:p99_s] * 1000, max_ms: result[:max_s] * 1000,
          cpu_us: cpu_s / result[:noted] * 1e6, **memory(resident) }
      end
    end

    private

    # Medians, since a heap breathes.
    def memory(resident)
      third = [resident.size / 3, 1].max
      { rss_middle_mb: Results.median(resident[third, third] || resident), rss_late_mb: Results.median(resident.last(third)) }
    end
  end

  # All scenarios, in the order in which they are run and reported.
  module LogScenarios
    # How many messages, by their size, so that each takes some seconds: the last ones wait for a
    # timer, a second at most.
    GYRE = { 10 => 10_000_000, 100 => 5_000_000 }.freeze
    RSYSLOG = { 10 => 2_000_000, 100 => 2_000_000 }.freeze
    ANALOGGER = { 10 => 400_000, 100 => 400_000 }.freeze
    RSYSLOG_SYNC = { 10 => 100_000, 100 => 100_000 }.freeze
    ACKNOWLEDGED_COLUMN = [Column.new("acknowledged, messages/s", :acknowledged_per_s, 0)].freeze

    module_function

    def wire
      [10, 100].product([1, 200]).map do |size, connections|
        subjects = { "gyre" => ["gyre", "analogger", GYRE[size]], "analogger" => ["analogger", "analogger", ANALOGGER[size]],
                     "rsyslog" => ["rsyslog", "syslog", RSYSLOG[size]], "rsyslog-tuned" => ["rsyslog-tuned", "syslog", RSYSLOG[size]],
                     "rsyslog-sync" => ["rsyslog-sync", "syslog", RSYSLOG_SYNC[size]] }
        FloodScenario.new("wire-#{size}-#{connections}", "Analogger's wire: #{size} bytes, #{Gyre::Units.count(connections, 'connection')}",
                          size: size, connections: connections, subjects: subjects)
      end
    end

    def acknowledged
      [10, 100].product([1, 200]).map do |size, connections|
        subjects = { "gyre" => ["gyre", "analogger", GYRE[size]], "gyre-acknowledged" => ["gyre", "records", GYRE[size]] }
        title = "Acknowledged, group commit of 10 ms: #{size} bytes, #{Gyre::Units.count(connections, 'connection')}"
        FloodScenario.new("acknowledged-#{size}-#{connections}", title,
                          size: size, connections: connections, subjects: subjects, columns: ACKNOWLEDGED_COLUMN)
      end
    end

    def rfc5424
      { "lines" => "rfc5424", "octets" => "rfc5424-octet" }.map do |framing, wire|
        subjects = { "gyre" => GYRE, "rsyslog" => RSYSLOG, "rsyslog-tuned" => RSYSLOG }.to_h { |name, counts| [name, [name, wire, counts[100]]] }
        FloodScenario.new("rfc5424-#{framing}", "RFC 5424: 100 bytes, 1 connection, #{framing == 'lines' ? 'a line each' : 'octets counted'}",
                          size: 100, connections: 1, subjects: subjects)
      end
    end

    def client
      [10, 100].product([100_000, 1_000_000]).map do |size, count|
        ClientScenario.new("client-#{size}-#{count / 1000}k", "Clients on our server: #{Markdown.number(count, 0)} messages of #{size} bytes",
                           size: size, count: count)
      end
    end

    ALL = [*wire, *client, *acknowledged, *rfc5424, TrickleScenario.new].freeze
  end
end
