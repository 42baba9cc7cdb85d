# frozen_string_literal: true

# A log client's thread: connects to the server, sends what the outbox and the spool hold, reads what is acknowledged, and keeps all
# of it on disk while the server is away. Made by Gyre::Log::Client; Gyre::Log::Adoption runs one without a client. It needs no
# loop and no scheduler. Other threads only wake it and wait for it.
#
#   :connecting ──► :connected ──► :away ──► :connected …        :refused: away, and the server says no (a key, a protocol)
#                                                                :closed:  what is left is in the spool
#
# A connection that is lost is tried again at once, and then after 0.1 s … 5 s; one that was refused, after 5 s each time. Until the
# first new attempt has failed, or has taken too long, nothing goes to the disk.

require "gyre/log/client/adoption"
require "gyre/log/client/backlog"
require "gyre/log/wire/identity"
require "gyre/log/client/uplink"
require "gyre/log/client/process_hooks"
require "gyre/log/wire/records"
require "gyre/log/client/sender/away"
require "gyre/log/client/sender/ending"
require "gyre/log/client/sender/lifetime"
require "gyre/log/client/sender/serving"
require "gyre/log/client/sender/waiting"
require "gyre/loop/wakeup_pipe"
require "openssl"

module Gyre
  module Log
    # See the head of this file.
    class Sender
      include Away
      include Ending
      include Lifetime
      include Serving
      include Waiting

      # How long the server may take to answer before records go to the disk.
      GRACE_S = 0.25
      NETWORK = [SystemCallError, SocketError, IOError, OpenSSL::SSL::SSLError].freeze
      private_constant :NETWORK

      # @return [Symbol] :connecting, :connected, :away, :refused or :closed
      attr_reader :state
      # @return [Exception, nil] why the last connection ended or was not made
      attr_reader :error
      # @return [Integer] attempts to connect that failed, one after the other
      attr_reader :failures
      # @return [Float, nil] when the last connection was made (Uplink.now)
      attr_reader :connected_at

      # @param settings [Settings]
      # @param outbox [NativeOutbox]
      # @param spool [Spool, nil] what is to be sent first, with its client's id
      def initialize(settings, outbox, spool: nil)
        @settings = settings
        @outbox = outbox
        @identity = spool&.identity
        @adopting = !spool.nil?
        @sent = @reconnects = @dropped = @spooled = 0
        set_up_waiting
        set_up(spool)
      end

      # @return [String] 32 hexadecimal digits
      def client_id
        @identity.client_id
      end

      # Starts the thread, unless it runs. After {#close} it does nothing.
      # @return [void]
      # @raise [ThreadError] in a signal handler
      def start
        @mutex.synchronize do
          return if @thread&.alive? || @closing_at

          set_up_again if @state == :closed
          @outbox.attention = false
          ProcessHooks.add(self)
          @thread = Thread.handle_interrupt(Object => :never) { Thread.new { run } } # see run
          @thread.name = "gyre log"
          @thread.report_on_exception = false # run reports by itself
        end
      end

      # What the thread does: everything, until it is closed and either done or out of time. It may be killed, as threads are when a
      # process ends, between two turns and while it waits, so that a record is either in memory or in the spool.
      # @return [void]
      def run
        until finished?
          turn
          mortal { nil }
        end
      ensure
        leave
      end

      # Sends what there is, also from spools that were left behind, then ends; what is left after the time, or when the server is
      # away, stays in the spool.
      # @param timeout_s [Numeric]
      # @return [void]
      def close(timeout_s)
        @closing_at = [@closing_at, Uplink.now + timeout_s].compact.min
        wake
      end

      # @return [void]
      def join
        @thread&.join
      end

      # After {#close}: as if it had not been called.
      # @return [void]
      def reopen
        join
        @closing_at = nil
        start
      end

      # @return [Boolean] whether it has a connection, or has failed to get one
      def tried?
        @state != :connecting
      end

      # @return [Boolean] whether it has ended and nothing was left
      def done?
        @done || false
      end

      # Tries to connect now.
      # @return [void]
      def reconnect
        @hurry = true
        wake
      end

      # Gives up the oldest records, where nothing else makes room.
      # @return [void]
      def drop
        @drop = true
        wake
      end

      # Ends a wait of the thread's; also in a signal handler.
      # @return [void]
      def wake
        @waker&.write_nonblock("!", exception: false)
      rescue IOError, Errno::EPIPE
        nil # it has ended, or ends just now
      end

      # @return [Boolean] whether {#close} was called
      def closing?
        !@closing_at.nil?
      end

      # @return [Boolean] whether its thread runs
      def running?
        @thread&.alive? || false
      end

      # @return [Hash{Symbol => Integer, Symbol}]
      def stats
        { state: @state, logged: @outbox.sequence, sent: @sent, acknowledged: @backlog.acknowledged,
          spooled: @spooled + @backlog.spooled, dropped: @dropped + @backlog.dropped, reconnects: @reconnects,
          queue_bytes: @backlog.bytesize, spool_bytes: @backlog.spool_bytesize }
      end

      private

      def set_up(spool, acknowledged = 0)
        @identity = Identity.fresh unless spool
        @backlog = new_backlog(spool, acknowledged)
        @pipe, @waker = Loop::WakeupPipe.open
        @results = Thread::Queue.new
        @link = @writing = @refusal = @error = @connected_at = nil
        @state = :connecting
        @failures = 0
        @retry_at = Uplink.now
        @graceful_until = Uplink.now + GRACE_S
      end

      def new_backlog(spool, acknowledged)
        make = -> { @settings.new_spool(@identity) } if @settings.spool && !@adopting
        Backlog.new(@outbox, window: @settings.memory_limit / 2, memory: @settings.memory_limit,
                             drop: @settings.when_full == :drop_oldest, spool: spool, acknowledged: acknowledged, &make)
      end

      def turn
        @link ? serve : stay_away
      rescue *NETWORK, Error => error
        lose(error)
      rescue StandardError => error
        tell_once("#{error.full_message(highlight: false)}it connects again")
        lose(error)
        doze([], nil, [pause_s, closing_left].compact.min) # it may come in each turn
      end

      def finished?
        return false unless @closing_at
        return true if Uplink.now > @closing_at
        return !@adoption&.running? if @backlog.empty?

        @state != :connected && @failures.positive? && (@backlog.spools? || @adopting)
      end

      def closing_left
        [@closing_at - Uplink.now, 0].max if @closing_at&.finite?
      end

      # --- the end of a connection, and of the thread ---

      def lose(error)
        drop_link
        change_identity(error) if error.is_a?(IdentityTaken)
        @error = error
        @state = :away
        refuse(error) if error.is_a?(Error)
        @graceful_until = Uplink.now + GRACE_S
        @retry_at = Uplink.now + (lasted? && !error.is_a?(Error) ? 0 : pause_s)
        @failures += 1
        tell
      end

      # Whether the lost connection had been a good one.
      def lasted?
        @failures.zero? && @connected_at && Uplink.now - @connected_at > GRACE_S
      end

      # Twice as long each time, and never the same for all clients of a server.
      def pause_s
        shortest, longest = @settings.retry_interval.minmax
        return longest * (0.75 + (rand / 4)) if @state == :refused

        ([shortest * (2**[@failures, 16].min), longest].min * (0.75 + (rand / 2))).clamp(shortest, longest)
      end

      # The server has refused: the next call that logs raises.
      def refuse(error)
        tell_once(error.message)
        return if error.is_a?(ProtocolError)

        @state = :refused
        @refusal = error
        @outbox.attention = true
      end

      def tell_once(text)
        @settings.report.call(text) unless @reported == text
        @reported = text
      end

      def drop_link
        link, @link = @link, nil
        writing, @writing = @writing, nil
        return unless link

        if writing && !link.acknowledges?
          @backlog.rewind(writing.batch, writing.all ? @outbox.class.framed(writing.batch.bytes, writing.written) : 0)
        else
          @backlog.rewind
        end
      ensure
        link&.close
      end
    end
  end
end
