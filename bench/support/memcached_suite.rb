# frozen_string_literal: true

# bench/memcached: 100,000 set, get and delete of small values by each client, in a fresh process on
# one core, against one memcached on the other; and the same with a millisecond of latency added.

require "json"
require_relative "child"
require_relative "memcached_work"
require_relative "suite"

module Bench
  # Clients of memcached.
  class MemcachedSuite < Suite
    # One way to memcached.
    class Clients < Scenario
      COUNT = 100_000 # of each command
      LIMIT_S = 300

      def initialize(key, title, subjects = MemcachedWork::LABELS.keys)
        super(key, title, subjects: subjects,
              columns: [Column.new("seconds", :wall_s, 3), Column.new("of these set", :set_s, 3), Column.new("get", :get_s, 3),
                        Column.new("delete", :delete_s, 3), Column.new("µs an operation", :wall_us, 2),
                        Column.new("client CPU, µs an operation", :cpu_us, 2), Column.new("memcached's", :server_cpu_us, 2)])
      end

      def measure(subject, settings)
        result = JSON.parse(output(subject, (count(subject) * settings[:scale]).to_i).lines.last, symbolize_names: true)
        operations = result[:operations]
        wall_s = result.values_at(:set_s, :get_s, :delete_s).sum
        { **result.slice(:set_s, :get_s, :delete_s), wall_s: wall_s, wall_us: wall_s / operations * 1e6,
          cpu_us: result[:cpu_s] / operations * 1e6, server_cpu_us: result[:server_cpu_s] / operations * 1e6 }
      end

      def finish
        @memcached&.stop
        @memcached = nil
      end

      private

      def count(_subject) = COUNT

      def memcached
        @memcached ||= Server.new("memcached", core: LOAD_CORE) do |port|
          ["memcached", "-l", "127.0.0.1", "-p", port.to_s, "-U", "0", "-t", "1", *(%w[-u nobody] if Process.uid.zero?)]
        end.start
      end

      # Returns where the clients find it.
      def port = memcached.port

      def output(subject, count)
        arguments = [port, count, memcached.tree.pids.first].map(&:to_s)
        child = subject == "libmemcached" ? [MemcachedSuite.libmemcached, *arguments]
                                          : Setup.ruby_command(File.join(__dir__, "memcached_child.rb"), subject, *arguments)
        Child.output(Setup.gem_environment.merge(Setup.yjit_environment), *child, limit_s: LIMIT_S)
      end
    end

    # The same through a proxy that delays each direction; those with one command under way make
    # fewer.
    class Delayed < Clients
      DELAY_US = 500 # in each direction
      SYNCHRONOUS = %w[dalli libmemcached gyre-thread gyre-1].freeze
      SUBJECTS = (MemcachedWork::LABELS.keys - %w[dalli-16-threads gyre-16-threads]).freeze

      def initialize
        super("latency", "With a millisecond of latency: #{DELAY_US} µs more in each direction", SUBJECTS)
      end

      def columns
        super.select { |column| column.metric.end_with?("_us") }
      end

      def finish
        @proxy&.stop
        @proxy = nil
        super
      end

      private

      def count(subject) = SYNCHRONOUS.include?(subject) ? COUNT / 100 : COUNT / 5

      def port
        target = memcached.port.to_s
        @proxy ||= Server.new("delaying-proxy", core: LOAD_CORE) do |port|
          [Setup.compiled("delaying_proxy"), port.to_s, target, DELAY_US.to_s]
        end.start
        @proxy.port
      end
    end

    SCENARIOS = [
      Clients.new("small", "#{Clients::COUNT / 1000},000 each of set, get and delete of small values"),
      Delayed.new
    ].freeze

    def name = "memcached"
    def title = "Clients of memcached: Gyre, Dalli, EventMachine, libmemcached and a bare socket"
    def cores = "The client on one core, memcached on the other."
    def scenarios = SCENARIOS
    def subject_option = "clients"
    def labels = MemcachedWork::LABELS
    def row_heading = "client"
    def defaults = { rounds: 3, scale: 1.0 }
    def quick = { rounds: 1, scale: 0.1 }
    def programs(subjects) = ["taskset", "cc", "memcached", *("libmemcached/memcached.h" if subjects.include?("libmemcached"))]

    def self.libmemcached = Setup.compiled("libmemcached_child", "-lmemcached")

    def versions(subjects)
      memcached = IO.popen(%w[memcached -V], &:read)[/[\d.]+/]
      library = { "libmemcached" => IO.popen(MemcachedSuite.libmemcached, &:read).chomp } if subjects.include?("libmemcached")
      { "gyre" => Machine.gyre, "memcached" => memcached, **library.to_h }.merge(Setup.gem_versions.slice("dalli", "eventmachine"))
    end

    def about(settings)
      ["#{Gyre::Units.count(settings[:rounds], 'round')}, clients taking turns, a fresh process each time; " \
       "cells are medians (lowest–highest round)."]
    end

    def targets
      [
        ratio("one fiber: time against Dalli's", :at_most, 0.6, "small", :wall_s, "gyre-1", "dalli"),
        ratio("100 fibers: time against the bare socket's", :at_most, 1.5, "small", :wall_s, "gyre-100", "socket"),
        ratio("100 fibers: times faster than Dalli", :at_least, 20, "small", :wall_s, "dalli", "gyre-100"),
        ratio("100 fibers: times faster than EventMachine's client", :at_least, 5, "small", :wall_s, "eventmachine", "gyre-100"),
        ratio("multi of #{MemcachedWork::BATCH}: time against Dalli's", :at_most, 0.6, "small", :wall_s, "gyre-multi", "dalli-multi"),
        figure("100 fibers: CPU time an operation", :at_most, 1.5, " µs", 2, "small", :cpu_us, subject: "gyre-100"),
        ratio("with latency, 100 fibers: times faster than Dalli", :at_least, 50, "latency", :wall_us, "dalli", "gyre-100"),
        ratio("with latency, 100 fibers: times faster than one", :at_least, 50, "latency", :wall_us, "gyre-1", "gyre-100")
      ]
    end
  end
end
