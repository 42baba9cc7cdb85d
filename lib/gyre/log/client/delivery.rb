# frozen_string_literal: true

# Runs in a log client's thread: connects by a Dialer, and sends outbox and spool by a Transmission.
# Run by Gyre::Log::Sender, and by Gyre::Log::Adoption for spools of ended processes.
#
#   :connecting ──► :connected ──► :away ──► :connected …        :refused: away, and the server refuses (a key, a protocol)
#                                                                :closed:  what is left is in the spool
#
# After a lost connection, reconnects at once, then after pauses of 0.1 s to 5 s. After a refusal by
# the server, pauses for up to 5 s. Records go to disk if the first retry fails or takes too long.

require "gyre/log/client/adoption"
require "gyre/log/client/backlog"
require "gyre/log/client/dialer"
require "gyre/log/client/transmission"
require "gyre/log/wire/identity"

module Gyre
  module Log
    class Delivery
      # Seconds between attempts to write to a full disk.
      DISK_RETRY_S = 1.0
      # State that other threads read. `full`: neither server nor disk takes records. `drop`:
      # another thread requests to drop the oldest records. `done`: all records were sent at the
      # end. `spool`: path of the spool with the remaining records.
      Standing = Struct.new(:state, :error, :refusal, :full, :drop, :done, :spool)

      attr_reader :standing, :dialer

      # `spool` has records of an earlier thread or process. The block returns nil, or after a close
      # the deadline.
      def initialize(options, outbox, waiters, identity, spool: nil, adopted: false, acknowledged: 0, &closing_at)
        @options, @outbox, @waiters, @identity, @closing_at = options, outbox, waiters, identity, closing_at
        @reported = {}
        @wakeup = Wakeup.new
        @standing = Standing.new(:connecting)
        spools = options.spool && !adopted
        @adoption = Adoption.new(options) { wake } if spools
        @backlog = Backlog.new(outbox, memory: options.memory_limit, spool: spool, acknowledged: acknowledged,
                                       drop: options.when_full == :drop_oldest, &(-> { options.new_spool(@identity) } if spools))
        @dialer = Dialer.new(options, adopted) { wake }
        @transmission = Transmission.new(options, outbox, @backlog) { @dialer.succeeded }
      end

      def client_id = @identity.client_id

      def acknowledged = @backlog.acknowledged

      # Runs until the client is closed and all records are sent or the deadline has passed.
      # Remaining records then go to the spool or, if the block returns true, stay for {#resume}.
      # Thread#kill takes effect only between two turns or in a wait, so that each record is in
      # memory or in the spool.
      def deliver
        until finished?
          turn
          Wakeup.interruptible { nil }
        end
      ensure
        disconnect
        block_given? && yield ? pause : leave
      end

      # Ends the thread's wait. Signal handlers may call this method.
      def wake = @wakeup.call

      def resume(waiters)
        @waiters = waiters
        @standing.full = @standing.drop = false
      end

      def abandon
        @transmission.connection&.abandon
        @adoption&.abandon
        @backlog.close
        @wakeup.close
      end

      # True if the server is unreachable and the spool takes the records.
      def hopeless? = @dialer.failures.positive? && @backlog.spools?

      def bytes = { acknowledged: @backlog.acknowledged, queue_bytes: @backlog.bytesize, spool_bytes: @backlog.spool_bytesize }

      def counts
        { sent: @transmission.sent, spooled: @backlog.spooled, dropped: @backlog.dropped + @transmission.dropped,
          reconnects: @dialer.reconnects }
      end

      private

      def turn
        @transmission.connection ? serve : stay_away
      rescue *ServerConnection::ERRORS, Error => error
        lose(error)
      rescue StandardError => error
        report_once(:fault, "#{error.full_message(highlight: false)}it connects again")
        lose(error)
        wait_io([@dialer.pause_s, closing_left].compact.min) # a kill may come in each turn
      end

      def finished?
        closing_at = @closing_at.call or return false
        return true if Clock.now > closing_at
        return !@adoption&.running? if @backlog.empty?

        @standing.state != :connected && @dialer.failures.positive? && (@backlog.spools? || @dialer.adopted?)
      end

      def closing_left
        closing_at = @closing_at.call
        [closing_at - Clock.now, 0].max if closing_at&.finite?
      end

      def wait_io(left, connection = nil)
        @wakeup.wait(left, connection)
        @outbox.awake
        @wakeup.clear
      end

      # Reports a text, unless it equals the last text of the same key.
      def report_once(key, text)
        @options.report.call(text) if text && @reported[key] != text
        @reported[key] = text
      end

      def serve
        @transmission.receive
        @adoption.start if @adoption && @adoption.left <= 0
        @backlog.overflow
        more = @transmission.send_batches
        @waiters.wake_all
        wait_connected unless more || finished?
        @transmission.check_stall
      end

      def wait_connected
        return if @transmission.idle? && !@outbox.await

        wait_io([@transmission.left, @adoption&.left, closing_left].compact.min, @transmission.connection)
      end

      def lose(error)
        @transmission.stop
        if error.is_a?(IdentityTaken)
          # The server may store some records twice, but loses none.
          @backlog.identify(@identity = Identity.fresh)
          @options.report.call("#{error.message}: unacknowledged messages are sent under a new one")
        end
        refused = error.is_a?(Denied) || error.is_a?(Incompatible)
        answered = refused || error.is_a?(ProtocolError)
        @standing.error = error
        @standing.state = refused ? :refused : :away
        report_once(:fault, error.message) if answered
        if refused
          @standing.refusal = error
          @outbox.attention = true
        end
        @dialer.failed(refused: refused, at_once: !answered)
        @waiters.wake_all
      end

      def stay_away
        connection = new_connection
        return connected(connection) if connection

        stored = graceful? || !@backlog.spools? || @backlog.store
        @standing.full = !stored || (!@backlog.spools? && !graceful?)
        report_disk
        if @standing.full && @standing.drop
          @standing.drop = false
          @backlog.drop_oldest
        end
        @waiters.wake_all
        wait_away(stored)
      end

      # Returns a new connection or nil. Reports and raises TLS errors, such as an invalid
      # certificate.
      def new_connection
        @dialer.connection(@options.acknowledged ? @identity : nil)
      rescue TLS::Error => error
        report_once(:fault, "#{error.message}; logged messages wait, retrying")
        raise
      end

      def connected(connection)
        @transmission.start(connection)
        @standing.refusal = nil
        @standing.full = false
        @outbox.attention = false unless @closing_at.call
        @standing.state = :connected
        @adoption&.start
      end

      # True while records may still stay in memory.
      def graceful? = @dialer.grace_left.positive? && @outbox.bytesize < @options.memory_limit / 2

      def wait_away(stored)
        return if finished?

        graceful = graceful?
        return if stored && !graceful && @backlog.spools? && !@outbox.await

        wait_io([closing_left, @dialer.left, (@dialer.grace_left if graceful), (DISK_RETRY_S unless stored)].compact.min)
      end

      # --- the end of the thread ---

      def leave
        @outbox.attention = true # nothing more comes in from here on
        give_up unless stored?
        @standing.done = @backlog.empty?
        @standing.spool = @backlog.close
        @standing.state = :closed
        @wakeup.close
        @waiters.wake_all
      end

      # Prepares for {#resume} in a daemon, where the thread no longer exists.
      def pause
        @standing.state = :connecting
        @dialer.restart
      end

      # Reports errors and continues, so that the records are stored afterwards.
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
        @standing.error = error
        false
      end

      def give_up
        report_disk
        count = @backlog.abandon
        return unless count.positive?

        lost = Units.count(count, "message is", "messages are")
        @options.report.call("#{lost} lost: #{@standing.error ? @standing.error.message : "the log server was not reached"}")
      end

      # Reports an error of the spool, but not the same error twice in a row.
      def report_disk
        trouble = @backlog.trouble
        report_once(:disk, trouble && "the spool in #{@options.spool} takes nothing: #{trouble.message}")
      end
    end

    # Lets a log client's thread wait for its connection, a timeout, or {#call} in another thread.
    # Belongs to one Gyre::Log::Delivery.
    class Wakeup
      # Lets Thread#kill take effect in the block.
      def self.interruptible(&block) = Thread.handle_interrupt(Object => :immediate, &block)

      def initialize
        @reader, @writer = Loop::WakeupPipe.open
      end

      # Ends the wait. Signal handlers may call this method.
      def call
        @writer.write_nonblock("!", exception: false)
      rescue IOError, Errno::EPIPE
        nil # the thread has ended, or is about to
      end

      # Waits up to `left` seconds; nil means no limit.
      def wait(left, connection = nil)
        wants = connection ? connection.wants : {}
        Wakeup.interruptible { IO.select([@reader, *(connection if wants[:read])], wants[:write] ? [connection] : nil, nil, left&.clamp(0, nil)) }
      end

      # Forgets earlier calls, so that they do not end the next wait.
      def clear
        nil while @reader.read_nonblock(4096, exception: false).is_a?(String)
      end

      def close = [@reader, @writer].each(&:close)
    end
  end
end
