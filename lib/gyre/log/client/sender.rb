# frozen_string_literal: true

# A log client's thread and those that wait for it: starts it, ends it, and takes it through forks
# and daemons. Made by Gyre::Log::Client. The thread runs a Gyre::Log::Delivery; other threads only
# wake it and wait for it. It needs no loop and no scheduler.

require "gyre/clock"
require "gyre/log/client/delivery"
require "gyre/log/client/process_hooks"
require "gyre/log/client/waiters"
require "gyre/sync/spin_lock"

module Gyre
  module Log
    # See the head of this file.
    class Sender
      def initialize(options, outbox)
        @options, @outbox = options, outbox
        @former = {}
        @closing_at = nil
        @suspended = false
        set_up_waiting
        set_up(Identity.fresh)
      end

      # Starts the thread, unless it runs. After {#close} it does nothing. Raises ThreadError in a
      # signal handler.
      def start
        @starting.synchronize do
          return if @thread&.alive? || @closing_at

          set_up_again if state == :closed
          @outbox.attention = false
          ProcessHooks.add(self)
          @thread = Thread.handle_interrupt(SpinLock::NEVER) { Thread.new { run } } # see Delivery#run
          @thread.name = "gyre log"
          @thread.report_on_exception = false # the delivery reports by itself
        end
      end

      # Sends what there is, also from spools that were left behind, then ends; what is left after
      # the time, or when the server is away, stays in the spool.
      def close(timeout_s)
        @closing_at = [@closing_at, Clock.now + timeout_s].compact.min
        wake
      end

      def join = @thread&.join

      # Undoes {#close}.
      def reopen
        join
        @closing_at = nil
        start
      end

      def client_id = @delivery.client_id

      # :connecting, :connected, :away, :refused or :closed.
      def state = @delivery.standing.state

      # Why the last connection ended or was not made.
      def error = @delivery.standing.error

      # Why the server refuses this client.
      def refusal = @delivery.standing.refusal

      def dialer = @delivery.dialer

      # Whether it has a connection, or has failed to get one.
      def tried? = state != :connecting

      # Tries to connect now.
      def reconnect
        dialer.hurry
        wake
      end

      # Drops the oldest records, where nothing else makes room.
      def drop
        @delivery.standing.drop = true
        wake
      end

      # Whether neither the server nor the disk takes records.
      def full? = @delivery.standing.full

      # Ends a wait of the thread's; also in a signal handler.
      def wake = @delivery.wake

      # Waits until the block returns a true value, which it returns; false after the time. Raises
      # ThreadError in a signal handler, and in the sender's own thread, where reports may be
      # logged.
      def wait(timeout_s = nil, &block)
        raise ThreadError, "the thread of a log client cannot wait for itself" if Thread.current.equal?(@thread)

        @waiters.wait(timeout_s, method(:wake), &block)
      end

      # Whether everything up to this number is acknowledged; with the old wire, written.
      def acknowledged?(number) = @delivery.acknowledged >= number

      def closing? = !@closing_at.nil?

      def running? = @thread&.alive? || false

      def stats = { state: state, logged: @outbox.sequence, **@delivery.bytes, **counts }

      # --- the process's end, daemons and forks: called by Gyre::Log::ProcessHooks ---

      # Before the process ends: waits until all is acknowledged, while that is likely. `since` is
      # when the end began.
      def flush_at_exit(since)
        number = @outbox.sequence
        left = since + @options.exit_timeout - Clock.now
        wait([left, 0].max) { acknowledged?(number) || !running? || @delivery.hopeless? }
      end

      # Ends the thread; all that it has stays as it is. {#resume} goes on, also in the daemon that
      # this process becomes.
      def suspend
        @suspended = true unless @closing_at # what is closed leaves the rest in its spool
        @thread&.kill&.join
      end

      def resume
        return unless @suspended

        @suspended = false
        set_up_waiting
        @delivery.resume(@waiters)
        @outbox.stay
        start
      end

      # In a forked child: as new, without anything of the parent's.
      def process_fork
        @delivery.abandon
        @thread = nil
        @outbox.reset
        @former = {}
        set_up_waiting
        set_up(Identity.fresh)
        @outbox.attention = true
      end

      private

      def set_up_waiting
        @starting = Mutex.new
        @waiters = Waiters.new
      end

      def set_up(identity, **options)
        @delivery = Delivery.new(@options, @outbox, @waiters, identity, **options) { @closing_at }
      end

      # After the thread's end: sends first what it left in its spool. If another process has
      # adopted that, a fresh id begins.
      def set_up_again
        @former = counts
        done, path = @delivery.standing.done, @delivery.standing.spool
        spool = @options.retake_spool(path) if path
        set_up(spool ? Identity.of(spool.note) : Identity.fresh, spool: spool, acknowledged: done || spool ? @delivery.acknowledged : 0)
      end

      # Together with those of the threads before.
      def counts = @delivery.counts.merge(@former) { |_, now, before| now + before }

      def run
        @delivery.run
      ensure
        @suspended ? @delivery.pause : @delivery.leave
        ProcessHooks.remove(self) unless @suspended
      end
    end
  end
end
