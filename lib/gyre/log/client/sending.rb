# frozen_string_literal: true

# A log server's client without Ruby's Logger: appends records to an outbox, which a thread of
# Gyre::Log::Sender sends. Included by Gyre::Log::Client, and by `gyre log send`, which must run
# where the gem logger is missing.

require "gyre/log/client/address"
require "gyre/log/client/options"
require "gyre/log/client/sender"
require "gyre/log/client/text"

module Gyre
  module Log
    # Sends records; see {Client}.
    module Sending
      # @return [String]
      attr_reader :service

      # @param sender [Sender]
      # @return [Proc] sends an unreferenced client's records, then ends its thread
      def self.finalizer(sender) = proc { sender.close(Float::INFINITY) }

      # Waits for the connection.
      # @param timeout_s [Numeric]
      # @return [Boolean] whether it is connected
      # @raise [Denied, Incompatible]
      # @raise [Closed]
      def connect(timeout_s = @options.address.connect_timeout)
        ready
        @sender.wait(timeout_s) { raise_refusal || @sender.state == :connected }
      end

      # Waits until the server has acknowledged all earlier records. With Analogger's protocol,
      # which has no acknowledgements, waits until these records are sent.
      # @param timeout_s [Numeric]
      # @return [Boolean] false after the timeout
      # @raise [Denied, Incompatible] messages are kept
      # @raise [Closed]
      def flush(timeout_s = @options.flush_timeout)
        ready
        number = @outbox.sequence
        @sender.wait(timeout_s) { @sender.acknowledged?(number) || raise_refusal }
      end

      # Sends records until the timeout. The rest stays in the spool for the service's next client.
      # @param timeout_s [Numeric]
      # @return [void]
      def close(timeout_s = 5)
        @sender.close(timeout_s)
        @sender.join
      end

      # @return [Boolean]
      def closed? = @sender.closing?

      # Tries to connect at once, unless the client is connected.
      # @return [Boolean] as {#connect}
      def reconnect
        ready
        @sender.reconnect
        connect
      end

      # Logger's method. Ignores the log device, and tries to connect at once.
      # @return [self]
      def reopen(*)
        @sender.reconnect
        self
      end

      # @return [Exception, nil] why it is not connected; nil if connected or not tried yet
      def trouble = (@sender.error unless @sender.state == :connected)

      # `queue_bytes` counts unacknowledged bytes; `spool_bytes` counts those of them on disk.
      # @return [Hash{Symbol => Integer, Symbol}] state:, logged:, sent:, acknowledged:, spooled:,
      #   dropped:, reconnects:, queue_bytes:, spool_bytes:
      def stats = @sender.stats

      # @return [String]
      def inspect = "#<#{self.class} #{@options.address.inspect} #{@sender.state}>"

      private

      # Starts to connect and returns at once. The parameters are those of {Client#initialize}.
      def open_sender(service, host: nil, port: nil, address: nil, key: nil, acknowledged: true, tls: nil, connect_timeout: 5, **options)
        @service = service.to_s
        address = Address.new(@service, address: address, host: host, port: port, key: key, tls: tls, connect_timeout: connect_timeout)
        @options = ClientOptions.new(address, acknowledged: acknowledged, **options)
        @outbox = Outbox.new(@service, @options.memory_limit, @options.record_limit, acknowledged != true)
        @sender = Sender.new(@options, @outbox)
        @sender.start
        # Clones of the client (TaggedLogging's) share this object. Its finalizer ends the thread.
        @shared = Object.new
        ObjectSpace.define_finalizer(@shared, Sending.finalizer(@sender))
      end

      # Appends a message to the outbox. Uses {#append_slowly} if the outbox refuses it.
      def append(severity, message)
        stored = @outbox.append(severity, message)
        return true if stored

        stored.nil? ? @sender.wake : append_slowly(Text.severity(severity), Text.message(message))
        true
      end

      # Handles objects other than Strings, a full outbox, a fork, and a refusal by the server.
      def append_slowly(severity, message)
        message = shorten(severity, message)
        late = closed? && open_again
        ready
        stored = @outbox.store(severity, message, false)
        stored = when_there_is_room(severity, message) if stored == false
        @sender.wake if stored.nil?
        @sender.close(@options.exit_timeout) if late
        raise_refusal
      end

      def when_there_is_room(severity, message)
        stored = false
        @sender.wait do
          ready
          stored = @outbox.store(severity, message, false)
          evict if stored == false && @sender.full?
          stored != false
        end
        stored
      rescue ThreadError # neither a signal handler nor the sender can wait
        @outbox.store(severity, message, true)
      end

      # Drops records or raises, as `when_full` demands, if neither server nor disk takes records.
      def evict
        @sender.drop if @options.when_full == :drop_oldest
        return unless @options.when_full == :raise

        room = "memory_limit: #{@options.memory_limit}#{", spool_limit: #{@options.spool_limit}" if @options.spool}"
        raise SpoolFull, "the log client of #{@service.inspect} has no more room (#{room})#{": #{@sender.error.message}" if @sender.error}"
      end

      # Restarts the sender in a forked child, or after its thread was killed.
      def ready
        raise Closed, "the log client of #{@service.inspect} is closed" if @sender.closing?

        @sender.process_fork if @outbox.forked?
        @sender.start unless @sender.running?
      rescue ThreadError
        nil # in a signal handler: the next message starts it
      end

      # Returns the message, which is cut if no record can hold it. Analogger's frames raise.
      def shorten(severity, message)
        name = severity.is_a?(Integer) ? "unknown" : severity
        Wire.frame(@service, name, message) if @outbox.framed
        raise ArgumentError, "a severity has at most 255 bytes, not #{name.bytesize}" if name.bytesize > 255

        room = @options.record_limit - 26 - @service.bytesize - name.bytesize
        return message if message.bytesize <= room

        note = " [cut: the message has #{message.bytesize} bytes]"
        start = message.byteslice(0, room - note.bytesize)
        "#{message.valid_encoding? ? start.scrub("") : start}#{note}"
      end

      # Handlers of at_exit may log after another one has closed the client: the message is sent,
      # and the client is closed again. Returns true.
      def open_again
        @options.report.call("the client of #{@service.inspect} was closed before its last messages; they are sent late") unless @reopened
        @reopened = true
        @sender.reopen
        true
      end

      def raise_refusal
        refusal = @sender.refusal or return
        raise refusal.class, "#{refusal.message} (logged messages are kept)"
      end
    end
  end
end
