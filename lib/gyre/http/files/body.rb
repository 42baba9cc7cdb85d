# frozen_string_literal: true

# A response body from an open file: the whole file, a range, or several ranges with text between.
# Made by Files::Respond, sent by HTTP::Response with Exchange#write_file. Waits for a disk in a
# thread, never on the loop.

require "gyre/offload"

module Gyre
  module HTTP
    module Files
      # A body of file parts and Strings. Other servers call #each.
      class Body
        # Bytes sent at once, after they are read into memory. The kernel may drop pages again
        # before sending; smaller pieces make that rarer.
        PIECE_BYTES = 512 * 1024
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
