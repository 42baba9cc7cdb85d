# frozen_string_literal: true

# Rotates one log file: decides when, renames older parts, compresses them, limits their number.
# Called between two batches by FileOutput, which syncs before {#move}. Never changes a line.
#
#   log ──► log.1 ──► log.1.gz     older ones move up first, log.2.gz ──► log.3.gz, from the last one down
#
# Each step is one rename or unlink, and none loses bytes: after a kill, the next rotation
# continues. Compression writes *.part, syncs and renames it, and removes the plain file.

require "gyre/log/output/access"
require "gyre/log/output/writing"
require "zlib"
require "gyre/settings"

module Gyre
  module Log
    class Rotation
      POSTPONED_S = 60

      # Returns nil if there are no settings. Raises ArgumentError.
      def self.from(settings, path, report: nil) = settings && new(path, Policy.parse(settings), report: report)

      def initialize(path, settings, report: nil)
        @path = path
        @settings = settings
        @report = report
        @rest = true
      end

      # True if the file must be rotated before `bytes` are added.
      def due?(stat, bytes, time)
        return false if stat.size.zero? || @packing || (@postponed_until && Clock.now < @postponed_until)

        # Due if the last line is from an earlier period (local time). Weeks begin on Monday.
        (@settings.size && stat.size + bytes > @settings.size) || (@settings.every && period(stat.mtime) != period(time))
      end

      # Renames the log file. May be repeated after an error.
      def move = (rename(@path, free_number) if File.exist?(@path))

      # Removes old parts, and compresses the others in another task.
      def finish
        @trouble = nil
        prune
        pack_later
      end

      # Compresses parts that a killed process left plain. Does so once after the start.
      def pack_rest = (pack_later if @rest)

      def postpone(error)
        text = "cannot rotate: #{error.message}"
        report("#{text}; lines go on into the old file") unless text == @trouble
        @trouble = text
        @postponed_until = Clock.now + POSTPONED_S
      end

      # Removes unfinished compressed parts that a killed process left.
      def clean = parts.grep(/\.part\z/) { |path| remove(path) }

      private

      # Excludes logrotate's dates (log.20261121).
      NUMBERED = /\.(\d{1,5})(?:\.gz)?\z/.freeze
      # Seconds from a Monday to the beginning of 1970, a Thursday.
      SINCE_MONDAY_S = 3 * 86_400

      def parts
        folder, name = File.split(@path)
        Dir.children(folder).grep(/\A#{Regexp.escape(name)}\.\d+(?:\.gz)?(?:\.part)?\z/)
           .map { |child| folder == "." && !@path.start_with?("./") ? child : File.join(folder, child) }
      end

      def numbered = parts.grep(NUMBERED).group_by { |path| path[NUMBERED, 1].to_i }

      # Renumbers the parts (2 becomes 3, then 1 becomes 2), so that number 1 is free. Stops at a
      # gap, which a crash may leave.
      def free_number
        present = numbered
        last = (1..).find { |number| !present.key?(number) } - 1
        last.downto(1) do |number|
          present[number].each { |path| rename(path, path.sub(NUMBERED) { |tail| tail.sub(number.to_s, (number + 1).to_s) }) }
        end
        "#{@path}.1"
      end

      def prune
        return unless @settings.keep

        numbered.each { |number, paths| paths.each { |path| remove(path) } if number > @settings.keep }
      end

      # Compresses in another task, or at once outside of tasks.
      def pack_later
        @rest = false
        return if @packing || !@settings.compress

        @packing = true
        task = Task.current?
        task ? task.async("log rotation #{@path}", transient: true) { pack_all } : pack_all
      end

      def pack_all
        plain = numbered.sort.flat_map(&:last).reject { |path| path.end_with?(Packing::SUFFIX) }
        plain.reverse_each { |path| pack(path) }
      rescue SystemCallError, Zlib::Error => error
        report("cannot compress: #{error.message}; the plain file is kept")
      ensure
        @packing = false
      end

      def pack(path) = Offload.call { Packing.pack(path) }

      def period(time) = ((time.to_i + time.utc_offset + SINCE_MONDAY_S) / @settings.every).floor

      def report(message) = @report&.call("#{@path}: #{message}")

      def rename(from, to) = File.rename(from, to)

      def remove(path)
        File.unlink(path)
      rescue Errno::ENOENT
        nil # another process was faster
      end

      # Compresses a part with gzip. Rotation runs it in a thread of Gyre::Offload. Removes the
      # plain file only after the compressed file is durable.
      module Packing
        SUFFIX = ".gz"
        # Bytes compressed in one call, which needs no GVL. Many, because after each call the thread
        # waits long for the GVL if the loop is busy.
        PIECE_BYTES = 4 * 1024 * 1024

        module_function

        # After SystemCallError or Zlib::Error, the plain file is unchanged.
        def pack(path)
          part = "#{path}#{SUFFIX}.part"
          writer = Output::Access.new_private_file(part, File::RDWR)
          gzip(path, writer)
          stat = File.stat(path)
          Output::Access.like(writer, stat)
          writer.fsync
          File.utime(stat.atime, stat.mtime, part)
          File.rename(part, path + SUFFIX)
          Disk.sync_folder(path)
          File.unlink(path)
        ensure
          writer&.close
          File.unlink(part) if part && File.exist?(part)
        end

        def gzip(path, io)
          File.open(path, "rb") do |plain|
            writer = Zlib::GzipWriter.new(io)
            writer.mtime = plain.mtime
            while (piece = plain.read(PIECE_BYTES))
              writer.write(piece)
            end
          ensure
            writer&.finish
          end
        end
      end

      # Settings of `rotate`: when a log file is replaced, and how many old files are kept.
      type = Gyre::Settings::Type
      row = Gyre::Settings.method(:row)
      compressions = { "gzip" => :gzip, "true" => :gzip, "none" => false, "false" => false }.freeze
      compress = type.new("NAME", "gzip or none", unit: :words) { |value| compressions[value.to_s.downcase] }

      # `size` is in bytes, `every` in seconds. At least one of them is required.
      Policy = Struct.new(:size, :every, :keep, :compress, keyword_init: true) { def self.parse(settings) = new(**self::SETTINGS.complete(settings)) }

      Policy::SETTINGS = Gyre::Settings.new({ nil => [
        row[:size, :bytes, "a file of this length is replaced by a new one, like 100M"],
        row[:every, :seconds, "a new file when a new minute, hour, day or week begins, or after these seconds"],
        row[:keep, :count, "old files that are kept", default: 30],
        row[:compress, compress, "old files", default: false]
      ] }, what: "key") { |values, faults| faults.add(nil, "needs size, every, or both") unless values.key?(:size) || values.key?(:every) }
    end
  end
end
