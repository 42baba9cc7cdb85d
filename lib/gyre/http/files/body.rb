# frozen_string_literal: true

# The body of a response that comes from an open file: all of it, a range, or several with text
# between them. Files::Respond makes one; HTTP::Response sends it with Exchange#write_file. It has
# to wait for a disk in a thread, never on the loop.

require "gyre/offload"

module Gyre
  module HTTP
    module Files
      # Parts of a file, and Strings. Any other server calls #each.
      class Body
        # Sent at once: it is in memory before. The kernel may drop some of it again before it is
        # sent, the less the smaller this is.
        PIECE_BYTES = 512 * 1024
        # A Range of a file's bytes.
        Part = Struct.new(:offset, :length)

        # @return [Integer] of all parts
        attr_reader :bytesize

        # @return [Array<String, Part>]
        attr_reader :parts

        # @return [OpenFile]
        attr_reader :file

        # @param file [OpenFile] closed with the body
        # @param parts [Array<String, Part>]
        def initialize(file, parts = [Part.new(0, file.size)])
          @file = file
          @parts = parts
          @bytesize = parts.sum { |part| part.is_a?(String) ? part.bytesize : part.length }
        end

        # @param part [Part]
        # @yieldparam offset [Integer] of a piece that is in memory now
        # @yieldparam length [Integer]
        # @return [void]
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

        # @yieldparam bytes [String]
        # @return [void]
        # @raise [EOFError] the file has become shorter
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

        # @return [void]
        def close
          @file.close
        end

        # Reads without waiting for a disk on the loop.
        #
        # @param file [OpenFile]
        # @param offset [Integer]
        # @param length [Integer] up to 1 MB
        # @return [String] fewer bytes when the file is shorter
        def self.read(file, offset, length)
          file.read_cached(offset, length) ||
            load(file, offset, length) || file.read_cached(offset, length) ||
            Offload.call { file.to_io.pread(length, offset) }
        rescue EOFError
          +""
        end

        # @param file [OpenFile]
        # @param offset [Integer]
        # @param length [Integer]
        # @return [nil]
        def self.load(file, offset, length)
          Offload.call { file.load(offset, length) }
          nil
        end
      end
    end
  end
end
