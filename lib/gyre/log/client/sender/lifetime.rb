# frozen_string_literal: true

# What a log client's sender does when its process ends, becomes a daemon or is forked, called by Gyre::Log::ProcessHooks; and where
# its thread may be killed. Part of Gyre::Log::Sender.

module Gyre
  module Log
    class Sender
      # See the head of this file.
      module Lifetime
        # Before the process ends: waits until all is acknowledged, while there is hope.
        # @param since [Float] when the end began
        # @return [void]
        def flush_at_exit(since)
          number = @outbox.sequence
          left = since + @settings.exit_timeout - Uplink.now
          wait([left, 0].max) { acknowledged?(number) || !running? || (@failures.positive? && @backlog.spools?) }
        end

        # Ends the thread; all that it has stays as it is. {#resume} goes on, also in the daemon that this process becomes.
        # @return [void]
        def suspend
          @suspended = true unless @closing_at # what is closed leaves the rest in its spool
          @thread&.kill&.join
        end

        # @return [void]
        def resume
          return unless @suspended

          @suspended = false
          set_up_waiting
          @outbox.stay
          start
        end

        # In a forked child: as new, without anything of the parent's.
        # @return [void]
        def process_fork
          abandon
          @thread = @attempt = @adoption = nil
          @outbox.reset
          @sent = @reconnects = @dropped = @spooled = 0
          set_up_waiting
          set_up(nil)
          @outbox.attention = true
        end

        # In a forked child: lets go of the parent's connection and spool, and sends the server nothing.
        # @return [void]
        def abandon
          @link&.abandon
          @adoption&.abandon
          @backlog.close
          [@pipe, @waker].each(&:close)
        end

        private

        # The thread was killed, or had ended: what it left is in its spool, and first to be sent. Where another process has
        # adopted that, a fresh id begins.
        def set_up_again
          @spooled += @backlog.spooled
          @dropped += @backlog.dropped
          spool = @settings.retake_spool(@identity) unless @done
          set_up(spool, @done || spool ? @backlog.acknowledged : 0)
        end

        # At the end of a thread that will go on: in another process, which has neither its connection nor its other threads.
        def pause
          @adoption = @attempt = nil
          @state = :connecting
          @failures = 0
          @retry_at = Uplink.now
          @graceful_until = @retry_at + GRACE_S
        end

        # Here the thread may be killed.
        def mortal(&block)
          Thread.handle_interrupt(Object => :immediate, &block)
        end

        # Until the thread is woken, or a socket is ready.
        # @param left [Float, nil] seconds
        def doze(reads, writes, left)
          mortal { IO.select([@pipe, *reads], writes, nil, left&.clamp(0, nil)) }
          @outbox.awake
          nil while @pipe.read_nonblock(4096, exception: false).is_a?(String)
        end
      end
    end
  end
end
