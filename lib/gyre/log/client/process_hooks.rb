# frozen_string_literal: true

# What a process's end and its forks mean for log clients: at exit each sends what it can and leaves
# the rest in its spool; a child starts as new; a daemon goes on as the process before. Holds every
# Gyre::Log::Sender that runs.

module Gyre
  module Log
    # See the head of this file.
    module ProcessHooks
      @senders = {}.compare_by_identity

      # Prepended to Process's singleton class; fork and IO.popen("-") go through _fork, daemon does
      # not.
      module Fork
        # @return [Integer] as Process._fork
        def _fork
          super.tap { |pid| ProcessHooks.forked if pid.zero? }
        end

        # @return [Integer] as Process.daemon
        def daemon(*)
          ProcessHooks.flush
          ProcessHooks.suspended { super }
        end
      end

      class << self
        # @param sender [Sender]
        def add(sender)
          install
          @senders[sender] = Process.pid
        end

        # @param sender [Sender]
        def remove(sender) = @senders.delete(sender)

        # In a forked child.
        def forked
          @senders.keys.each { |sender| sender.process_fork if @senders[sender] != Process.pid }
          @senders.clear
        end

        # Gives all senders together the time that the most patient one has.
        def flush
          now = Clock.now
          @senders.keys.each { |sender| sender.flush_at_exit(now) }
        end

        # Without the threads, which go on afterwards with all that they had: in the daemon, or
        # where the block fails.
        # @return the block's value
        def suspended
          senders = @senders.keys.each(&:suspend)
          yield
        ensure
          senders&.each(&:resume)
        end

        private

        def install
          return if @installed

          @installed = true
          Process.singleton_class.prepend(Fork)
          # The threads go on, for other handlers log, too. When the process ends them they leave
          # the rest in their spools.
          at_exit { flush }
        end
      end
    end
  end
end
