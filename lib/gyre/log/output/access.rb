# frozen_string_literal: true

# Owner and mode of a log file: what the configuration has (mode, owner), or else what its
# predecessor had before it was rotated. Made by Output.open, used by Output::File, Journal and
# Rotation::Packing, which make files. It reads and writes no bytes.

require "etc"

module Gyre
  module Log
    module Output
      # Mode and owner of one log file. A file is made for its owner alone and opened to others only
      # when it belongs to the right ones.
      class Access
        # Of files beside a log, which are the server's own business.
        PRIVATE = 0o600
        NEW = ::File::CREAT | ::File::EXCL
        GROUP = 0o070
        private_constant :NEW, :GROUP

        class << self
          # @param owner [String] "user", "user:group" or ":group", names or numbers
          # @return [Array(Integer, Integer)] user and group; nil for one that is not named
          # @raise [ArgumentError]
          def owner(owner)
            user, group = owner.to_s.split(":", 2)
            ids = [user.to_s.empty? ? nil : id(user, "user") { |name| Etc.getpwnam(name).uid },
                   group.to_s.empty? ? nil : id(group, "group") { |name| Etc.getgrnam(name).gid }]
            ids.any? ? ids : raise(ArgumentError, "owner is user, user:group or :group, not #{owner.inspect}")
          end

          # @param path [String] where a log file is to be
          # @raise [ArgumentError] none can be there
          def place(path)
            raise ArgumentError, "#{path} is a folder: name a file in it" if ::File.directory?(path)
            raise ArgumentError, "#{path} is a socket: write unix://#{::File.expand_path(path)}" if ::File.socket?(path)

            folder(path)
          end

          # @param path [String] of what is to be made
          # @raise [ArgumentError] its folder does not exist
          def folder(path)
            folder = ::File.dirname(path)
            raise ArgumentError, "the folder #{folder} is not there: make it first" unless ::File.directory?(folder)
          end

          # A file that only its owner reads, such as a journal or an unfinished part. Symlinks are
          # not followed: in a folder that another user may write to, one could lead to any file.
          # @param path [String]
          # @param flags [Integer]
          # @return [::File]
          # @raise [SystemCallError]
          def private_file(path, flags)
            ::File.open(path, flags | ::File::CREAT | ::File::BINARY | ::File::NOFOLLOW, PRIVATE).tap do |io|
              stat = io.stat
              io.chmod(PRIVATE) if stat.owned? && (stat.mode & 0o077).positive?
            end
          end

          # A new one. What has the name, of a server that was killed or a symlink, loses it.
          # @param path [String]
          # @param flags [Integer]
          # @return [::File]
          # @raise [SystemCallError]
          def new_private_file(path, flags)
            ::File.unlink(path) if ::File.symlink?(path) || ::File.exist?(path)
            private_file(path, flags | ::File::EXCL)
          end

          # Gives a file the owner, the group and the mode of another one; what cannot be given is
          # not opened to others either.
          # @param io [::File]
          # @param stat [::File::Stat]
          def like(io, stat) = give(io, stat.uid, stat.gid, stat.mode & 0o7777)

          # @return [Boolean] whether owner and group are these now
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

        # @param mode [Integer, nil] of the file
        # @param owner [String, nil] see {Access.owner}
        # @raise [ArgumentError]
        def initialize(mode: nil, owner: nil)
          @mode = mode
          @uid, @gid = Access.owner(owner) if owner
        end

        # Opens a log file for appending, makes it if it is missing.
        # @param path [String]
        # @param predecessor [::File::Stat, nil] what a new one is like where nothing else is set
        # @return [Array(::File, Boolean)] and whether it is new
        # @raise [SystemCallError] also when the owner that was asked for cannot be given
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
          fresh = !::File.exist?(path) # a symlink to nothing
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

        # What the configuration has must be so.
        def require_owner(io)
          io.chown(@uid, @gid) unless right?(io.stat)
        end

        def right?(stat) = [nil, stat.uid].include?(@uid) && [nil, stat.gid].include?(@gid)
      end
    end
  end
end
