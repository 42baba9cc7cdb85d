# frozen_string_literal: true

# Small helpers that write the results files: tables, numbers, "median (min–max)" cells. Pure text.

module Bench
  # Text in, Markdown out.
  module Markdown
    module_function

    def table(headings, rows)
      lines = [headings, ["---"] + ["---:"] * (headings.size - 1)] + rows
      lines.map { |cells| "| #{cells.join(' | ')} |" }.join("\n")
    end

    def cell(values, decimals)
      return "–" if values.empty?

      low, middle, high = [values.min, Results.median(values), values.max].map { |value| number(value, decimals) }
      low == high ? middle : "#{middle} (#{low}–#{high})"
    end

    def number(value, decimals)
      whole, fraction = format("%.#{decimals}f", value).split(".")
      whole = whole.reverse.scan(/\d{1,3}-?/).join(",").reverse
      [whole, fraction].compact.join(".")
    end
  end
end
