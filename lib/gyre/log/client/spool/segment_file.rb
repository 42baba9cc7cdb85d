# frozen_string_literal: true

# What the segments of a client's spool and of an output's spill have in common: a file with a
# header and a position, behind which stands what is still to be sent. Included by Spool::Segment
# and Output::Spill::Segment, which have @path, @file, @position and @size.

require "gyre/log/client/spool/trust"

module Gyre
  module Log
    class Spool
      # See the head of this file.
      module SegmentFile
        # @return [String]
        attr_reader :path
        # @return [Integer] offset of the first byte that is still to be sent
        attr_reader :position
        # @return [Integer] offset behind the last byte
        attr_reader :size

        # Makes one; nothing is left of it when that fails.
        # @param path [String]
        # @param header [String]
        # @return [File]
        # @raise [SystemCallError]
        def self.create(path, header)
          file = ::File.open(path, ::File::RDWR | ::File::CREAT | ::File::EXCL | ::File::BINARY, 0o600)
          file.pwrite(header, 0)
          file
        rescue SystemCallError
          file&.close
          ::File.delete(path) if file
          raise
        end

        # @return [Integer] bytes that are still to be sent
        def bytesize = @size - @position

        # @return [String] what is there, up to so many bytes
        def read(offset, bytes)
          count = [bytes, @size - offset].min
          count.positive? ? @file.pread(count, offset) : "".b
        end

        # Nothing behind the offset counts.
        def cut(offset)
          @size = offset
          @file.truncate(offset)
        end

        def close = @file.close

        def delete
          close
          ::File.delete(@path)
        rescue Errno::ENOENT
          nil # it is tidied up already
        end
      end
    end
  end
end
