# frozen_string_literal: true

# Runs the micro-benchmarks, each in a fresh process for each scheduler, and the raw socket server under wrk; several
# interleaved rounds. Prints progress. bench/scheduler calls it; the report is written elsewhere.

require "json"
require "timeout"
require_relative "answers"
require_relative "markdown"
require_relative "nginx"
require_relative "results"
require_relative "scheduler_work"
require_relative "schedulers"
require_relative "server"
require_relative "wrk"

module Bench
  # One run of bench/scheduler.
  class SchedulerRun
    # The raw socket server, by how many connections wrk opens.
    RAW = { "raw-64" => 64, "raw-1024" => 1024, "raw-8192" => 8192 }.freeze
    # Measured beside the schedulers as the raw server.
    NGINX = "nginx"
    # What select(2) was not made for.
    WITHOUT = [%w[raw-8192 gyre-select]].freeze
    BENCHMARKS = (SchedulerWork::ALL.keys + RAW.keys).freeze

    CHILD_LIMIT_S = 120

    # @param benchmarks [Array<String>] of BENCHMARKS
    # @param schedulers [Array<String>] of Schedulers::NAMES
    # @param rounds [Integer]
    # @param seconds [Integer] how long wrk measures
    # @param scale [Float] part of the usual number of operations
    def initialize(benchmarks:, schedulers:, rounds:, seconds:, scale: 1.0)
      @benchmarks = benchmarks
      @schedulers = schedulers
      @rounds = rounds
      @seconds = seconds
      @scale = scale
      @results = Results.new
    end

    # @return [Results]
    def call
      @benchmarks.each do |benchmark|
        Setup.say benchmark
        @rounds.times do |round|
          subjects = RAW.key?(benchmark) ? [*@schedulers, NGINX] : @schedulers
          subjects.rotate(round).each { |subject| sample(benchmark, subject) unless WITHOUT.include?([benchmark, subject]) }
        end
      end
      @results
    end

    private

    def sample(benchmark, scheduler)
      return if @results.problem?(benchmark, scheduler)

      sample = RAW.key?(benchmark) ? raw(scheduler, RAW[benchmark]) : micro(benchmark, scheduler)
      @results.add(benchmark, scheduler, sample)
      Setup.say format("  %-14s %8.2f µs CPU", scheduler, sample[:cpu_us])
    rescue Problem => e
      Setup.say "  #{scheduler.ljust(14)} FAILED: #{e.message}"
      @results.problem(benchmark, scheduler, e.message.lines.first.strip)
    end

    def micro(benchmark, scheduler)
      count = (SchedulerWork::ALL.fetch(benchmark)[1] * @scale).to_i
      script = File.join(__dir__, "scheduler_child.rb")
      text = output(environment(scheduler), *Setup.ruby_command(script, scheduler, benchmark, count.to_s))
      result = JSON.parse(text.lines.last, symbolize_names: true)
      operations = result[:operations]
      { cpu_us: result[:cpu_s] / operations * 1e6, wall_us: result[:wall_s] / operations * 1e6 }
    end

    def raw(subject, connections)
      server = raw_server(subject).start
      Answers.check(server.port, "/")
      load = { connections: connections, threads: connections > 1024 ? 4 : 1 }
      Wrk.run(server.url("/"), seconds: [@seconds / 2, 1].max, **load)
      cpu_before_s = server.tree.cpu_s
      result = Wrk.run(server.url("/"), seconds: @seconds, **load)
      raise Problem, "no request was answered within #{@seconds} s" if result.requests.zero?

      { cpu_us: (server.tree.cpu_s - cpu_before_s) / result.requests * 1e6, requests_per_s: result.requests_per_s,
        p50_ms: result.p50_ms, p99_ms: result.p99_ms, errors: result.errors }
    ensure
      server&.stop
    end

    def raw_server(subject)
      return Server.new(NGINX) { |port| Nginx.command(port) } if subject == NGINX

      script = File.join(ROOT, "bench/apps/socket_server.rb")
      Server.new("socket-#{subject}", environment(subject)) { |port| Setup.ruby_command(script, subject, port.to_s) }
    end

    # @return [String] what the process printed
    # @raise [Problem] when it fails or takes too long
    def output(environment, *command)
      io = IO.popen([environment, "taskset", "-c", SERVER_CORE.to_s, *command, { err: %i[child out] }])
      text = Timeout.timeout(CHILD_LIMIT_S) { io.read }
      io.close
      return text if $CHILD_STATUS.success?

      raise Problem, text.empty? ? "ended with #{$CHILD_STATUS}" : text
    rescue Timeout::Error
      raise Problem, "not finished within #{CHILD_LIMIT_S} s"
    ensure
      Process.kill(:KILL, io.pid) if io && !io.closed?
      io&.close
    end

    def environment(scheduler)
      Setup.gem_environment.merge(Setup.yjit_environment, Schedulers::ENVIRONMENT.fetch(scheduler))
    end
  end
end
