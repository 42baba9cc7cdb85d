# frozen_string_literal: true

# Which user and group a server becomes once its sockets are open: --user and --group. The commands
# that serve make one before they open anything, so that a wrong name is found first. There is no
# way back.

require "etc"
require "gyre/cli/errors"

module Gyre
  module CLI
    # See the head of this file.
    class Privileges
      # @param user [String, nil] a name or a number
      # @param group [String, nil] a name or a number; nil: the user's own
      # @raise [StartError] there is no such user or group, or this process may not change
      def initialize(user, group)
        @user = user && find(user, "user") { |key| key.is_a?(Integer) ? Etc.getpwuid(key) : Etc.getpwnam(key) }
        @group = group ? find(group, "group") { |key| key.is_a?(Integer) ? Etc.getgrgid(key) : Etc.getgrnam(key) }.gid : @user&.gid
        return if !wanted? || Process.euid.zero?

        raise StartError, "--user and --group are for root: this process is user #{Process.euid}'s. Start it as root, or leave them out"
      end

      # @return [Boolean] whether anything is to be changed
      def wanted? = !@group.nil? && !current?

      # Gives the user what this process has made.
      #
      # @param paths [Array<String>] files and sockets
      # @return [void]
      def own(*paths)
        paths.compact.each { |path| File.lchown(@user&.uid, @group, path) } if wanted?
      rescue SystemCallError => error
        raise StartError, "change the owner of a file: #{error.message}"
      end

      # For good. Group first: without the rights of root none can be changed.
      #
      # @return [void]
      # @raise [StartError]
      def drop
        return unless wanted?

        @user ? Process.initgroups(@user.name, @group) : Process.groups = [@group]
        Process::GID.change_privilege(@group)
        Process::UID.change_privilege(@user.uid) if @user
        ENV.update("USER" => @user.name, "LOGNAME" => @user.name, "HOME" => @user.dir) if @user
      rescue SystemCallError => error
        raise StartError, "become another user: #{error.message}"
      end

      private

      # After USR2 it has been done.
      def current? = Process.egid == @group && (@user.nil? || Process.euid == @user.uid)

      def find(name, kind)
        yield(Integer(name, 10, exception: false) || name)
      rescue ArgumentError
        raise StartError, "there is no #{kind} #{name}"
      end
    end
  end
end
