# frozen_string_literal: true

# Recovers a log file when the server starts: compares it with its journal's last entry, cuts off an
# incomplete batch, and ends a torn line. Called by Output::FileOutput. Removes at most one batch.
#
#   whole     The file has the entry's batch with the right CRC. The batch's numbers count.
#   torn      The batch is incomplete, or its CRC is wrong and nothing follows. It is cut off.
#   changed   The CRC is wrong, but more bytes follow. The file stays as it is.
#   gone      The file is not found.
#
# The file is found by the entry's dev and ino, under the log's name or a longer name in its folder.
# A restored copy is recognized by its bytes. Recovery first syncs the file and drops its pages,
# because after a failed sync and a kill, pages may differ from the disk.
require "gyre/log/output/journal"

module Gyre
  module Log
    module Recovery
      module_function

      # Leaves no open batch.
      def run(path, journal, retries)
        if journal.torn_bytes.positive?
          retries.report("the journal ends with #{Units.count(journal.torn_bytes, "byte")} of an entry: a commit was cut off there")
        end
        Disk.forget_pages(path)
        settle(path, journal, retries)
        end_line(path)
      end

      def settle(path, journal, retries)
        batch = journal.open_batch or return
        file = holder(path, batch)
        Disk.forget_pages(file) unless file == path
        verdict = judge(file, batch, same: same?(File.stat(file), batch))
        case verdict
        when :whole then Disk.sync_folder(file)
        when :torn then cut_off(file, batch, retries)
        else retries.report("the file of the last commit is #{verdict}: messages that its clients repeat are stored twice")
        end
        journal.settle(verdict == :whole)
      end

      def holder(path, batch)
        return path if same?(File.stat(path), batch)

        beside = Dir.glob("#{path.gsub(/[\\*?\[\]{}]/) { |char| "\\#{char}" }}?*").find do |other|
          same?(File.lstat(other), batch)
        rescue Errno::ENOENT
          false # removed since it was listed
        end
        beside || path
      end

      def same?(stat, batch) = stat.dev == batch.dev && stat.ino == batch.ino

      def judge(file, batch, same:)
        File.open(file, "rb") do |io|
          return :whole if checksum(io, batch) == batch.crc
          return :gone unless same

          io.size - batch.offset > batch.length ? :changed : :torn
        end
      end

      # Returns nil if the file is too short.
      def checksum(io, batch)
        return if io.size < batch.offset + batch.length

        io.seek(batch.offset)
        left = batch.length
        crc = 0
        while left.positive? && (piece = io.read([left, 1024 * 1024].min))
          crc = Zlib.crc32(piece, crc)
          left -= piece.bytesize
        end
        crc if left.zero?
      end

      def cut_off(file, batch, retries)
        size = File.size(file)
        return if size <= batch.offset

        File.open(file, "r+b") do |io|
          io.truncate(batch.offset)
          Disk.sync(io)
        end
        rest = Units.count(size - batch.offset, "byte is", "bytes are")
        retries.report("a commit was cut off: its #{rest} taken away, its clients send them again")
      end

      # Ends a torn line, which may also occur if the journal is missing.
      def end_line(path)
        File.open(path, "r+b") do |io|
          next if io.size.zero?

          io.seek(-1, IO::SEEK_END)
          io.write("\n") unless io.read(1) == "\n"
        end
      end
    end
  end
end
