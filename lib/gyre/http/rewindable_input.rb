# frozen_string_literal: true

# A rewinding rack.input for Rack 2. Reads the whole body of an Input at its first use, into memory
# or a temporary file.

require "forwardable"
require "stringio"

module Gyre
  module HTTP
    class RewindableInput
      extend Forwardable

      # Larger bodies go to a file.
      MEMORY_BYTES_LIMIT = 112 * 1024
      PIECE_BYTES = 65_536
      private_constant :PIECE_BYTES

      def_delegators :kept, :read, :readpartial, :gets, :each, :rewind, :size

      def initialize(input)
        @input = input
      end

      def close
        @input.close
        discard
        @kept = StringIO.new(String.new)
        nil
      end

      # Deletes the temporary file.
      def discard
        @kept.close! if @kept.respond_to?(:close!)
      end

      private

      def kept
        @kept ||= begin
          body = StringIO.new(String.new)
          while (piece = @input.read(PIECE_BYTES))
            body = to_file(body) if body.is_a?(StringIO) && body.size + piece.bytesize > MEMORY_BYTES_LIMIT
            body.write(piece)
          end
          body.tap(&:rewind)
        end
      end

      def to_file(memory)
        require "tempfile"
        Tempfile.new("gyre-body", binmode: true).tap do |file|
          file.unlink
          file.write(memory.string)
        end
      end
    end
  end
end
