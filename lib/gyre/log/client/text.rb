# frozen_string_literal: true

# Severities and objects of a log client as text.

module Gyre
  module Log
    # Converts severities and logged objects for Gyre::Log::Client.
    # @api private
    module Text
      RANKS = %w[debug info warn error fatal].each_with_index.flat_map { |name, rank| [name, name.to_sym, rank].product([rank]) }.to_h.freeze
      UNKNOWN = 5
      AS_THEY_ARE = [Encoding::UTF_8, Encoding::US_ASCII, Encoding::BINARY].freeze
      private_constant :AS_THEY_ARE

      class << self
        # Returns Logger's number of a severity. Unknown names rank highest.
        def rank(severity) = RANKS.fetch(severity) { severity.is_a?(Integer) && severity.negative? ? severity : UNKNOWN }

        def severity(severity)
          return severity if severity.is_a?(Integer)

          severity.nil? ? UNKNOWN : encoded(severity.to_s)
        end

        # Formats like Logger: exceptions with their backtraces, other objects by `inspect`.
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
          string.b # invalid in its encoding: the bytes as they are
        end
      end
    end
  end
end
