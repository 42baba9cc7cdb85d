# frozen_string_literal: true

# What becomes of things that are logged: severities' names and messages' bytes. Asked by
# Gyre::Log::Client when the quick way, which takes Strings as they are, does not do.

module Gyre
  module Log
    # Objects in, Strings out.
    module Text
      NAMES = %w[debug info warn error fatal].freeze
      # Logger's numbers, and what is known by name.
      RANKS = NAMES.each_with_index.flat_map { |name, rank| [name, name.to_sym, rank].map { |key| [key, rank] } }.to_h.freeze
      UNKNOWN = 5
      AS_THEY_ARE = [Encoding::UTF_8, Encoding::US_ASCII, Encoding::BINARY].freeze
      private_constant :NAMES, :AS_THEY_ARE

      class << self
        # @param severity [Integer, String, Symbol, nil]
        # @return [Integer] Logger's number; what is unknown is above all
        def rank(severity)
          RANKS.fetch(severity) { severity.is_a?(Integer) && severity.negative? ? severity : UNKNOWN }
        end

        # @param severity [Object]
        # @return [Integer, String] a number of Logger's, or a name in UTF-8
        def severity(severity)
          return severity if severity.is_a?(Integer)

          severity.nil? ? UNKNOWN : encoded(severity.to_s)
        end

        # As Logger writes them: an exception with its trace, another object by its inspect.
        # @param object [Object]
        # @return [String] UTF-8, or bytes
        def message(object)
          case object
          when String then encoded(object)
          when Exception then encoded("#{object.message} (#{object.class})\n#{object.backtrace&.join("\n")}")
          else encoded(object.inspect)
          end
        end

        private

        def encoded(string)
          return string.to_str if AS_THEY_ARE.include?(string.encoding)

          string.encode(Encoding::UTF_8)
        rescue EncodingError
          string.b # no text in its encoding: the bytes as they are
        end
      end
    end
  end
end
