# frozen_string_literal: true

# Reads sizes and times as people write them ("64k", "100 MB", "2 hours", "1.5"); writes "1 file".

module Gyre
  # Parsing methods return a number, or nil for an invalid text.
  module Units
    SIZE = /\A\s*(\d+)\s*([kmgt]?)(?:i?b)?\s*\z/i.freeze
    FACTORS = ["", "k", "m", "g", "t"].each_with_index.to_h { |letter, index| [letter, 1024**index] }.freeze
    SPAN = /\A\s*(?:(\d+)\s*)?(second|minute|hour|day|week)s?\s*\z/i.freeze
    SPANS = { "second" => 1, "minute" => 60, "hour" => 3600, "day" => 86_400, "week" => 604_800 }.freeze
    # The extension takes no larger numbers. These bounds exceed any machine's memory.
    INTEGERS = (-(1 << 62)..(1 << 62)).freeze
    SECONDS = (0..1_000_000_000).freeze

    module_function

    # Parses a size whose units are powers of 1024: 500, 64k, 10M, 100 MB, 2GiB.
    def bytes(value)
      match = SIZE.match(value.to_s)
      bytes = match && (match[1].to_i * FACTORS.fetch(match[2].downcase))
      bytes if INTEGERS.cover?(bytes)
    end

    # Returns the shortest text that {bytes} parses to this number.
    def size(bytes)
      letter, factor = FACTORS.to_a.reverse.find { |_, each| bytes >= each && (bytes % each).zero? } || ["", 1]
      "#{bytes / factor}#{letter.upcase}"
    end

    # Parses a time of up to 30 years, in seconds or with a unit: 1.5, minute, 2 days.
    def seconds(value)
      match = SPAN.match(value.to_s)
      seconds = match ? SPANS.fetch(match[2].downcase) * (match[1] || 1).to_i : number(value)
      seconds if seconds.is_a?(Numeric) && seconds.real? && SECONDS.cover?(seconds)
    end

    def integer(value)
      number = number(value)
      number if number.is_a?(Integer) && INTEGERS.cover?(number)
    end

    def number(value)
      return value unless value.is_a?(String)

      Integer(value, 10, exception: false) || (Float(value, exception: false) unless value.match?(/x/i)) # 0x10 is hexadecimal
    end

    # Returns a number with its noun. `number` may be a text with separators.
    def count(number, one, many = "#{one}s") = "#{number} #{number.to_s == "1" ? one : many}"
  end
end
