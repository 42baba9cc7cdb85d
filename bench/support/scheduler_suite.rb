# frozen_string_literal: true

# bench/scheduler: the micro-benchmarks, each in a fresh process for each scheduler, and the raw
# socket server under wrk.

require "json"
require_relative "answers"
require_relative "child"
require_relative "nginx"
require_relative "scheduler_work"
require_relative "schedulers"
require_relative "suite"
require_relative "wrk"

module Bench
  # Fiber schedulers.
  class SchedulerSuite < Suite
    # The table that all micro-benchmarks share: a row each, a column for each scheduler.
    module Micro
      module_function

      def section(scenarios, subjects, results)
        names = subjects & Schedulers::NAMES
        headings = ["CPU, µs an operation", *names.map { |name| Schedulers::LABELS[name] }, "Async ÷ Gyre", "carbon_fiber ÷ Gyre"]
        rows = scenarios.map { |scenario| row(scenario.key, names, results) }
        meanings = scenarios.map { |scenario| "- **#{scenario.key}**: #{scenario.title}" }
        ["## Micro-benchmarks", Markdown.table(headings, rows), meanings.join("\n")].join("\n\n")
      end

      def row(key, names, results)
        ratios = %w[async carbon_fiber].map { |other| results.ratio(key, :cpu_us, other, "gyre") }
        [key, *names.map { |name| Markdown.cell(results.values(key, name, :cpu_us), 2) },
         *ratios.map { |ratio| ratio ? format("%.2f", ratio) : "–" }]
      end
    end

    # One micro-benchmark.
    class Operations < Scenario
      LIMIT_S = 120

      def initialize(key)
        _method, @count, meaning = SchedulerWork::ALL.fetch(key)
        super(key, meaning, subjects: Schedulers::NAMES, columns: [Column.new("µs CPU", :cpu_us, 2)])
      end

      def pivot = Micro

      def measure(scheduler, settings)
        script = File.join(__dir__, "scheduler_child.rb")
        command = Setup.ruby_command(script, scheduler, key, (@count * settings[:scale]).to_i.to_s)
        text = Child.output(Schedulers.environment(scheduler), *command, limit_s: LIMIT_S)
        result = JSON.parse(text.lines.last, symbolize_names: true)
        operations = result[:operations]
        { cpu_us: result[:cpu_s] / operations * 1e6, wall_us: result[:wall_s] / operations * 1e6 }
      end
    end

    # The raw socket server.
    class Raw < Scenario
      # Measured beside the schedulers.
      NGINX = "nginx"

      def initialize(connections, subjects)
        super("raw-#{connections}", "Raw socket server (accept, gets, write; a fiber each), #{connections} connections",
              subjects: [*subjects, NGINX], columns: Wrk::COLUMNS)
        @connections = connections
      end

      def measure(subject, settings)
        server = server(subject).start
        Answers.check(server.port, "/")
        Wrk.sample(server, seconds: settings[:seconds], connections: @connections, threads: @connections > 1024 ? 4 : 1)
      ensure
        server&.stop
      end

      private

      def server(subject)
        return Server.new(NGINX) { |port| Nginx.command(port) } if subject == NGINX

        script = File.join(ROOT, "bench/apps/socket_server.rb")
        Server.new("socket-#{subject}", Schedulers.environment(subject)) { |port| Setup.ruby_command(script, subject, port.to_s) }
      end
    end

    SCENARIOS = [*SchedulerWork::ALL.keys.map { |key| Operations.new(key) },
                 *[64, 1024].map { |connections| Raw.new(connections, Schedulers::NAMES) },
                 Raw.new(8192, Schedulers::NAMES - ["gyre-select"])].freeze # what select(2) was not made for

    def name = "scheduler"
    def title = "Fiber schedulers: Gyre, Async and carbon_fiber"
    def cores = "Each process on one core, wrk on the other."
    def scenarios = SCENARIOS
    def subject_option = "schedulers"
    def subjects = Schedulers::NAMES
    def labels = Schedulers::LABELS
    def row_heading = "scheduler"
    def defaults = { rounds: 3, seconds: 4, scale: 1.0 }
    def quick = { rounds: 1, seconds: 1, scale: 0.1 }
    def programs(_subjects) = %w[taskset wrk nginx]
    def versions(_subjects) = { "gyre" => Machine.gyre }.merge(Setup.gem_versions.slice("async", "io-event", "carbon_fiber"))
    # nginx is always measured.
    def available(subjects) = subjects | [Raw::NGINX]
    def targets_note = nil

    def about(settings)
      ["#{Gyre::Units.count(settings[:rounds], 'round')}, schedulers taking turns, a fresh process each time; " \
       "cells are medians (lowest–highest round)."]
    end

    def targets
      [
        *{ "ping-pong" => 0.75, "timeout" => 0.8, "timers" => 0.9 }.map { |key, limit| against_best(key, limit) },
        *%w[pipes task queue].map { |key| against_best(key, 0.75) },
        against("async", "sleep0", 0.4), against_best("raw-64", 1.0), against_best("raw-1024", 1.0),
        against("nginx", "raw-64", 1.15), keeps_rate("raw-8192", "raw-64", 0.55)
      ]
    end

    private

    # Gyre's CPU time against that of the best other scheduler.
    def against_best(key, limit)
      Target.new(text: "#{key}: Gyre's CPU time against the best other scheduler's", direction: :at_most, limit: limit, unit: " ×",
                 decimals: 2, measure: lambda { |results|
                   Schedulers::OTHERS.map { |other| results.ratio(key, :cpu_us, "gyre", other) }.compact.max
                 })
    end

    def against(other, key, limit)
      ratio("#{key}: Gyre's CPU time against #{other}'s", :at_most, limit, key, :cpu_us, "gyre", other)
    end

    # Requests a second with many connections against those with few.
    def keeps_rate(many, few, limit)
      Target.new(text: "#{many}: requests a second, against #{few}", direction: :at_least, limit: limit, unit: " ×", decimals: 2,
                 measure: lambda { |results|
                   rates = [many, few].map { |key| results.median(key, "gyre", :requests_per_s) }
                   rates[0] / rates[1] if rates.all?
                 })
    end
  end
end
