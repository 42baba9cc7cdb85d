# frozen_string_literal: true

# A rack.input that rewinds, which Rack 2's SPEC requires and Rack 3's does not: Rack2 puts it
# around an Input. What was read is kept, in memory at first and beyond a bound in a temporary file;
# nothing is read that the app does not ask for.

require "stringio"

module Gyre
  module HTTP
    # What has been read, in front of what has not.
    class RewindableInput
      # More than this goes to a file.
      MEMORY_BYTES_LIMIT = 112 * 1024
      PIECE_BYTES = 65_536
      private_constant :PIECE_BYTES

      # @param input [Input]
      def initialize(input)
        @input = input
        @kept = StringIO.new(String.new)
        @over = false
      end

      # @param length [Integer, nil]
      # @param buffer [String, nil] its content is replaced
      # @return [String, nil] as IO#read
      def read(length = nil, buffer = nil)
        raise ArgumentError, "negative length #{length} given" if length&.negative?

        fetch(length)
        content = @kept.read(length, *buffer)
        content&.force_encoding(Encoding::BINARY)
      end

      # @param length [Integer] at most so many bytes
      # @param buffer [String, nil] its content is replaced
      # @return [String] as IO#readpartial
      # @raise [EOFError] at the end
      def readpartial(length, buffer = nil)
        keep(@input.readpartial(length)) if @kept.eof? && !@over
        @kept.readpartial(length, *buffer)
      end

      # @return [String, nil] the next line
      def gets(*arguments, **options)
        fetch(nil)
        @kept.gets(*arguments, **options)&.force_encoding(Encoding::BINARY)
      end

      # @yieldparam line [String]
      # @return [self, Enumerator]
      def each
        return enum_for(:each) unless block_given?

        while (line = gets)
          yield line
        end
        self
      end

      # The next read begins with the body's first byte.
      #
      # @return [Integer] 0
      def rewind
        @kept.rewind
      end

      # @return [Integer] bytes of the whole body, which is read for it
      def size
        position = @kept.pos
        fetch(nil)
        @kept.pos = position
        @kept.size
      end

      # @return [nil]
      def close
        @input.close
        @over = true
        discard
        @kept = StringIO.new(String.new)
        nil
      end

      # The temporary file goes with its request.
      #
      # @return [void]
      def discard
        @kept.close! if @kept.respond_to?(:close!)
      end

      private

      # So that `length` bytes, or all, can be read from what is kept.
      def fetch(length)
        position = @kept.pos
        missing = length && (position + length - @kept.size)
        while !@over && (missing.nil? || missing.positive?)
          piece = @input.read(missing ? [missing, PIECE_BYTES].min : PIECE_BYTES)
          next @over = true unless piece

          keep(piece)
          missing -= piece.bytesize if missing
        end
        @kept.pos = position
      end

      # Behind what is kept; the position stays.
      def keep(piece)
        position = @kept.pos
        move_to_file if @kept.is_a?(StringIO) && @kept.size + piece.bytesize > MEMORY_BYTES_LIMIT
        @kept.seek(0, IO::SEEK_END)
        @kept.write(piece)
        @kept.pos = position
      end

      def move_to_file
        require "tempfile"
        file = Tempfile.new("gyre-body", binmode: true)
        file.unlink
        file.write(@kept.string)
        @kept = file
      end
    end
  end
end
