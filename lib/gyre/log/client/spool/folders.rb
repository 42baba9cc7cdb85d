# frozen_string_literal: true

# The folders of log clients' spools: makes one with its lock, finds those of processes that have
# ended. Called by the client's options. A process is alive as long as it holds the lock; nothing
# else is asked.
#
# What is sent from a spool counts as said by this program. So a folder must belong to this user and
# be writable by no other one, and so must everything in it; symlinks are not followed. Spool::Trust
# asks.

require "fileutils"
require "gyre/log/client/spool/trust"

module Gyre
  module Log
    class Spool
      # See the head of this file.
      module Folders
        # A file's name has 255; a client's id follows.
        NAME_BYTES_LIMIT = 200
        # What {create} makes before it has its name, and how long that may take at most.
        UNFINISHED = /\A\.\h{32}\.\d+\z/.freeze
        MAKING_S = 60
        private_constant :NAME_BYTES_LIMIT, :UNFINISHED, :MAKING_S

        class << self
          # Makes one, and owns it.
          #
          # @param folder [String] made when it is missing
          # @param name [String] of service and server, as {name_for} makes it
          # @param client_id [String]
          # @param secret [String, nil] of that id, kept in the lock
          # @param options [Hash] of {Spool#initialize}
          # @return [Spool]
          # @raise [SystemCallError]
          def create(folder, name, client_id, secret: nil, **options)
            FileUtils.mkdir_p(folder, mode: 0o700)
            Trust.folder(folder)
            path = File.join(folder, "#{name}.#{client_id}")
            # Under another name until it is locked: no process shall adopt it in between.
            making = File.join(folder, ".#{client_id}.#{Process.pid}")
            Dir.mkdir(making, 0o700)
            lock = File.open(File.join(making, "lock"), File::RDWR | File::CREAT | File::EXCL, 0o600)
            lock.flock(File::LOCK_EX | File::LOCK_NB)
            lock.pwrite(secret, 0) if secret
            File.rename(making, path)
            Spool.new(path, client_id, lock, [], secret: secret, **options)
          rescue SystemCallError
            lock&.close
            FileUtils.rm_rf(making) if making
            raise
          end

          # Takes over what processes that have ended left behind, one spool after the other, the
          # oldest first. The block closes it.
          #
          # @param folder [String]
          # @param name [String]
          # @yieldparam spool [Spool]
          # @return [void, Enumerator] without a block, which then has to be used up
          # @raise [SystemCallError]
          def each_orphan(folder, name, **options)
            return to_enum(:each_orphan, folder, name, **options) unless block_given?

            return unless File.exist?(folder)

            Trust.folder(folder)
            by_age(folder).each do |path|
              remove_unfinished(path) if UNFINISHED.match?(File.basename(path))
              id = File.basename(path)[/\A#{Regexp.escape(name)}\.(\h{32})\z/, 1]
              spool = adopt(path, id, **options) if id
              yield spool if spool
            end
          end

          # Takes back one that was closed.
          #
          # @param folder [String]
          # @param name [String]
          # @param client_id [String]
          # @return [Spool, nil] nil when another process has it, or it is gone
          # @raise [SystemCallError]
          def retake(folder, name, client_id, **options)
            Trust.folder(folder)
            adopt(File.join(folder, "#{name}.#{client_id}"), client_id, **options)
          end

          # @param parts [Array] a service, a host, a port
          # @return [String] a file name that is the same for the same parts only
          def name_for(*parts)
            name = parts.map { |part| part.to_s.b.gsub(/[^A-Za-z0-9._-]/n) { |byte| format("%%%02X", byte.ord) } }.join("@")
            return name if name.bytesize <= NAME_BYTES_LIMIT

            require "digest"
            "#{name[0, NAME_BYTES_LIMIT - 65]}@#{Digest::SHA256.hexdigest(name)}"
          end

          private

          # The lock is written to when it is made, so its time is that of the spool.
          def by_age(folder)
            Dir.glob("*", File::FNM_DOTMATCH, base: folder).map { |entry| File.join(folder, entry) }.sort_by do |path|
              File.lstat(File.join(path, "lock")).mtime
            rescue SystemCallError
              Time.at(0)
            end
          end

          def adopt(path, client_id, **options)
            Trust.entry(path)
            lock = Trust.open(File.join(path, "lock"))
            # Its owner may have deleted it just now.
            mine = lock.flock(File::LOCK_EX | File::LOCK_NB) && File.exist?(lock.path) && File.identical?(lock.path, lock)
            return lock.close unless mine

            segments = []
            Dir.children(path).grep(/\A\d+\.records\z/).sort.each do |entry|
              segments << Segment.open(File.join(path, entry), options[:report])
            end
            secret = lock.size.zero? ? nil : lock.pread(32, 0)[/\A\h{32}\z/] # an older client had none
            Spool.new(path, secret ? Identity.id_of(secret) : client_id, lock, segments.compact, secret: secret, **options)
          rescue Errno::ENOENT, Errno::ENOTDIR, Errno::EACCES
            [lock, *segments].compact.each(&:close)
            remove_rest(path) # deleted meanwhile
          rescue SystemCallError => error # also one that is not trusted; the others are sent all the same
            [lock, *segments].compact.each(&:close)
            options[:report]&.call("not sent: #{error.message}")
            nil
          end

          # The process that deleted it may have been killed before the folder was gone. There is
          # never one without a lock otherwise.
          # @return [nil]
          def remove_rest(path)
            Dir.rmdir(path) && nil
          rescue SystemCallError
            nil
          end

          # Its maker was killed before it had its name: nothing is in it.
          # @return [nil]
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
end
