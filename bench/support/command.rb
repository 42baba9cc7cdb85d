# frozen_string_literal: true

# What the bench commands share: options, limits, an end that leaves nothing running, where a report
# is written.

require "optparse"
require_relative "bars"
require_relative "machine"
require_relative "report"
require_relative "results"
require_relative "run"
require_relative "server"

module Bench
  # The commands.
  module Command
    module_function

    # One of bench/http, loop, log, memcached, net and scheduler. Where a figure of Gyre's is
    # missing, it prints the reason, leaves the results as they were and exits with status 1.
    def measure(suite)
      run do
        options = options(suite)
        results, settings = options[:render] ? recall(suite.name, whole: options[:whole]) : take(suite, options)
        report = Report.new(suite, results, options[:scenarios], options[:subjects], settings)
        gaps = report.gaps
        publish(suite.name, report.text, whole: options[:whole] && gaps.empty?)
        abort "bench: #{gaps.join("\nbench: ")}\nbench: incomplete" if gaps.any?
      end
    end

    def options(suite)
      chosen = { scenarios: suite.scenarios, subjects: suite.subjects, whole: true, **suite.defaults }
      OptionParser.new("Usage: bench/#{suite.name} [options]") do |parser|
        keys = suite.scenarios.map(&:key)
        parser.on("--only SCENARIOS", "of #{keys.join(', ')}; the beginning of a name will do") do |names|
          wanted = names.split(",").flat_map { |name| keys.include?(name) ? name : beginning(name, keys) }
          chosen.update(scenarios: suite.scenarios.select { |scenario| wanted.include?(scenario.key) }, whole: false)
        end
        parser.on("--#{suite.subject_option} NAMES", "of #{suite.subjects.join(', ')}") do |names|
          chosen.update(subjects: choose(names, suite.subjects), whole: false)
        end
        settings(parser, suite, chosen)
        parser.on("--render", "write the last whole run's report again, with new notes") { chosen[:render] = true }
      end.parse!
      chosen
    end

    def settings(parser, suite, chosen)
      usual = suite.defaults
      parser.on("--rounds N", Integer, "how often each is measured (#{usual[:rounds]})") { |value| chosen[:rounds] = value }
      if usual[:seconds]
        parser.on("--seconds N", Integer, "how long each time (#{usual[:seconds]})") { |value| chosen[:seconds] = value }
      else
        parser.on("--scale X", Float, "part of the usual number of messages") { |value| chosen.update(scale: value, whole: false) }
      end
      parser.on("--short", "a whole run in less time: #{words(suite.short)}") { chosen.update(**suite.short) }
      parser.on("--quick", "a look: #{words(suite.quick)}") do
        chosen.update(whole: false, **suite.quick)
      end
    end

    def words(settings) = settings.map { |name, value| "#{name} #{value}" }.join(", ")

    def beginning(name, keys)
      found = keys.select { |key| key.start_with?(name) }
      found.empty? ? choose(name, keys) : found
    end

    def take(suite, options)
      Setup.check_ruby
      Setup.programs(*suite.programs(options[:subjects]))
      Setup.gems
      options[:subjects] = suite.available(options[:subjects].reject { |name| Setup.left_out.any? { |gem, _| name.start_with?(gem) } })
      values = options.slice(*suite.defaults.keys)
      settings = facts(versions: suite.versions(options[:subjects]), whole: options[:whole], left_out: Setup.left_out, **values)
      begin_s = Process.clock_gettime(Process::CLOCK_MONOTONIC)
      results = Run.new(options[:scenarios], options[:subjects], values).call
      Setup.say "took #{(Process.clock_gettime(Process::CLOCK_MONOTONIC) - begin_s).round} s"
      remember(suite.name, results, settings)
      [results, settings]
    end

    # Runs the block; whatever happens, no server stays behind.
    def run
      raise_descriptor_limit
      trap(:TERM) { raise Interrupt }
      trap(:HUP) { raise Interrupt }
      yield
    rescue Problem, OptionParser::ParseError => e
      abort "bench: #{e.message}"
    rescue Interrupt
      warn "bench: stopped"
      exit 130
    ensure
      Server.stop_all
    end

    def choose(names, known)
      chosen = names.split(",")
      unknown = chosen - known
      raise Problem, "unknown: #{unknown.join(', ')}; there are: #{known.join(', ')}" unless unknown.empty?

      chosen
    end

    # A whole run goes to bench/results; a partial one only below tmp/bench and to standard output.
    def publish(name, text, whole:)
      path = whole ? ResultFile.path(name) : File.join(WORK, "#{name}-partial.md")
      FileUtils.mkdir_p(File.dirname(path))
      File.write(path, text)
      puts text unless whole
      Setup.say "written: #{path.delete_prefix("#{ROOT}/")}"
      Setup.say "rake docs:figures takes it into README and the guides" if whole
      Bars.write if path == ResultFile.path("http", ResultFile::QUOTED_RUBY)
    end

    def raise_descriptor_limit
      _soft, hard = Process.getrlimit(:NOFILE)
      Process.setrlimit(:NOFILE, [hard, 65_536].min, hard)
    end

    def facts(**more)
      busy = Machine.load_average
      warn "bench: the machine is busy (load #{busy}): the figures will be void" if busy > 0.7
      { load_average: busy, date: Time.now.strftime("%Y-%m-%d"), machine: Machine.description, ruby: Machine.ruby, **more }
    end

    # Keeps a run's samples and facts below tmp/bench, so that its report can be written again.
    def remember(name, results, settings)
      path = memory(name, settings[:whole])
      FileUtils.mkdir_p(WORK)
      results.save("#{path}.json")
      File.write("#{path}.facts.json", JSON.generate(settings))
    end

    def recall(name, whole:)
      path = memory(name, whole)
      raise Problem, "no run to write a report of" unless File.exist?("#{path}.json")

      [Results.load("#{path}.json"), JSON.parse(File.read("#{path}.facts.json"), symbolize_names: true)]
    end

    def memory(name, whole)
      File.join(WORK, "#{name}-#{RUBY_VERSION[/\A\d+\.\d+/]}#{'-partial' unless whole}")
    end
  end
end
