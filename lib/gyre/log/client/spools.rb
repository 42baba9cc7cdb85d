# frozen_string_literal: true

# Makes and locks spools of log clients, and finds spools of ended processes. A spool is a disk
# queue (disk_queue.rb) whose note is the client id's secret. A locked spool's process is alive.
#
# Records of a spool are sent as this program's own. This user must therefore own folder and files,
# and no other user may write to them (Gyre::Log::Ownership).

require "fileutils"
require "gyre/log/disk_queue"
require "gyre/log/wire/identity"

module Gyre
  module Log
    module Spools
      # Maximum bytes of a spool's name before the client id; a file name has at most 255 bytes.
      NAME_BYTES_LIMIT = 200
      # Bounds of a segment's bytes, which otherwise are a sixteenth of the spool's limit.
      SEGMENT_BYTES = ((1 << 16)..(1 << 26)).freeze
      # Names of spools that are being created, and maximum seconds of a creation.
      UNFINISHED = /\A\.\h{32}\.\d+\z/.freeze
      MAKING_S = 60

      class << self
        def create(folder, name, identity, **options)
          FileUtils.mkdir_p(folder, mode: 0o700)
          Ownership.check_parent(folder)
          path = File.join(folder, "#{name}.#{identity.client_id}")
          # Locks the spool under a temporary name, so that no other process adopts it.
          making = File.join(folder, ".#{identity.client_id}.#{Process.pid}")
          Dir.mkdir(making, 0o700)
          lock = File.open(File.join(making, "lock"), File::RDWR | File::CREAT | File::EXCL, 0o600)
          lock.flock(File::LOCK_EX | File::LOCK_NB)
          lock.pwrite(identity.secret, 0)
          File.rename(making, path)
          open(path, lock, **options)
        rescue SystemCallError
          lock&.close
          FileUtils.rm_rf(making) if making
          raise
        end

        # Takes over spools of ended processes, the oldest first. The block must close each spool.
        def each_orphan(folder, name, **options)
          return unless File.exist?(folder)

          Ownership.check_parent(folder)
          by_age(folder).each do |path|
            remove_unfinished(path) if UNFINISHED.match?(File.basename(path))
            spool = adopt(path, **options) if File.basename(path).match?(/\A#{Regexp.escape(name)}\.\h{32}\z/)
            yield spool if spool
          end
        end

        # Takes over a spool that another process has closed or left.
        def adopt(path, report: nil, **options)
          Ownership.check_parent(File.dirname(path))
          Ownership.check_folder(path)
          lock = Ownership.open(File.join(path, "lock"))
          # The former process may have deleted the file before it released the lock.
          mine = lock.flock(File::LOCK_EX | File::LOCK_NB) && File.exist?(lock.path) && File.identical?(lock.path, lock)
          return lock.close unless mine
          raise DiskQueue::Segment::Foreign, "#{path} has no secret of a client in its lock" unless lock.read(32).to_s.match?(/\A\h{32}\z/)

          open(path, lock, report: report, **options)
        rescue Errno::ENOENT, Errno::ENOTDIR, Errno::EACCES
          lock&.close
          remove_rest(path) # deleted just now
        rescue SystemCallError, DiskQueue::Segment::Foreign => error # other spools are still sent
          lock&.close
          report&.call("not sent: #{error.message}")
          nil
        end

        def name_for(*parts)
          name = parts.map { |part| part.to_s.b.gsub(/[^A-Za-z0-9._-]/n) { |byte| format("%%%02X", byte.ord) } }.join("@")
          return name if name.bytesize <= NAME_BYTES_LIMIT

          "#{name[0, NAME_BYTES_LIMIT - 65]}@#{Digest::SHA256.hexdigest(name)}"
        end

        private

        def open(path, lock, limit:, **options) = DiskQueue.new(path, lock, limit: limit, segment_bytes: (limit / 16).clamp(SEGMENT_BYTES), **options)

        # The lock file is written once, so its time shows the spool's age.
        def by_age(folder)
          Dir.glob("*", File::FNM_DOTMATCH, base: folder).map { |entry| File.join(folder, entry) }.sort_by do |path|
            File.lstat(File.join(path, "lock")).mtime
          rescue SystemCallError
            Time.at(0)
          end
        end

        # Removes the empty folder of a process that was killed while it deleted its spool.
        def remove_rest(path)
          Dir.rmdir(path) && nil
        rescue SystemCallError
          nil
        end

        # Removes an unfinished spool, whose process was killed before the rename.
        def remove_unfinished(path)
          stat = File.lstat(path)
          FileUtils.rm_rf(path) if stat.owned? && stat.mtime < Time.now - MAKING_S
          nil
        rescue SystemCallError
          nil # another process was faster
        end
      end
    end
  end
end
