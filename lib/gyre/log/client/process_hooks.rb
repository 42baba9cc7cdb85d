# frozen_string_literal: true

# Guides log clients through forks and exits: at exit each sends its records; a forked child starts
# empty; a daemon continues. Holds every running Gyre::Log::Sender.

module Gyre
  module Log
    module ProcessHooks
      @senders = {}.compare_by_identity

      # Prepended to Process's singleton class: fork and IO.popen("-") call _fork, daemon does not.
      module Fork
        def _fork
          super.tap { |pid| ProcessHooks.forked if pid.zero? }
        end

        def daemon(*)
          ProcessHooks.flush
          ProcessHooks.suspended { super }
        end
      end

      class << self
        def add(sender)
          install
          @senders[sender] = Process.pid
        end

        def remove(sender) = @senders.delete(sender)

        def forked
          @senders.keys.each { |sender| sender.process_fork if @senders[sender] != Process.pid }
          @senders.clear
        end

        # Flushes all senders within the longest of their timeouts.
        def flush
          now = Clock.now
          @senders.keys.each { |sender| sender.flush_at_exit(now) }
        end

        # Stops the threads during the block; they continue with all records.
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
          # Keeps the threads running, as other at_exit handlers may log.
          at_exit { flush }
        end
      end
    end
  end
end
