# frozen_string_literal: true

# A body from an open file: the whole file, or a range. Made by Files::Respond, Sendfile and
# Response, sent with Exchange#write_file. Bytes that are not in memory are read in a thread.

require "gyre/offload"

module Gyre
  module HTTP
    module Files
      # Gyre calls #each_piece; other servers call #each.
      class Body
        # Maximum bytes of a piece, which is read into memory before it is sent. The kernel may drop
        # its pages before they are sent; this is rarer for small pieces.
        PIECE_BYTES = 512 * 1024

        attr_reader :bytesize

        attr_reader :file

        # {#close} closes `file`.
        def initialize(file, offset = 0, length = file.size)
          @file = file
          @offset = offset
          @bytesize = length
        end

        def each_piece
          @offset.step(@offset + @bytesize - 1, PIECE_BYTES) do |offset|
            length = [@offset + @bytesize - offset, PIECE_BYTES].min
            Body.load(@file, offset, length).clear unless @file.cached?(offset, length)
            yield offset, length
          end
        end

        def each
          each_piece do |offset, length|
            bytes = Body.read(@file, offset, length)
            yield bytes
            raise EOFError, "the file has become shorter" if bytes.bytesize < length
          end
        end

        def close = @file.close

        # Reads up to 1 MB; never blocks the loop. Returns fewer bytes if the file is shorter.
        def self.read(file, offset, length) = file.read_cached(offset, length) || load(file, offset, length)

        # Reads from a duplicate descriptor, as the file may be closed meanwhile.
        def self.load(file, offset, length)
          Offload.call do
            io = file.to_io.dup
            io.pread(length, offset)
          rescue EOFError
            +""
          ensure
            io&.close
          end
        end
      end
    end
  end
end
