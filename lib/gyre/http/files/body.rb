# frozen_string_literal: true

# A response's body from an open file: all of it, a range, or several with text between. Made by
# Files::Respond, sent by HTTP::Response with Exchange#write_file. Waits for a disk in a thread,
# never on the loop.

require "gyre/offload"

module Gyre
  module HTTP
    module Files
      # Parts of a file, and Strings. Other servers call #each.
      class Body
        # Sent at once, after it was brought into memory. The kernel may drop some again before
        # sending; a smaller piece makes that rarer.
        PIECE_BYTES = 512 * 1024
        # A Range of a file's bytes.
        Part = Struct.new(:offset, :length)

        attr_reader :bytesize

        attr_reader :parts

        attr_reader :file

        # Closes `file` with the body.
        def initialize(file, parts = [Part.new(0, file.size)])
          @file = file
          @parts = parts
          @bytesize = parts.sum { |part| part.is_a?(String) ? part.bytesize : part.length }
        end

        # Yields offsets of pieces that are in memory now.
        def each_piece(part)
          offset = part.offset
          ending = offset + part.length
          while offset < ending
            length = [ending - offset, PIECE_BYTES].min
            Body.load(@file, offset, length) unless @file.cached?(offset, length)
            yield offset, length
            offset += length
          end
        end

        # Raises EOFError if the file became shorter.
        def each
          @parts.each do |part|
            next yield(part) if part.is_a?(String)

            each_piece(part) do |offset, length|
              bytes = Body.read(@file, offset, length)
              yield bytes
              raise EOFError, "the file has become shorter" if bytes.bytesize < length
            end
          end
        end

        def close
          @file.close
        end

        # Reads at most 1 MB without blocking the loop; fewer bytes if the file is shorter.
        def self.read(file, offset, length)
          file.read_cached(offset, length) ||
            load(file, offset, length) || file.read_cached(offset, length) ||
            Offload.call { file.to_io.pread(length, offset) }
        rescue EOFError
          +""
        end

        def self.load(file, offset, length)
          Offload.call { file.load(offset, length) }
          nil
        end
      end
    end
  end
end
