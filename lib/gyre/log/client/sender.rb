# frozen_string_literal: true

# A log client's thread: sends what the outbox and the spool hold (Transmission) over the
# connections that a Dialer makes, and keeps all of it on disk while the server is away. Made by
# Gyre::Log::Client; Gyre::Log::Adoption runs one without a client. It needs no loop and no
# scheduler. Other threads only wake it and wait for it.
#
#   :connecting ──► :connected ──► :away ──► :connected …        :refused: away, and the server refuses (a key, a protocol)
#                                                                :closed:  what is left is in the spool
#
# A connection that is lost is tried again at once, and then after 0.1 s … 5 s; one that was
# refused, after 5 s each time. Until the first new attempt has failed, or has taken too long,
# nothing goes to the disk.

require "gyre/clock"
require "gyre/log/client/adoption"
require "gyre/log/client/backlog"
require "gyre/log/client/dialer"
require "gyre/log/client/process_hooks"
require "gyre/log/client/transmission"
require "gyre/log/client/waiters"
require "gyre/log/wire/identity"
require "gyre/loop/wakeup_pipe"
require "gyre/net/units"

module Gyre
  module Log
    # See the head of this file.
    class Sender
      # How soon a full disk is tried again.
      DISK_RETRY_S = 1.0
      private_constant :DISK_RETRY_S

      # @return [Symbol] :connecting, :connected, :away, :refused or :closed
      attr_reader :state
      # @return [Exception, nil] why the last connection ended or was not made
      attr_reader :error
      # @return [Error, nil] why the server refuses this client
      attr_reader :refusal
      # @return [Dialer]
      attr_reader :dialer

      # @param options [ClientOptions]
      # @param outbox [Outbox]
      # @param spool [Spool, nil] what is to be sent first, with its client's id
      def initialize(options, outbox, spool: nil)
        @options = options
        @outbox = outbox
        @adopting = !spool.nil?
        @adoption = Adoption.new(options) { wake } if options.spool && !@adopting
        @reported = {}
        @former = {}
        set_up_waiting
        set_up(spool, spool ? spool.identity : Identity.fresh)
      end

      # @return [String] 32 hexadecimal digits
      def client_id = @identity.client_id

      # Starts the thread, unless it runs. After {#close} it does nothing.
      # @raise [ThreadError] in a signal handler
      def start
        @starting.synchronize do
          return if @thread&.alive? || @closing_at

          set_up_again if @state == :closed
          @outbox.attention = false
          ProcessHooks.add(self)
          @thread = Thread.handle_interrupt(Object => :never) { Thread.new { run } } # see run
          @thread.name = "gyre log"
          @thread.report_on_exception = false # run reports by itself
        end
      end

      # What the thread does: everything, until it is closed and either done or out of time. It may
      # be killed, as threads are when a process ends, between two turns and while it waits, so that
      # a record is either in memory or in the spool.
      def run
        until finished?
          turn
          interruptible { nil }
        end
      ensure
        leave
      end

      # Sends what there is, also from spools that were left behind, then ends; what is left after
      # the time, or when the server is away, stays in the spool.
      # @param timeout_s [Numeric]
      def close(timeout_s)
        @closing_at = [@closing_at, Clock.now + timeout_s].compact.min
        wake
      end

      def join = @thread&.join

      # After {#close}: as if it had not been called.
      def reopen
        join
        @closing_at = nil
        start
      end

      # @return [Boolean] whether it has a connection, or has failed to get one
      def tried? = @state != :connecting

      # @return [Boolean] whether it has ended and nothing was left
      def done? = @done || false

      # Tries to connect now.
      def reconnect
        @dialer.hurry
        wake
      end

      # Drops the oldest records, where nothing else makes room.
      def drop
        @drop = true
        wake
      end

      # Ends a wait of the thread's; also in a signal handler.
      def wake
        @waker&.write_nonblock("!", exception: false)
      rescue IOError, Errno::EPIPE
        nil # it has ended, or ends just now
      end

      # Waits until the block is true. Each wait has an end, or its policy is to have none.
      # @param timeout_s [Numeric, nil]
      # @yieldreturn [Object] false or nil: not yet. It may raise
      # @return what the block returned; false after the time
      # @raise [ThreadError] in a signal handler, and in the sender's own thread, where reports may
      #   be logged
      def wait(timeout_s = nil, &block)
        raise ThreadError, "the thread of a log client cannot wait for itself" if Thread.current.equal?(@thread)

        @waiters.wait(timeout_s, method(:wake), &block)
      end

      # @return [Boolean] whether records wait in memory for which there is no room, neither at the
      #   server nor on the disk
      def full? = @full

      # @return [Boolean] whether everything up to this number is acknowledged (with the old wire:
      #   written)
      def acknowledged?(number) = @backlog.acknowledged >= number

      # @return [Boolean] whether {#close} was called
      def closing? = !@closing_at.nil?

      # @return [Boolean] whether its thread runs
      def running? = @thread&.alive? || false

      # @return [Hash{Symbol => Integer, Symbol}]
      def stats
        { state: @state, logged: @outbox.sequence, acknowledged: @backlog.acknowledged, queue_bytes: @backlog.bytesize,
          spool_bytes: @backlog.spool_bytesize, **counts }
      end

      # --- the process's end, daemons and forks: called by Gyre::Log::ProcessHooks ---

      # Before the process ends: waits until all is acknowledged, while that is likely.
      # @param since [Float] when the end began
      def flush_at_exit(since)
        number = @outbox.sequence
        left = since + @options.exit_timeout - Clock.now
        wait([left, 0].max) { acknowledged?(number) || !running? || (@dialer.failures.positive? && @backlog.spools?) }
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
        @outbox.stay
        start
      end

      # In a forked child: as new, without anything of the parent's.
      def process_fork
        abandon
        @thread = nil
        @outbox.reset
        @former = {}
        set_up_waiting
        set_up(nil, Identity.fresh)
        @outbox.attention = true
      end

      # In a forked child: releases the parent's connection and spool, and sends the server nothing.
      def abandon
        @transmission.connection&.abandon
        @adoption&.abandon
        @backlog.close
        [@pipe, @waker].each(&:close)
      end

      private

      def set_up_waiting
        @starting = Mutex.new
        @waiters = Waiters.new
        @full = @drop = false
      end

      def set_up(spool, identity, acknowledged = 0)
        @identity = identity
        @pipe, @waker = Loop::WakeupPipe.open
        make = -> { @options.new_spool(@identity) } if @options.spool && !@adopting
        @backlog = Backlog.new(@outbox, window: @options.memory_limit / 2, memory: @options.memory_limit, spool: spool,
                                        drop: @options.when_full == :drop_oldest, acknowledged: acknowledged, &make)
        @dialer = Dialer.new(@options, @adopting) { wake }
        @transmission = Transmission.new(@options, @outbox, @backlog) { @dialer.succeeded }
        @refusal = @error = nil
        @state = :connecting
      end

      # The thread was killed, or had ended: what it left is in its spool, and first to be sent.
      # Where another process has adopted that, a fresh id begins.
      def set_up_again
        @former = counts
        spool = @options.retake_spool(@identity) unless @done
        set_up(spool, spool ? spool.identity : Identity.fresh, @done || spool ? @backlog.acknowledged : 0)
      end

      # Together with those of the threads before.
      def counts
        { sent: @transmission.sent, spooled: @backlog.spooled, dropped: @backlog.dropped + @transmission.dropped,
          reconnects: @dialer.reconnects }.merge(@former) { |_, now, before| now + before }
      end

      def turn
        @transmission.connection ? serve : stay_away
      rescue *ServerConnection::ERRORS, Error => error
        lose(error)
      rescue StandardError => error
        report_once(:fault, "#{error.full_message(highlight: false)}it connects again")
        lose(error)
        wait_io([@dialer.pause_s, closing_left].compact.min) # it may come in each turn
      end

      def finished?
        return false unless @closing_at
        return true if Clock.now > @closing_at
        return !@adoption&.running? if @backlog.empty?

        @state != :connected && @dialer.failures.positive? && (@backlog.spools? || @adopting)
      end

      def closing_left
        [@closing_at - Clock.now, 0].max if @closing_at&.finite?
      end

      # The thread may be killed in the block only.
      def interruptible(&block) = Thread.handle_interrupt(Object => :immediate, &block)

      # Until the thread is woken, or a connection is ready.
      # @param left [Float, nil] seconds
      # @param connection [ServerConnection, nil]
      def wait_io(left, connection = nil)
        wants = connection ? connection.wants : {}
        interruptible do
          IO.select([@pipe, *(connection if wants[:read])], wants[:write] ? [connection] : nil, nil, left&.clamp(0, nil))
        end
        @outbox.awake
        nil while @pipe.read_nonblock(4096, exception: false).is_a?(String)
      end

      # @param key [Symbol] of several reports with one key only those are made that differ from the
      #   one before
      # @param text [String, nil]
      def report_once(key, text)
        @options.report.call(text) if text && @reported[key] != text
        @reported[key] = text
      end

      # --- with a connection ---

      def serve
        @transmission.receive
        @adoption.start if @adoption && @adoption.left <= 0
        @backlog.overflow
        more = @transmission.send_batches
        @waiters.notify
        wait_connected unless more || finished?
        @transmission.check_stall
      end

      def wait_connected
        return if @transmission.idle? && !@outbox.await

        wait_io([@transmission.left, @adoption&.left, closing_left].compact.min, @transmission.connection)
      end

      def lose(error)
        @transmission.stop
        change_identity(error) if error.is_a?(IdentityTaken)
        @error = error
        refused = error.is_a?(Denied) || error.is_a?(Incompatible)
        answered = refused || error.is_a?(ProtocolError)
        @state = refused ? :refused : :away
        report_once(:fault, error.message) if answered
        refuse(error) if refused
        @dialer.failed(refused: refused, at_once: !answered)
        @waiters.notify
      end

      # What is not acknowledged is sent again under a fresh id: stored twice perhaps, but not lost.
      def change_identity(error)
        @identity = Identity.fresh
        @backlog.identify(@identity)
        @options.report.call("#{error.message}: what it has not acknowledged is sent under a fresh one")
      end

      # The next call that logs raises.
      def refuse(error)
        @refusal = error
        @outbox.attention = true
      end

      # --- without one ---

      def stay_away
        connection = new_connection
        return connected(connection) if connection

        stored = graceful? || !@backlog.spools? || @backlog.store
        @full = !stored || (!@backlog.spools? && !graceful?)
        report_disk
        drop_oldest if @full && @drop
        @waiters.notify
        wait_away(stored)
      end

      # With an error of TLS the server has not gone: a certificate is wrong, or something else that
      # time does not change.
      def new_connection
        @dialer.connection(@options.acknowledged ? @identity : nil)
      rescue TLS::Error => error
        report_once(:fault, "#{error.message}; what is logged waits, and it is tried again")
        raise
      end

      def connected(connection)
        @transmission.start(connection)
        @refusal = nil
        @full = false
        @outbox.attention = false unless @closing_at
        @state = :connected
        @adoption&.start
      end

      def drop_oldest
        @drop = false
        @backlog.drop_oldest
      end

      # Whether records may stay in memory for a moment.
      def graceful? = @dialer.grace_left.positive? && @outbox.bytesize < @options.memory_limit / 2

      def wait_away(stored)
        return if finished?

        graceful = graceful?
        return if stored && !graceful && @backlog.spools? && !@outbox.await

        wait_io([closing_left, @dialer.left, (@dialer.grace_left if graceful), (DISK_RETRY_S unless stored)].compact.min)
      end

      # --- the end of the thread ---

      def leave
        disconnect
        return pause if @suspended

        @outbox.attention = true # from here on nothing more comes in
        give_up unless stored?
        @done = @backlog.empty?
        @backlog.close
        @state = :closed
        [@pipe, @waker].each(&:close)
        ProcessHooks.remove(self)
        @waiters.notify
      end

      # At the end of a thread that will go on: in another process, which has neither its connection
      # nor its other threads.
      def pause
        @state = :connecting
        @dialer.restart
      end

      # Whatever fails here: the records are stored afterwards.
      def disconnect
        [@transmission, @dialer, @adoption].compact.each do |part|
          part.stop
        rescue StandardError => error
          @options.report.call("#{error.full_message(highlight: false)}it ends all the same")
        end
      end

      def stored?
        @backlog.store
      rescue StandardError => error
        @error = error
        false
      end

      # What neither the server nor the spool would take.
      def give_up
        report_disk
        count = @backlog.abandon
        return unless count.positive?

        lost = Units.count(count, "message is", "messages are")
        @options.report.call("#{lost} lost: #{@error ? @error.message : "the log server was not reached"}")
      end

      # Once for each time that the disk takes no more.
      def report_disk
        trouble = @backlog.trouble
        report_once(:disk, trouble && "the spool in #{@options.spool} takes nothing: #{trouble.message}")
      end
    end
  end
end
