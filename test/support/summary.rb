# frozen_string_literal: true

# What a run of tests came to: counts, failures, skips, slow tests, warnings. Filled by Report in
# the process that ran the tests; Runner adds up those of all files. Printing is all it does with
# them.
module GyreTest
  # Values only, so that it can be marshalled.
  class Summary
    SLOW_S = 0.5
    SLOWEST = 10
    FAILURE_LINES = 40

    attr_reader :passed, :failures, :skips, :slow, :warnings

    def initialize
      @passed = 0
      @failures = []
      @skips = []
      @slow = []
      @warnings = []
    end

    def failed
      @failures.size + (@warnings.empty? ? 0 : 1)
    end

    def skipped
      @skips.size
    end

    def tests
      passed + @failures.size + skipped
    end

    def record(result)
      name = "#{result.klass}##{result.name}"
      @slow << [result.time, name] if result.time >= SLOW_S
      if result.skipped?
        @skips << [result.failure.message, name]
      elsif result.passed?
        @passed += 1
      else
        @failures << result.to_s
      end
    end

    def fail(text)
      @failures << text
    end

    def add(other)
      @passed += other.passed
      @failures.concat(other.failures)
      @skips.concat(other.skips)
      @slow.concat(other.slow)
      @warnings.concat(other.warnings)
    end

    def print_failures(out)
      @failures.each { |failure| out.puts "", failure }
    end

    def print_slowest(out)
      return if @slow.empty?

      out.puts "\nSlowest tests:"
      @slow.max(SLOWEST).each { |seconds, name| out.puts format("%8.2f s  %s", seconds, name) }
    end

    def print_skips(out)
      return if @skips.empty?

      out.puts "\nSkipped:"
      @skips.group_by(&:first).each do |reason, group|
        out.puts "  #{reason}"
        group.each { |_, name| out.puts "    #{name}" }
      end
    end

    def print_warnings(out)
      out.puts "\nFailed: Ruby warned outside of any test:", @warnings unless @warnings.empty?
    end

    # For .ci/run: the counts as "passed failed skipped", and beside them the failures in short.
    def write_counts(path)
      File.write(path, "#{passed} #{failed} #{skipped}\n")
      texts = @failures.dup
      texts << "Ruby warned outside of any test:\n#{@warnings.join("\n")}" if @warnings.any?
      File.write("#{path}.failures", texts.map { |text| "#{text.b.lines.first(FAILURE_LINES).join.chomp}\n\n" }.join) if texts.any?
    end

    def to_s
      "#{passed} passed, #{failed} failed, #{skipped} skipped"
    end
  end
end
