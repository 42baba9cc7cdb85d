# frozen_string_literal: true

# Compresses a finished file with gzip. Rotation runs it in a thread of Gyre::Offload. Removes the
# plain file only after the packed one is durable.

require "gyre/log/output/access"
require "gyre/log/output/writing"
require "zlib"

module Gyre
  module Log
    class Rotation
      module Packing
        SUFFIX = ".gz"
        # Bytes per call without the GVL, which returns late to a busy loop.
        PIECE_BYTES = 4 * 1024 * 1024

        module_function

        # Keeps the file unchanged on SystemCallError or Zlib::Error.
        def pack(path)
          part = "#{path}#{SUFFIX}.part"
          writer = Output::Access.new_private_file(part, ::File::RDWR)
          gzip(path, writer)
          stat = ::File.stat(path)
          Output::Access.like(writer, stat)
          writer.fsync
          ::File.utime(stat.atime, stat.mtime, part)
          ::File.rename(part, path + SUFFIX)
          Disk.sync_folder(path)
          ::File.unlink(path)
        ensure
          writer&.close
          ::File.unlink(part) if part && ::File.exist?(part)
        end

        def gzip(path, io)
          ::File.open(path, "rb") do |plain|
            writer = Zlib::GzipWriter.new(io)
            writer.mtime = plain.mtime
            while (piece = plain.read(PIECE_BYTES))
              writer.write(piece)
            end
          ensure
            writer&.finish
          end
        end
        private_class_method :gzip
      end
    end
  end
end
