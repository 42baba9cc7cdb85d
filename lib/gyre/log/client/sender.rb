# frozen_string_literal: true

# Starts and ends a log client's thread, and moves it through forks and daemons; other threads wait
# here. Made by Gyre::Log::Client. The thread runs a Gyre::Log::Delivery; other threads only wake it
# and wait. Needs neither loop nor scheduler.

require "gyre/clock"
require "gyre/log/client/delivery"
require "gyre/log/client/process_hooks"
require "gyre/log/client/waiters"
require "gyre/sync/spin_lock"

module Gyre
  module Log
    class Sender
      def initialize(options, outbox)
        @options, @outbox = options, outbox
        @former = {}
        @closing_at = nil
        @suspended = false
        set_up_waiting
        set_up(Identity.fresh)
      end

      # Starts the thread unless it is running. Does nothing after {#close}. Raises ThreadError in a
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

      # Sends all records, also those of adopted spools, then ends; after the timeout, or without a
      # server, the rest stays in the spool.
      def close(timeout_s)
        @closing_at = [@closing_at, Clock.now + timeout_s].compact.min
        wake
      end

      def join = @thread&.join

      def reopen
        join
        @closing_at = nil
        start
      end

      def client_id = @delivery.client_id

      # :connecting, :connected, :away, :refused or :closed.
      def state = @delivery.standing.state

      def error = @delivery.standing.error

      def refusal = @delivery.standing.refusal

      def dialer = @delivery.dialer

      # True after the first attempt to connect, successful or not.
      def tried? = state != :connecting

      def reconnect
        dialer.hurry
        wake
      end

      # Drops the oldest records if there is no other way to make room.
      def drop
        @delivery.standing.drop = true
        wake
      end

      # True if neither the server nor the disk takes records.
      def full? = @delivery.standing.full

      def wake = @delivery.wake

      # Waits until the block returns a true value and returns that value; false after the timeout.
      # Raises ThreadError in a signal handler, and in the sender's own thread (a report may log).
      def wait(timeout_s = nil, &block)
        raise ThreadError, "the thread of a log client cannot wait for itself" if Thread.current.equal?(@thread)

        @waiters.wait(timeout_s, method(:wake), &block)
      end

      # True if all records up to this number are acknowledged; in the old protocol, written.
      def acknowledged?(number) = @delivery.acknowledged >= number

      def closing? = !@closing_at.nil?

      def running? = @thread&.alive? || false

      def stats = { state: state, logged: @outbox.sequence, **@delivery.bytes, **counts }

      # --- the process's end, daemons and forks: called by Gyre::Log::ProcessHooks ---

      # Waits at exit for all acknowledgements while the server is reachable. `since` is the time at
      # which the exit began.
      def flush_at_exit(since)
        number = @outbox.sequence
        left = since + @options.exit_timeout - Clock.now
        wait([left, 0].max) { acknowledged?(number) || !running? || @delivery.hopeless? }
      end

      # Ends the thread and keeps all records for {#resume}, which may run in a daemon.
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

      # Prepares a new thread after the former one has ended; the new one sends the spool first.
      # Takes a new id if another process has adopted the spool.
      def set_up_again
        @former = counts
        done, path = @delivery.standing.done, @delivery.standing.spool
        spool = @options.retake_spool(path) if path
        set_up(spool ? Identity.of(spool.note) : Identity.fresh, spool: spool, acknowledged: done || spool ? @delivery.acknowledged : 0)
      end

      # Counts of this thread and of all former threads.
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
