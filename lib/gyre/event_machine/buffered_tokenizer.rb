# frozen_string_literal: true

# BufferedTokenizer: pieces of text in, whole tokens out. The drop-in defines it at the top level,
# as EventMachine does.

module Gyre
  module EventMachine
    # Splits pieces of text at a delimiter.
    class BufferedTokenizer
      # @param delimiter [String, nil] nil: a line's end
      def initialize(delimiter = nil)
        @delimiter = delimiter || "\n"
        @rest = +""
      end

      # @param data [String]
      # @return [Array<String>] the tokens that are whole now
      def extract(data)
        from = [@rest.size - @delimiter.size + 1, 0].max
        @rest << data
        return [] unless @rest.index(@delimiter, from)

        *tokens, rest = @rest.split(@delimiter, -1)
        @rest = rest
        tokens
      end

      # @return [String] the text after the last delimiter; it is dropped
      def flush
        rest = @rest
        @rest = +""
        rest
      end
    end
  end
end
