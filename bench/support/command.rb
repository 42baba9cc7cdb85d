# frozen_string_literal: true

# What the bench commands share: options, limits, an end that leaves nothing running, where a report is written.

require "optparse"
require_relative "machine"
require_relative "results"
require_relative "server"

module Bench
  # Helpers of bench/http, bench/scheduler and bench/profile.
  module Command
    module_function

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

    # @param names [String] "a,b"
    # @param known [Array<String>]
    # @return [Array<String>]
    # @raise [Problem] that lists the choices
    def choose(names, known)
      chosen = names.split(",")
      unknown = chosen - known
      raise Problem, "unknown: #{unknown.join(', ')}; there are: #{known.join(', ')}" unless unknown.empty?

      chosen
    end

    # A whole run goes to bench/results; a partial one only below tmp/bench and to standard output.
    # @param whole [Boolean]
    def publish(name, text, whole:)
      path = whole ? File.join(ROOT, "bench/results/#{name}.md") : File.join(WORK, "#{name}-partial.md")
      FileUtils.mkdir_p(File.dirname(path))
      File.write(path, text)
      puts text unless whole
      Setup.say "written: #{path.delete_prefix("#{ROOT}/")}"
    end

    def raise_descriptor_limit
      _soft, hard = Process.getrlimit(:NOFILE)
      Process.setrlimit(:NOFILE, [hard, 65_536].min, hard)
    end

    # @return [Hash] facts for a report's head; says aloud when the machine is busy with other things
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

    # @return [Array(Results, Hash)] what remember kept
    # @raise [Problem] when there was no such run
    def recall(name, whole:)
      path = memory(name, whole)
      raise Problem, "no run to write a report of" unless File.exist?("#{path}.json")

      [Results.load("#{path}.json"), JSON.parse(File.read("#{path}.facts.json"), symbolize_names: true)]
    end

    def memory(name, whole)
      File.join(WORK, whole ? name : "#{name}-partial")
    end
  end
end
