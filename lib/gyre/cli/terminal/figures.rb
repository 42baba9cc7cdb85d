# frozen_string_literal: true

# Formats short numbers for `gyre top`, `gyre ctl` and `gyre log status`.

module Gyre
  module CLI
    module Figures
      BYTES = %w[B KB MB GB TB].freeze

      module_function

      # 1,234,567
      def count(number) = number.to_i.to_s.gsub(/(?<=\d)(?=(?:\d{3})+\z)/, ",")

      # 12,346 or 99.9
      def rate(number) = number >= 100 ? count(number.round) : number.round(1).to_s

      # 1.5 KB
      def bytes(number)
        number = number.to_f
        unit = BYTES.find { |name| name == BYTES.last || number < 1000 || !(number /= 1024) }
        "#{short(number)} #{unit}"
      end

      # 250 us, 1.5 ms, 12 s, 3 min
      def duration(seconds)
        return "#{(seconds * 1_000_000).round} us" if seconds < 0.001
        return "#{short(seconds * 1000)} ms" if seconds < 1

        seconds < 100 ? "#{short(seconds)} s" : age(seconds)
      end

      # 100 s, 3 min, 26 h, 4 d
      def age(seconds)
        seconds = seconds.to_i
        return "#{seconds} s" if seconds < 120
        return "#{seconds / 60} min" if seconds < 7200

        seconds < 172_800 ? "#{seconds / 3600} h" : "#{seconds / 86_400} d"
      end

      def short(number) = number >= 10 || number == number.to_i ? number.round.to_s : number.round(1).to_s
    end
  end
end
