# frozen_string_literal: true

# Describes a fiber's wait from outside, in words. Made by Scheduler#waits, for print_hierarchy and
# the search for deadlocks; describes the moment of its creation.

require_relative "place"

module Gyre
  class Inspection
    # The waiting fiber; the fiber that has resumed it (an Enumerator's caller), else itself;
    # :waiting or :ready; the awaited object (see {Scheduler#block}), nil if it only yields; number
    # and events (sum of IO::READABLE, IO::WRITABLE, IO::PRIORITY) of an awaited descriptor; seconds
    # left of its timeout.
    Wait = Struct.new(:fiber, :entered, :state, :blocker, :fd, :events, :left_s) do
      # @param holding [String, nil] the holder of the awaited object, if known (see
      #   {Inspection#describe})
      # @return [String] for example: reading from fd 7 (127.0.0.1:80), 4.8 s left
      def to_s(holding = nil)
        return "ready" if state == :ready

        text = purpose
        text += " that #{holding}" if holding
        left_s && !blocker.is_a?(Offload::Job) ? "#{text}, #{format("%.1f", [left_s, 0].max)} s left" : text
      end

      # @return [Boolean] whether it just sleeps
      def sleeping? = blocker == :sleep && !condition_variable?

      # @return [String, nil] file and line at which the program waits
      def place = Place.of(fiber.backtrace)

      private

      def purpose
        case blocker
        when :sleep         then sleeping? ? "sleeping" : "waiting for a condition variable"
        when IO             then "#{action} fd #{fd || blocker.fileno}#{peer}"
        when Integer        then "waiting for process #{blocker}"
        when Array          then "waiting for any of #{blocker.compact.flatten(1).size} in IO.select"
        when Thread::Mutex  then "waiting for a mutex"
        when Thread::SizedQueue, Thread::Queue then "waiting for #{queue}"
        when Thread         then "waiting for thread #{blocker.name || blocker.inspect}"
        else "waiting for #{other}"
        end
      end

      def action
        case events
        when IO::READABLE then "reading from"
        when IO::WRITABLE then "writing to"
        else "waiting for"
        end
      end

      # The other end of a socket, or a file's path.
      def peer
        text = blocker.is_a?(BasicSocket) ? socket_peer : (blocker.path if blocker.respond_to?(:path))
        " (#{text})" if text
      rescue SystemCallError, IOError, SocketError
        nil # not connected
      end

      def socket_peer
        own = blocker.local_address
        return "listening on #{own.inspect_sockaddr}" if blocker.getsockopt(:SOCKET, :ACCEPTCONN).bool

        remote = blocker.remote_address
        path = [remote, own].filter_map { |address| address.unix_path if address.unix? }.find { |unix| !unix.empty? }
        path || (remote.inspect_sockaddr unless remote.unix?)
      end

      def queue
        return "room in a queue of #{blocker.max}" if blocker.is_a?(Thread::SizedQueue) && blocker.size >= blocker.max

        "a queue to be filled"
      end

      # Returns the label, if any (tasks), else the class.
      def other = blocker.respond_to?(:label) ? blocker.label : blocker.class.name.to_s

      # ConditionVariable#wait sleeps without a blocker of its own, by condition_wait.rb.
      def condition_variable?
        fiber.backtrace.take_while { |frame| Place.own?(frame) }.any? { |frame| frame.include?("/gyre/scheduler/condition_wait.rb:") }
      end
    end
  end
end
