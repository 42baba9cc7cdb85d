# frozen_string_literal: true

# Rotation of one log file: when it is due, what its older parts are called, compressing them, and
# how many are kept. Called by Output::File between two batches, which syncs before and opens the
# new file after {#move}. It never touches a line.
#
#   log ──► log.1 ──► log.1.gz     older ones move up first, log.2.gz ──► log.3.gz, from the last one down
#
# Each step is one rename or one unlink, and leaves every byte under some name: killed between two
# of them, the next rotation goes on from what it finds. A packed file is written as *.part, synced,
# renamed, and then only the plain one is removed.
require "gyre/log/output/rotation/packing"
require "gyre/log/output/rotation/policy"
require "gyre/task"

module Gyre
  module Log
    # Belongs to one Output::File.
    class Rotation
      # Seconds until a failed rotation is tried again.
      POSTPONED_S = 60

      # nil without settings. Raises ArgumentError.
      def self.from(settings, path, report: nil)
        settings && new(path, Policy.parse(settings), report: report)
      end

      attr_reader :trouble # why it fails at the moment

      def initialize(path, settings, report: nil)
        @path = path
        @settings = settings
        @report = report
        @rest = true
      end

      # True if it rotates before `bytes` more are written.
      def due?(stat, bytes, time)
        return false if stat.size.zero? || @packing || postponed?

        too_large?(stat, bytes) || too_old?(stat, time)
      end

      # Gives the log file its new name. May be called again after an error.
      def move
        rename(@path, free_number) if ::File.exist?(@path)
      end

      # After a rotation: removes what is too old, packs in a task beside.
      def finish
        @trouble = nil
        prune
        pack_later
      end

      # Once after the start: packs what a process that was killed has left plain.
      def pack_rest
        pack_later if @rest
      end

      # It failed, and is tried again later.
      def postpone(error)
        text = "cannot rotate: #{error.message}"
        report("#{text}; lines go on into the old file") unless text == @trouble
        @trouble = text
        @postponed_until = Clock.now + POSTPONED_S
      end

      # At start: removes what a packing that was killed has left.
      def clean = parts.grep(/\.part\z/) { |path| remove(path) }

      # The newest first.
      def older = numbered.sort.flat_map(&:last)

      private

      # Excludes logrotate's dates (log.20261121).
      NUMBERED = /\.(\d{1,5})(?:\.gz)?\z/.freeze
      # 1970 began on a Thursday.
      SINCE_MONDAY_S = 3 * 86_400
      private_constant :NUMBERED, :SINCE_MONDAY_S

      # Every file whose name is the log file's with a suffix of rotation behind it.
      def parts
        folder, name = ::File.split(@path)
        Dir.children(folder).grep(/\A#{Regexp.escape(name)}\.\d+(?:\.gz)?(?:\.part)?\z/)
           .map { |child| folder == "." && !@path.start_with?("./") ? child : ::File.join(folder, child) }
      end

      def numbered = parts.grep(NUMBERED).group_by { |path| path[NUMBERED, 1].to_i }

      # Moves up as many as it takes to get number 1 free; a gap that a crash has left ends that.
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

      # One after the other, beside the task that writes; without one right here.
      def pack_later
        @rest = false
        return if @packing || !@settings.compress

        @packing = true
        task = Task.current?
        task ? task.async("log rotation #{@path}", transient: true) { pack_all } : pack_all
      end

      def pack_all
        older.reject { |path| path.end_with?(Packing::SUFFIX) }.reverse_each { |path| pack(path) }
      rescue SystemCallError, Zlib::Error => error
        @trouble = "cannot compress: #{error.message}"
        report("#{@trouble}; the plain file is kept")
      ensure
        @packing = false
      end

      def pack(path) = Offload.call { Packing.pack(path) }

      def too_large?(stat, bytes) = @settings.size ? stat.size + bytes > @settings.size : false

      # The file's last line is of another period. Periods begin with the clock here, weeks on
      # Monday.
      def too_old?(stat, time) = @settings.every ? period(stat.mtime) != period(time) : false

      def period(time) = ((time.to_i + time.utc_offset + SINCE_MONDAY_S) / @settings.every).floor

      def postponed? = @postponed_until && Clock.now < @postponed_until

      def report(message) = @report&.call("#{@path}: #{message}")

      # Only these two change the folder.
      def rename(from, to) = ::File.rename(from, to)

      def remove(path)
        ::File.unlink(path)
      rescue Errno::ENOENT
        nil # another process was faster
      end
    end
  end
end
