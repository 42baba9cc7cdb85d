# frozen_string_literal: true

# Compresses one file that is written no longer: gzip by Ruby's Zlib, zstd by the program. Called by Rotation in a thread of
# Gyre::Offload; it blocks. The plain file is removed only when the packed one is durable under its name.

require "gyre/log/output/access"
require "gyre/log/output/writing"
require "zlib"

module Gyre
  module Log
    class Rotation
      # Functions without state.
      module Packing
        SUFFIXES = { gzip: ".gz", zstd: ".zst" }.freeze
        # Ruby's lock is given up for the time of one piece; a busy loop lets go of it rarely.
        PIECE_BYTES = 4 * 1024 * 1024

        # The program did not do it.
        class Failed < StandardError; end

        module_function

        # @param path [String]
        # @param method [Symbol] :gzip or :zstd
        # @raise [SystemCallError, Zlib::Error, Failed] and leaves the file as it was
        def pack(path, method)
          packed = path + SUFFIXES.fetch(method)
          part = "#{packed}.part"
          writer = Output::Access.new_private_file(part, ::File::RDWR)
          method == :gzip ? gzip(path, writer) : run_zstd(path, writer)
          stat = ::File.stat(path)
          Output::Access.like(writer, stat)
          writer.fsync
          ::File.utime(stat.atime, stat.mtime, part)
          ::File.rename(part, packed)
          Output::Writing.sync_folder(path)
          ::File.unlink(path)
        ensure
          writer&.close
          ::File.unlink(part) if part && ::File.exist?(part)
        end

        # @return [String, nil] the program's path
        def zstd
          ENV["PATH"].to_s.split(":").map { |folder| ::File.join(folder, "zstd") }.find { |path| ::File.executable?(path) }
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

        def run_zstd(path, io)
          program = zstd or raise Failed, "zstd is not installed"
          # It gets the file opened: should it outlive a killed server, it writes into nothing that the next one makes.
          pid = Process.spawn(program, "-q", "-c", "--", path, in: ::File::NULL, out: io)
          _, status = Process.wait2(pid)
          pid = nil
          raise Failed, "zstd #{path}: #{status}" unless status.success?
        ensure
          if pid # this thread was ended
            Process.kill(:KILL, pid)
            Process.wait(pid)
          end
        end

        private_class_method :gzip, :run_zstd
      end
    end
  end
end
