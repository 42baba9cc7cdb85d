# frozen_string_literal: true

# The parts that the reports of bench/loop and bench/scheduler share. Included by their classes, which have @results, @settings
# and NOTES. Units nothing.

module Bench
  # Head, problems and notes of a results file.
  module ReportParts
    # @return [Boolean] whether Gyre could not be measured somewhere
    def broken?
      @results.problems.any? { |_key, name, _text| name.start_with?("gyre") }
    end

    private

    # @param title [String]
    # @param command [String] the program that wrote it: bench/loop
    # @param cores [String] what ran where
    # @param about [Array<String>] how it was measured, a line each
    def head(title, command, cores, *about)
      versions = @settings[:versions].map { |name, version| "#{name} #{version}" }.join(" · ")
      <<~MARKDOWN + about.map { |line| "- #{line}" }.join("\n")
        # #{title}

        Written by `#{command}` on #{@settings[:date]}; how it measures and how to read it: [bench/README.md](../README.md).

        - Machine: #{@settings[:machine]}; load average before the run #{@settings[:load_average]}. #{cores}
        - #{@settings[:ruby]} · #{versions}
      MARKDOWN
    end

    # @param keys [Array<String>] what was measured
    # @param names [Array<String>] of what
    # @return [String, nil]
    def problems(keys, names)
      errors = keys.product(names).flat_map do |key, name|
        @results.values(key, name, :errors).uniq.map { |text| "- #{key}, #{name}: #{text}" }
      end
      lines = errors + @results.problems.map { |key, name, text| "- #{key}, #{name}, not measured: #{text}" }
      "## Problems\n\n#{lines.join("\n")}" unless lines.empty?
    end

    # @return [String, nil]
    def notes
      File.read(self.class::NOTES).strip if File.exist?(self.class::NOTES)
    end
  end
end
