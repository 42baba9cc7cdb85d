# frozen_string_literal: true

# What the bench commands share: options, limits, an end that leaves nothing running, where a report is written.

require "optparse"
require_relative "machine"
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

    # @return [Hash] facts for a report's head
    def facts(rounds:, versions:, **more)
      { date: Time.now.strftime("%Y-%m-%d"), machine: Machine.description, ruby: Machine.ruby, rounds: rounds,
        versions: versions, **more }
    end
  end
end
