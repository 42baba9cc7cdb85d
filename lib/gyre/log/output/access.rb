# frozen_string_literal: true

# Owner and mode of a log file: the configuration's (mode, owner), or else those of its predecessor
# before rotation. Made by Output.open; used by Output::File, Journal and Rotation::Packing, which
# make files. Reads and writes no bytes.

require "etc"

module Gyre
  module Log
    module Output
      # A new file is for its owner alone until it belongs to the right owner and group.
      class Access
        # For files beside a log, which only the server uses.
        PRIVATE = 0o600
        NEW = ::File::CREAT | ::File::EXCL
        GROUP = 0o070
        private_constant :NEW, :GROUP

        class << self
          # Takes "user", "user:group" or ":group", names or numbers; returns ids, nil for one not
          # named.
          def owner(owner)
            user, group = owner.to_s.split(":", 2)
            ids = [user.to_s.empty? ? nil : id(user, "user") { |name| Etc.getpwnam(name).uid },
                   group.to_s.empty? ? nil : id(group, "group") { |name| Etc.getgrnam(name).gid }]
            ids.any? ? ids : raise(ArgumentError, "owner is user, user:group or :group, not #{owner.inspect}")
          end

          # Raises ArgumentError if no log file can be there.
          def place(path)
            raise ArgumentError, "#{path} is a folder: name a file in it" if ::File.directory?(path)
            raise ArgumentError, "#{path} is a socket: write unix://#{::File.expand_path(path)}" if ::File.socket?(path)

            folder(path)
          end

          def folder(path)
            folder = ::File.dirname(path)
            raise ArgumentError, "the folder #{folder} is not there: make it first" unless ::File.directory?(folder)
          end

          # A file that only its owner reads, such as a journal or an unfinished part. Follows no
          # symlinks: in a folder that another user may write to, one could lead to any file.
          def private_file(path, flags)
            ::File.open(path, flags | ::File::CREAT | ::File::BINARY | ::File::NOFOLLOW, PRIVATE).tap do |io|
              stat = io.stat
              io.chmod(PRIVATE) if stat.owned? && (stat.mode & 0o077).positive?
            end
          end

          # A new one; replaces a file of that name, left by a killed server, or a symlink.
          def new_private_file(path, flags)
            ::File.unlink(path) if ::File.symlink?(path) || ::File.exist?(path)
            private_file(path, flags | ::File::EXCL)
          end

          # Gives a file the owner, group and mode of another; without the owner and group it keeps
          # the mode private.
          def like(io, stat) = give(io, stat.uid, stat.gid, stat.mode & 0o7777)

          # Returns whether owner and group are these now.
          def give(io, uid, gid, mode)
            given = chown(io, uid, gid) || chown(io, nil, gid)
            given ||= io.stat.gid == gid
            io.chmod(given ? mode : mode & ~GROUP)
            given && (uid.nil? || io.stat.uid == uid)
          end

          private

          def id(name, what)
            name.match?(/\A\d+\z/) ? name.to_i : yield(name)
          rescue ArgumentError
            raise ArgumentError, "there is no #{what} #{name.inspect} here"
          end

          def chown(io, uid, gid)
            stat = io.stat
            io.chown(uid, gid) unless [nil, stat.uid].include?(uid) && [nil, stat.gid].include?(gid)
            true
          rescue Errno::EPERM
            false
          end
        end

        def initialize(mode: nil, owner: nil)
          @mode = mode
          @uid, @gid = Access.owner(owner) if owner
        end

        # Opens a log file for appending, or makes it. A new file takes unset mode and owner from
        # `predecessor`. Returns the file and whether it is new. Raises SystemCallError, also if the
        # owner cannot be set.
        def open(path, predecessor)
          io, fresh = open_or_make(path)
          fresh ? set_up(io, predecessor) : adjust(io)
          opened = [io, fresh]
        ensure
          io&.close unless opened
        end

        private

        def open_or_make(path)
          flags = ::File::WRONLY | ::File::APPEND | ::File::BINARY
          [::File.open(path, flags | NEW, PRIVATE), true]
        rescue Errno::EEXIST
          fresh = !::File.exist?(path) # a symlink to a missing file
          [::File.open(path, flags | ::File::CREAT, PRIVATE), fresh]
        end

        def set_up(io, predecessor)
          mode = @mode || (predecessor ? predecessor.mode & 0o7777 : 0o666 & ~::File.umask)
          uid, gid = @uid || predecessor&.uid, @gid || predecessor&.gid
          Access.give(io, uid, gid, mode)
          require_owner(io)
        end

        def adjust(io)
          stat = io.stat
          io.chown(@uid, @gid) unless right?(stat)
          io.chmod(@mode) if @mode && stat.mode & 0o7777 != @mode
        end

        # The configured owner is required.
        def require_owner(io)
          io.chown(@uid, @gid) unless right?(io.stat)
        end

        def right?(stat) = [nil, stat.uid].include?(@uid) && [nil, stat.gid].include?(@gid)
      end
    end
  end
end
