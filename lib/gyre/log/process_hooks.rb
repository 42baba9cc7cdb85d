# frozen_string_literal: true

# What a process's end and its forks mean for log clients: at exit each sends what it can and leaves the rest in its spool; a child
# starts as new; a daemon takes nothing along. Holds every Gyre::Log::Sender that runs.

module Gyre
  module Log
    # See the head of this file.
    module ProcessHooks
      @senders = {}.compare_by_identity

      # Prepended to Process's singleton class; fork and IO.popen("-") go through _fork, daemon does not.
      module Fork
        # @return [Integer] as Process._fork
        def _fork
          super.tap { |pid| ProcessHooks.forked if pid.zero? }
        end

        # @return [Integer] as Process.daemon
        def daemon(*)
          ProcessHooks.flush
          ProcessHooks.put_down
          super.tap { ProcessHooks.forked }
        end
      end

      class << self
        # @param sender [Sender]
        # @return [void]
        def add(sender)
          install
          @senders[sender] = Process.pid
        end

        # @param sender [Sender]
        # @return [void]
        def remove(sender)
          @senders.delete(sender)
        end

        # In a forked child.
        # @return [void]
        def forked
          @senders.keys.each { |sender| sender.process_fork if @senders[sender] != Process.pid }
          @senders.clear
        end

        # Gives all senders together the time that the most patient one has.
        # @return [void]
        def flush
          now = Uplink.now
          @senders.keys.each { |sender| sender.flush_at_exit(now) }
        end

        # Ends the threads; they leave what they have in their spools.
        # @return [void]
        def put_down
          @senders.keys.each(&:put_down)
        end

        private

        def install
          return if @installed

          @installed = true
          Process.singleton_class.prepend(Fork)
          # The threads go on, for other handlers log, too. When the process ends them they leave the rest in their spools.
          at_exit { flush }
        end
      end
    end
  end
end
