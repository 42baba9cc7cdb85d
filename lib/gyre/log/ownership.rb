# frozen_string_literal: true

# Checks that this user owns the files of a disk queue. Otherwise another user could insert records,
# or a symlink to any file. Called by Gyre::Log::Spools, DiskQueue::Segment and Output::Spill.

module Gyre
  module Log
    module Ownership
      # Another user owns the file or may change it.
      class Refused < Errno::EPERM
        def message = super[/ - (.*)\z/m, 1] || super
      end

      OTHERS_WRITE = 0o022

      module_function

      def check_parent(path)
        link = File.lstat(path)
        refuse(path, "is a link of user #{link.uid}") if link.symlink? && !link.owned? && !link.uid.zero?
        check(path, File.stat(path), :directory?)
      end

      def check_folder(path) = check(path, File.lstat(path), :directory?)

      def open(path)
        file = File.open(path, File::RDWR | File::BINARY | File::NOFOLLOW | File::NONBLOCK)
        check(path, file.stat, :file?)
        refuse(path, "has another name elsewhere") if file.stat.nlink > 1
        ours = file
      rescue Errno::ELOOP
        refuse(path, "is a link")
      ensure
        file&.close unless ours
      end

      def check(path, stat, kind)
        refuse(path, kind == :file? ? "is not a file" : "is not a folder") unless stat.public_send(kind)
        refuse(path, "belongs to user #{stat.uid}, and this process runs as user #{Process.euid}") unless stat.owned?
        return if (stat.mode & OTHERS_WRITE).zero?

        refuse(path, format("may be changed by other users (mode %04o): chmod go-w", stat.mode & 0o7777))
      end

      def refuse(path, why)
        raise Refused, "#{path} #{why}"
      end
    end
  end
end
