# frozen_string_literal: true

# bench/loop: the servers of bench/apps/loop_server.rb under wrk at Ever's four settings.

require_relative "suite"
require_relative "wrk"

module Bench
  # Keyed loops.
  class LoopSuite < Suite
    # name => [what bench/apps/loop_server.rb is to run, what the report calls it].
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

    # wrk with so many threads and connections, as in Ever's README; each round has a server that
    # was just started.
    class Load < Scenario
      def initialize(threads, connections)
        super("t#{threads}-c#{connections}", "wrk -t#{threads} -c#{connections}", subjects: SERVERS.keys, columns: Wrk::COLUMNS)
        @threads = threads
        @connections = connections
      end

      def measure(name, settings)
        script = File.join(ROOT, "bench/apps/loop_server.rb")
        server = Server.new("loop-#{name}", Setup.gem_environment.merge(Setup.yjit_environment)) do |port|
          Setup.ruby_command(script, *SERVERS.fetch(name).first, port.to_s)
        end
        Wrk.sample(server.start, seconds: settings[:seconds], threads: @threads, connections: @connections)
      ensure
        server&.stop
      end
    end

    SCENARIOS = [[2, 10], [4, 64], [8, 256], [8, 1024]].map { |threads, connections| Load.new(threads, connections) }.freeze

    def name = "loop"
    def title = "Keyed loops: Gyre, Ever and nio4r"
    def cores = "The server on one core, wrk on the other."
    def scenarios = SCENARIOS
    def labels = SERVERS.transform_values(&:last)
    def defaults = { rounds: 5, seconds: 4 }
    def versions(_subjects) = { "gyre" => Machine.gyre }.merge(Setup.gem_versions.slice("ever", "nio4r"))
    def targets_note = nil

    def about(settings)
      ["#{Gyre::Units.count(settings[:rounds], 'round')} of #{settings[:seconds]} s, servers taking turns, a fresh process each time; " \
       "cells are medians (lowest–highest round).",
       'All read, parse and write by the same code. "One thread" is the same program on Gyre and on Ever.']
    end

    # Ahead of the others' single-threaded servers in each column, with the same program and at
    # best.
    def targets
      SCENARIOS.map(&:key).product(%w[gyre gyre-watches], %w[ever nio4r]).map do |load, name, other|
        ratio("#{load}: #{labels[name]}: CPU time against #{other}'s", :at_most, 1, load, :cpu_us, name, other)
      end
    end
  end
end
