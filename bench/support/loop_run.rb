# frozen_string_literal: true

# Runs the servers of bench/apps/loop_server.rb under wrk at Ever's four settings; in each round all servers have their turn.
# Prints progress. bench/loop calls it; the report is written elsewhere.

require_relative "results"
require_relative "server"
require_relative "wrk"

module Bench
  # One run of bench/loop.
  class LoopRun
    # wrk's settings in Ever's README: name => [threads, connections].
    LOADS = { "t2-c10" => [2, 10], "t4-c64" => [4, 64], "t8-c256" => [8, 256], "t8-c1024" => [8, 1024] }.freeze

    # name => [what bench/apps/loop_server.rb is to run, what is said in the report].
    SERVERS = {
      "gyre" => [%w[gyre single], "Gyre, one thread"],
      "gyre-watches" => [%w[gyre watches], "Gyre, one thread, persistent watches"],
      "ever" => [%w[ever single], "Ever, one thread"],
      "nio4r" => [%w[nio4r single], "nio4r, one thread"],
      "gyre-1" => [%w[gyre workers-1], "Gyre, 1 worker thread"],
      "ever-1" => [%w[ever workers-1], "Ever, 1 worker thread"],
      "nio4r-1" => [%w[nio4r workers-1], "nio4r, 1 worker thread"],
      "gyre-4" => [%w[gyre workers-4], "Gyre, 4 worker threads"],
      "ever-4" => [%w[ever workers-4], "Ever, 4 worker threads"],
      "nio4r-4" => [%w[nio4r workers-4], "nio4r, 4 worker threads"],
      "gyre-queues" => [%w[gyre queues-4], "Gyre, 4 worker threads, separate queues"],
      "ever-queues" => [%w[ever queues-4], "Ever, 4 worker threads, separate queues"]
    }.freeze

    # @param loads [Array<String>] of LOADS
    # @param servers [Array<String>] of SERVERS
    # @param rounds [Integer]
    # @param seconds [Integer] how long wrk measures
    def initialize(loads:, servers:, rounds:, seconds:)
      @loads = loads
      @servers = servers
      @rounds = rounds
      @seconds = seconds
      @results = Results.new
    end

    # @return [Results]
    def call
      @loads.each do |load|
        Setup.say load
        @rounds.times { |round| @servers.rotate(round).each { |name| sample(load, name) } }
      end
      @results
    end

    private

    def sample(load, name)
      return if @results.problem?(load, name)

      sample = measure(name, *LOADS.fetch(load))
      @results.add(load, name, sample)
      Setup.say format("  %-14s %8d requests/s %8.2f µs CPU", name, sample[:requests_per_s], sample[:cpu_us])
    rescue Problem => e
      Setup.say "  #{name.ljust(14)} FAILED: #{e.message}"
      @results.problem(load, name, e.message.lines.first.strip)
    end

    def measure(name, threads, connections)
      script = File.join(ROOT, "bench/apps/loop_server.rb")
      server = Server.new("loop-#{name}", Setup.gem_environment.merge(Setup.yjit_environment)) do |port|
        Setup.ruby_command(script, *SERVERS.fetch(name).first, port.to_s)
      end
      server.start
      Wrk.run(server.url("/"), threads: threads, connections: connections, seconds: [@seconds / 2, 1].max)
      cpu_before_s = server.tree.cpu_s
      result = Wrk.run(server.url("/"), threads: threads, connections: connections, seconds: @seconds)
      raise Problem, "no request was answered within #{@seconds} s" if result.requests.zero?

      { cpu_us: (server.tree.cpu_s - cpu_before_s) / result.requests * 1e6, requests_per_s: result.requests_per_s,
        p50_ms: result.p50_ms, p99_ms: result.p99_ms, errors: result.errors }
    ensure
      server&.stop
    end
  end
end
