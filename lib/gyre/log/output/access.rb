# frozen_string_literal: true

# Owner and mode of a log file: the configured values, or its predecessor's. Made by Output.open.
# Output::FileOutput, Journal and Rotation::Packing create files with it.

require "etc"

module Gyre
  module Log
    module Output
      # A new file is private until it has the right owner and group.
      class Access
        # Mode of files that only the server's user may access.
        PRIVATE = 0o600
        NEW = File::CREAT | File::EXCL
        GROUP = 0o070

        class << self
          # Takes "user", "user:group" or ":group", as names or numbers. Returns both ids; nil for a
          # missing part.
          def owner(owner)
            user, group = owner.to_s.split(":", 2)
            ids = [user.to_s.empty? ? nil : id(user, "user") { |name| Etc.getpwnam(name).uid },
                   group.to_s.empty? ? nil : id(group, "group") { |name| Etc.getgrnam(name).gid }]
            ids.any? ? ids : raise(ArgumentError, "owner is user, user:group or :group, not #{owner.inspect}")
          end

          # Raises ArgumentError if the path cannot hold a log file.
          def place(path)
            raise ArgumentError, "#{path} is a folder: name a file in it" if File.directory?(path)
            raise ArgumentError, "#{path} is a socket: write unix://#{File.expand_path(path)}" if File.socket?(path)

            folder(path)
          end

          def folder(path)
            folder = File.dirname(path)
            raise ArgumentError, "the folder #{folder} is not there: make it first" unless File.directory?(folder)
          end

          # Opens a private file, such as a journal. Follows no symlinks, because another user with
          # access to the folder could point a symlink at any file.
          def private_file(path, flags)
            File.open(path, flags | File::CREAT | File::BINARY | File::NOFOLLOW, PRIVATE).tap do |io|
              stat = io.stat
              io.chmod(PRIVATE) if stat.owned? && (stat.mode & 0o077).positive?
            end
          end

          # Creates a private file. Replaces a symlink, or a file that a killed server has left.
          def new_private_file(path, flags)
            File.unlink(path) if File.symlink?(path) || File.exist?(path)
            private_file(path, flags | File::EXCL)
          end

          # Copies owner, group and mode of another file, as far as permitted.
          def like(io, stat) = give(io, stat.uid, stat.gid, stat.mode & 0o7777)

          # Sets owner, group and mode. If the group cannot be set, omits the group's permissions.
          # Returns true if owner and group are set.
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

        # Opens or creates a log file for appending. If it is new, `predecessor` gives the values
        # that are not configured. Returns the file and whether it is new. Raises SystemCallError.
        def open(path, predecessor)
          io, fresh = open_or_make(path)
          fresh ? set_up(io, predecessor) : adjust(io)
          opened = [io, fresh]
        ensure
          io&.close unless opened
        end

        private

        def open_or_make(path)
          flags = File::WRONLY | File::APPEND | File::BINARY
          [File.open(path, flags | NEW, PRIVATE), true]
        rescue Errno::EEXIST
          fresh = !File.exist?(path) # a symlink to a missing file
          [File.open(path, flags | File::CREAT, PRIVATE), fresh]
        end

        def set_up(io, predecessor)
          mode = @mode || (predecessor ? predecessor.mode & 0o7777 : 0o666 & ~File.umask)
          uid, gid = @uid || predecessor&.uid, @gid || predecessor&.gid
          Access.give(io, uid, gid, mode)
          io.chown(@uid, @gid) unless right?(io.stat)
        end

        def adjust(io)
          stat = io.stat
          io.chown(@uid, @gid) unless right?(stat)
          io.chmod(@mode) if @mode && stat.mode & 0o7777 != @mode
        end

        def right?(stat) = [nil, stat.uid].include?(@uid) && [nil, stat.gid].include?(@gid)
      end
    end
  end
end
