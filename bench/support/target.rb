# frozen_string_literal: true

# A figure that Gyre is to reach, and the table that shows whether it did and by how much it missed.
# Used by both reports.

require_relative "markdown"

module Bench
  # @!attribute text [String] what is asked for
  # @!attribute limit [Numeric] the figure to reach
  # @!attribute direction [Symbol] :at_most or :at_least
  # @!attribute unit [String] written after the number
  # @!attribute decimals [Integer]
  # @!attribute measure [Proc] results → the measured figure, or nil
  Target = Struct.new(:text, :direction, :limit, :unit, :decimals, :measure, keyword_init: true) do
    # Returns a row of the table.
    def row(results)
      value = measure.call(results)
      sign = direction == :at_most ? "≤" : "≥"
      [text, "#{sign} #{show(limit)}", value ? show(value) : "–", verdict(value)]
    end

    # Returns whether it was measured and missed.
    def missed?(results)
      value = measure.call(results)
      !value.nil? && !reached?(value)
    end

    # Returns a table of targets.
    def self.table(targets, results, only_measured: false)
      targets = targets.select { |target| target.measure.call(results) } if only_measured
      Markdown.table(%w[target limit measured verdict], targets.map { |target| target.row(results) })
    end

    private

    def reached?(value)
      direction == :at_most ? value <= limit : value >= limit
    end

    def verdict(value)
      return "not measured" unless value
      return "reached" if reached?(value)

      format("missed by %.0f %%", (value - limit).abs / limit.to_f * 100)
    end

    def show(value)
      "#{Markdown.number(value, decimals)}#{unit}"
    end
  end
end
