# frozen_string_literal: true

# Describes a fiber's wait at one moment. Made by Scheduler#waits. Used by print_hierarchy and
# deadlock reports.

require "rbconfig"

module Gyre
  class Inspection
    # `fiber`: the waiting fiber. `entered`: the fiber that has resumed `fiber`, or `fiber` itself.
    # `state`: :waiting or :ready. `blocker`: the awaited object ({Scheduler#block}), nil for a
    # yield. `events`: sum of IO::READABLE, IO::WRITABLE, IO::PRIORITY. `left_s`: seconds until the
    # timeout.
    Wait = Struct.new(:fiber, :entered, :state, :blocker, :fd, :events, :left_s) do
      # @param holding [String, nil] the awaited object's holder ({Inspection#describe})
      # @return [String] such as: reading from fd 7 (127.0.0.1:80), 4.8 s left
      def to_s(holding = nil)
        return "ready" if state == :ready

        text = purpose
        text += " that #{holding}" if holding
        left_s && !blocker.is_a?(Offload::Job) ? "#{text}, #{format("%.1f", [left_s, 0].max)} s left" : text
      end

      # @return [Boolean]
      def sleeping? = blocker == :sleep && !condition_variable?

      # @return [String, nil] file and line of the program
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

      # Returns a socket's other end, or a file's path.
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

      # Returns the label of an object that has one (such as a task), otherwise the class.
      def other = blocker.respond_to?(:label) ? blocker.label : blocker.class.name.to_s

      # True in a ConditionVariable#wait. Its blocker is :sleep, so only the backtrace tells it from
      # a sleep (condition_wait.rb).
      def condition_variable?
        fiber.backtrace.take_while { |frame| Place.own?(frame) }.any? { |frame| frame.include?("/gyre/scheduler/condition_wait.rb:") }
      end
    end

    # Finds the program's own line in a backtrace, for print_hierarchy, watchdog and deadlocks.
    module Place
      OWN = File.expand_path("..", __dir__).freeze
      # Folders of Ruby's library and of gems. Read once, as Ractors may not ask RubyGems.
      LIBRARIES = [RbConfig::CONFIG["rubylibprefix"], *(Gem.path if defined?(Gem))].compact.map { |folder| "#{folder}/".freeze }.freeze
      private_constant :OWN, :LIBRARIES

      class << self
        # Returns file:line. The path is relative if the file is below the working directory.
        def of(backtrace)
          frames = without_own(backtrace)
          frame = frames.find { |line| !line.start_with?(*LIBRARIES) } || frames.first or return
          frame[/\A.+?:\d+/].delete_prefix(present_folder)
        end

        def without_own(backtrace) = backtrace.to_a.reject { |line| own?(line) }

        # True for lines of Gyre and of Ruby itself.
        def own?(line) = line.start_with?("<internal:", "#{OWN}/", "#{OWN}.rb")

        private

        def present_folder
          "#{Dir.pwd}/"
        rescue SystemCallError
          "" # was removed
        end
      end
    end
  end
end
