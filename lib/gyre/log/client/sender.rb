# frozen_string_literal: true

# Starts and ends a log client's thread, also after a fork and in a daemon. Other threads wait for
# its progress by {#wait}. Made by Gyre::Log::Client. The thread runs a Gyre::Log::Delivery.

require "gyre/log/client/delivery"

module Gyre
  module Log
    class Sender
      # Seconds after which a waiting thread checks its condition without a notification.
      RECHECK_S = 1.0

      def initialize(options, outbox)
        @options, @outbox = options, outbox
        @former = {}
        @closing_at = nil
        @suspended = false
        set_up_waiting
        set_up(Identity.fresh)
      end

      # Starts the thread unless it runs or {#close} was called. Raises ThreadError in a signal
      # handler.
      def start
        @starting.synchronize do
          return if @thread&.alive? || @closing_at

          set_up_again if state == :closed
          @outbox.attention = false
          ProcessHooks.add(self)
          @thread = Thread.handle_interrupt(SpinLock::NEVER) { Thread.new { run } } # see Delivery#deliver
          @thread.name = "gyre log"
          @thread.report_on_exception = false # the delivery reports by itself
        end
      end

      # Makes the thread send all records and end. After the timeout, or if the server is
      # unreachable, the remaining records stay in the spool.
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

      # Returns :connecting, :connected, :away, :refused or :closed.
      def state = @delivery.standing.state

      def error = @delivery.standing.error

      def refusal = @delivery.standing.refusal

      def dialer = @delivery.dialer

      def reconnect
        dialer.hurry
        wake
      end

      # Makes the thread drop its oldest records if neither server nor disk takes records.
      def drop
        @delivery.standing.drop = true
        wake
      end

      def full? = @delivery.standing.full

      def wake = @delivery.wake

      # Waits until the block returns a true value, and returns this value; false after the timeout.
      # Raises ThreadError in a signal handler or, if a reporter logs, in the sender's thread.
      def wait(timeout_s = nil)
        raise ThreadError, "the thread of a log client cannot wait for itself" if Thread.current.equal?(@thread)

        @starting.synchronize { wake }
        result = yield
        Clock.within(timeout_s) do |left|
          break if result

          @waiters.wait([left, RECHECK_S].compact.min) { !(result = yield) }
        end
        result || false
      end

      # True if the server has acknowledged all records up to this number or, in Analogger's
      # protocol, if the records are sent.
      def acknowledged?(number) = @delivery.acknowledged >= number

      def closing? = !@closing_at.nil?

      def running? = @thread&.alive? || false

      def stats = { state: state, logged: @outbox.sequence, **@delivery.bytes, **counts }

      # --- the process's end, daemons and forks: called by Gyre::Log::ProcessHooks ---

      # Waits for acknowledgements while the server is reachable. `since` is when the exit began.
      def flush_at_exit(since)
        number = @outbox.sequence
        left = since + @options.exit_timeout - Clock.now
        wait([left, 0].max) { acknowledged?(number) || !running? || @delivery.hopeless? }
      end

      # Ends the thread before Process.daemon, and keeps all records for {#resume}.
      def suspend
        @suspended = true unless @closing_at # a closed client leaves its records in the spool
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

      def set_up(identity, **options) = @delivery = Delivery.new(@options, @outbox, @waiters, identity, **options) { @closing_at }

      # Prepares a new thread, which first sends the former spool. Uses a new client id if another
      # process has adopted the spool.
      def set_up_again
        @former = counts
        done, path = @delivery.standing.done, @delivery.standing.spool
        spool = @options.retake_spool(path) if path
        set_up(spool ? Identity.of(spool.note) : Identity.fresh, spool: spool, acknowledged: done || spool ? @delivery.acknowledged : 0)
      end

      # Sums the counts of this thread and all former threads.
      def counts = @delivery.counts.merge(@former) { |_, now, before| now + before }

      def run
        @delivery.deliver { @suspended }
      ensure
        ProcessHooks.remove(self) unless @suspended
      end
    end

    # Lets log clients send their records at exit, start without records in a forked child, and
    # continue in a daemon. Lists every running Gyre::Log::Sender.
    module ProcessHooks
      @senders = {}.compare_by_identity

      # Prepended to Process's singleton class. fork and IO.popen("-") call _fork; daemon does not.
      module Fork
        def _fork = super.tap { |pid| ProcessHooks.forked if pid.zero? }

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

        # Flushes all senders. Takes at most as long as the longest of their timeouts.
        def flush
          now = Clock.now
          @senders.keys.each { |sender| sender.flush_at_exit(now) }
        end

        # Stops the threads during the block. Afterwards they continue with all records.
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
          # Leaves the threads running, because other at_exit handlers may log.
          at_exit { flush }
        end
      end
    end
  end
end
