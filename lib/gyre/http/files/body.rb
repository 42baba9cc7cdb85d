# frozen_string_literal: true

# A body from an open file: whole, a range, or several ranges. Made by Files::Respond, sent with
# Exchange#write_file. Reads from a disk in a thread.

require "gyre/offload"

module Gyre
  module HTTP
    module Files
      # A body of file parts and Strings. Other servers call #each.
      class Body
        # Bytes read into memory, then sent. The kernel may drop pages before sending, more rarely
        # for smaller pieces.
        PIECE_BYTES = 512 * 1024
        Part = Struct.new(:offset, :length)

        attr_reader :bytesize

        attr_reader :parts

        attr_reader :file

        # Closes `file` at its end.
        def initialize(file, parts = [Part.new(0, file.size)])
          @file = file
          @parts = parts
          @bytesize = parts.sum { |part| part.is_a?(String) ? part.bytesize : part.length }
        end

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

        def close = @file.close

        # Reads at most 1 MB without blocking the loop; less from a shorter file.
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
