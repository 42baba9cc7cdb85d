# frozen_string_literal: true

# Sizes and times as written in configurations and on command lines: "64k", "100 MB", "2 hours",
# "1.5". Called where such a text is read; it returns a number, or nil for anything else, and the
# caller reports what was expected. And counts as messages have them: "1 file", "2 files".

module Gyre
  # Functions without state.
  module Units
    SIZE = /\A\s*(\d+)\s*([kmgt]?)(?:i?b)?\s*\z/i.freeze
    FACTORS = ["", "k", "m", "g", "t"].each_with_index.to_h { |letter, index| [letter, 1024**index] }.freeze
    SPAN = /\A\s*(?:(\d+)\s*)?(second|minute|hour|day|week)s?\s*\z/i.freeze
    SPANS = { "second" => 1, "minute" => 60, "hour" => 3600, "day" => 86_400, "week" => 604_800 }.freeze
    private_constant :SIZE, :FACTORS, :SPAN, :SPANS

    module_function

    # @param value [Object] bytes; or a text such as 500, 64k, 10M, 100 MB, 2GiB: powers of 1024
    # @return [Integer, nil] bytes, 0 or more
    def bytes(value)
      match = SIZE.match(value.to_s)
      match && (match[1].to_i * FACTORS.fetch(match[2].downcase))
    end

    # @param value [Object] seconds, also as a text; or second, minute, hour, day, week, or a number
    #   of them such as 2 days
    # @return [Integer, Float, nil] seconds, 0 or more
    def seconds(value)
      match = SPAN.match(value.to_s)
      seconds = match ? SPANS.fetch(match[2].downcase) * (match[1] || 1).to_i : number(value)
      seconds if seconds.is_a?(Numeric) && seconds.real? && seconds.finite? && seconds >= 0
    end

    # @param value [Object] a text is read as a decimal number; anything else is left as it is
    # @return [Object] nil for any other text
    def number(value)
      return value unless value.is_a?(String)

      Integer(value, 10, exception: false) || Float(value, exception: false)
    end

    # @param number [Integer, String] also with separators
    # @param one [String] what follows a 1: a noun, and its verb where one follows
    # @param many [String] what follows another number
    # @return [String] 1 file, 2 files
    def count(number, one, many = "#{one}s") = "#{number} #{number.to_s == "1" ? one : many}"
  end
end
