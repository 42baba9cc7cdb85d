# frozen_string_literal: true

# Changes the process to --user and --group, irreversibly, once sockets are open. Wrong names are
# found earlier, by `new`. Also makes files and sockets: root must not follow a link of that user.

require "etc"
require "gyre/errors"

module Gyre
  module CLI
    class Privileges
      OTHERS_WRITE = 0o022
      # Maximum symbolic links in a path, as in the kernel (path_resolution(7)).
      LINKS_LIMIT = 40

      # Takes names or numbers. If `group` is nil, takes the user's group.
      def initialize(user, group)
        @user = user && find(user, "user") { |key| key.is_a?(Integer) ? Etc.getpwuid(key) : Etc.getpwnam(key) }
        @group = group ? find(group, "group") { |key| key.is_a?(Integer) ? Etc.getgrgid(key) : Etc.getgrnam(key) }.gid : @user&.gid
        return if !wanted? || Process.euid.zero?

        raise StartError, "--user and --group are for root: this process is user #{Process.euid}'s. Start it as root, or leave them out"
      end

      def wanted? = !@group.nil? && !current?

      # Yields to make the file or socket `path`: as the user, or as root if only root can change
      # the folder. If `path` is nil or names an abstract socket, only yields.
      def making(path)
        return yield if path.nil? || path.start_with?("@") || !wanted?
        return as_user(path) { yield } unless Privileges.roots_own?(File.dirname(File.expand_path(path)))

        yield.tap { File.lchown(@user&.uid, @group, path) }
      end

      # Yields to open files, which become the user's. `path` is for an error.
      def opening(path, &block) = wanted? ? as_user(path, &block) : yield

      # True if only root can change the folder and the folders above it.
      def self.roots_own?(folder)
        at = "/"
        names = folder.split("/")
        LINKS_LIMIT.times do
          link = nil
          until names.empty? || link
            at = File.expand_path(names.shift, at)
            stat = File.lstat(at)
            return false unless stat.uid.zero?
            next link = File.readlink(at) if stat.symlink?
            return false if (stat.mode & OTHERS_WRITE).positive? && !(stat.sticky? && names.any?)
          end
          return true unless link

          at = link.start_with?("/") ? "/" : File.dirname(at)
          names = link.split("/") + names
        end
        false
      rescue SystemCallError
        false
      end

      # Changes user and group: the group first, because that needs root's rights.
      def drop
        return unless wanted?

        take_groups
        Process::GID.change_privilege(@group)
        Process::UID.change_privilege(@user.uid) if @user
        ENV.update("USER" => @user.name, "LOGNAME" => @user.name, "HOME" => @user.dir) if @user
      rescue SystemCallError => error
        raise StartError, "become another user: #{error.message}"
      end

      private

      def take_groups = @user ? Process.initgroups(@user.name, @group) : Process.groups = [@group]

      def as_user(path)
        former = [Process.groups, Process.egid, Process.euid]
        take_groups
        Process::Sys.setegid(@group)
        Process::Sys.seteuid(@user.uid) if @user
        yield
      rescue Errno::EACCES, Errno::EPERM
        raise StartError, "#{path}: user #{@user&.name} may not make it there, and root makes nothing in a folder that others can change. " \
                          "Give the folder to one of them alone"
      ensure
        groups, gid, uid = former
        Process::Sys.seteuid(uid)
        Process::Sys.setegid(gid)
        Process.groups = groups
      end

      # True if the change is already done (after USR2).
      def current? = Process.egid == @group && (@user.nil? || Process.euid == @user.uid)

      def find(name, kind)
        yield(Integer(name, 10, exception: false) || name)
      rescue ArgumentError
        raise StartError, "there is no #{kind} #{name}"
      end
    end
  end
end
