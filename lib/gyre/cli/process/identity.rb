# frozen_string_literal: true

# The user, group and pidfile of a server's process. Every server opens its sockets, assumes its
# identity, and leaves it at the end. Opens no socket.

require "gyre/cli/process/pidfile"
require "gyre/cli/process/privileges"

module Gyre
  module CLI
    class Identity
      # All may be nil. Raises StartError for a wrong name, or if a living process has the pidfile.
      def initialize(user, group, pidfile)
        @privileges = Privileges.new(user, group)
        @pidfile = Pidfile.new(pidfile) if pidfile
        @pidfile&.check
      end

      # Makes a file or socket for the user; see Privileges.
      def making(...) = @privileges.making(...)

      def opening(...) = @privileges.opening(...)

      # True if {#assume} gives up root's rights.
      def wanted? = @privileges.wanted?

      def pidfile_path = @pidfile&.path

      # Writes the pidfile, unless the former program of this process did, and gives up root's
      # rights.
      def assume
        making(@pidfile.path) { @pidfile.write } unless @pidfile.nil? || @pidfile.own?
        @privileges.drop
      end

      # Removes the file at `path`, which the former program of this process wrote; nil: none.
      def leave_former(path) = path && path != pidfile_path && Pidfile.new(path).remove

      def leave = @pidfile&.remove
    end
  end
end
