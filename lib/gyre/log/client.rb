# frozen_string_literal: true

# Gyre::Log::Client: logs to a log server from any Ruby program, as a Logger. `require
# "gyre/log/client"`. It needs no loop and no scheduler; threads, fibers, signal handlers and forked
# children use it alike. It puts records into an outbox; a thread of its own (Gyre::Log::Sender)
# does the rest.

require "gyre/log/client/address"
require "gyre/log/errors"
require "gyre/log/client/logger_methods"
require "gyre/log/client/sender"
require "gyre/log/client/options"
require "gyre/loop"

module Gyre
  module Log
    # See the head of this file, and docs/log.md.
    class Client < ::Logger
      include LoggerMethods

      # @return [String]
      attr_reader :service

      # @param sender [Sender]
      # @return [Proc] for when the client is no longer referenced: what it has is sent, then its
      #   thread ends
      def self.finalizer(sender) = proc { sender.close(Float::INFINITY) }

      # Begins to connect, and returns at once.
      #
      # @param service [String] what the server files the messages under; without ":"
      # @param host [String, nil] 127.0.0.1 if nothing is given
      # @param port [Integer, nil] 6766 if nothing is given
      # @param address [String, nil] instead of host and port: tcp://host:port or unix:///path
      # @param key [String, nil] what the server asks for
      # @param acknowledged [Boolean, :if_possible] false: the protocol of Analogger, for its
      #   servers; :if_possible: that one only where the server has no other; until that is known,
      #   what the old one cannot carry is refused
      # @param level [Integer, String, Symbol] as Logger's
      # @param progname [Object, nil] as Logger's, for a formatter
      # @param formatter [#call, nil] as Logger's; nil sends messages as they are
      # @param tls [Boolean, Hash, TLS::Context, nil] true: with the system's authorities; a Hash:
      #   what {TLS.client} takes
      # @param connect_timeout [Numeric] seconds until a connection that is not accepted is given up
      # @param options [Hash]
      # @option options [String, Boolean] :spool folder for what the server has not taken; true: one
      #   of this user's; false: none
      # @option options [Integer] :spool_limit bytes on disk; 1 GiB
      # @option options [Integer] :memory_limit bytes in memory; 16 MiB
      # @option options [Symbol] :when_full :block (waits), :drop_oldest (counts them) or :raise
      #   (SpoolFull)
      # @option options [Numeric] :stall_timeout seconds without an answer after which a connection
      #   is given up; 10
      # @option options [Numeric] :flush_timeout seconds that {#flush} waits by default; 5. Rails
      #   calls it after each request: 0 there
      # @option options [Numeric] :exit_timeout seconds that the process's end may be held up; 5
      # @option options [Range] :retry_interval seconds between attempts to connect: the first and
      #   the longest pause; 0.1..5.0
      # @option options [Numeric] :adoption_interval seconds between looks for spools of processes
      #   that have died; 60
      # @option options [#call] :report is given errors, as Strings; by default they go to $stderr
      # @raise [ArgumentError]
      # @raise [ExtensionRequired] without the C extension
      def initialize(service = "default", host: nil, port: nil, address: nil, key: nil, acknowledged: true, level: DEBUG, progname: nil,
                     formatter: nil, tls: nil, connect_timeout: 5, **options)
        Loop.require_native("the log client")
        set_up_levels
        super(nil, level: level, progname: progname, formatter: formatter)
        @service = service.to_s
        address = Address.new(@service, address: address, host: host, port: port, key: key, tls: tls, connect_timeout: connect_timeout)
        @options = ClientOptions.new(address, acknowledged: acknowledged, **options)
        @outbox = Outbox.new(@service, @options.memory_limit, @options.record_limit, acknowledged != true)
        @sender = Sender.new(@options, @outbox)
        @sender.start
        # A clone (ActiveSupport::TaggedLogging makes one) shares it, so the last of them to go ends
        # the thread.
        @shared = Object.new
        ObjectSpace.define_finalizer(@shared, Client.finalizer(@sender))
      end

      # Waits for the connection.
      #
      # @param timeout_s [Numeric]
      # @return [Boolean] whether there is one
      # @raise [Denied, Incompatible]
      # @raise [Closed]
      def connect(timeout_s = @options.address.connect_timeout)
        ready
        @sender.wait(timeout_s) { raise_refusal || @sender.state == :connected }
      end

      # Waits until the server has everything that was logged before: has acknowledged it; over the
      # old protocol, until the network has taken it.
      #
      # @param timeout_s [Numeric]
      # @return [Boolean] false when the time was too short
      # @raise [Denied, Incompatible] what was logged is kept
      # @raise [Closed]
      def flush(timeout_s = @options.flush_timeout)
        ready
        number = @outbox.sequence
        @sender.wait(timeout_s) { @sender.acknowledged?(number) || raise_refusal }
      end

      # Sends what it can, also of what ended processes have left in the spool; the rest stays there
      # for the next client of this service.
      #
      # @param timeout_s [Numeric]
      # @return [void]
      def close(timeout_s = 5)
        @sender.close(timeout_s)
        @sender.join
      end

      # @return [Boolean]
      def closed? = @sender.closing?

      # Tries to connect now, if there is no connection.
      # @return [Boolean] as {#connect}
      def reconnect
        ready
        @sender.reconnect
        connect
      end

      # Logger's name for it; a log device is not taken.
      # @return [self]
      def reopen(*)
        @sender.reconnect
        self
      end

      # @return [Exception, nil] why there is no connection; nil when there is one, or none was
      #   tried yet
      def trouble
        @sender.error unless @sender.state == :connected
      end

      # @return [Hash{Symbol => Integer, Symbol}] state:, logged:, sent:, acknowledged: (the last
      #   number), spooled:, dropped:, reconnects:, queue_bytes: (all that is not acknowledged),
      #   spool_bytes:
      def stats = @sender.stats

      # @return [String] without the key
      def inspect
        "#<#{self.class} #{@options.address.inspect} #{@sender.state}>"
      end

      private

      # The way of every message.
      def append(severity, message)
        stored = @outbox.append(severity, message)
        return true if stored

        stored.nil? ? @sender.wake : append_slowly(Text.severity(severity), Text.message(message))
        true
      end

      # What `Outbox#append` has not taken: another kind of object, no room, or a refusal to be
      # raised.
      def append_slowly(severity, message)
        check(severity, message)
        ready
        stored = @outbox.store(severity, message, false)
        stored = when_there_is_room(severity, message) if stored == false
        @sender.wake if stored.nil?
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
      rescue ThreadError # a signal handler cannot wait, nor can the sender for itself
        @outbox.store(severity, message, true)
      end

      # The policy for when neither the server nor the disk takes anything.
      def evict
        raise SpoolFull, full_message if @options.when_full == :raise

        @sender.drop if @options.when_full == :drop_oldest
      end

      # Once more in a child, where no hook was called; and when the thread was killed.
      def ready
        raise Closed, "the log client of #{@service.inspect} is closed" if @sender.closing?

        @sender.process_fork if @outbox.forked?
        @sender.start unless @sender.running?
      rescue ThreadError
        nil # in a signal handler: the next message starts it
      end

      def check(severity, message)
        name = severity.is_a?(Integer) ? "unknown" : severity
        Wire.frame(@service, name, message) if @outbox.framed
        raise ArgumentError, "a severity has at most 255 bytes, not #{name.bytesize}" if name.bytesize > 255

        bytes = 26 + @service.bytesize + name.bytesize + message.bytesize
        return if bytes <= @options.record_limit

        raise ArgumentError, "a message of #{message.bytesize} bytes is too long: a record has at most #{@options.record_limit}"
      end

      def raise_refusal
        refusal = @sender.refusal or return
        raise refusal.class, "#{refusal.message} (what was logged is kept)"
      end

      def full_message
        room = "memory_limit: #{@options.memory_limit}#{", spool_limit: #{@options.spool_limit}" if @options.spool}"
        "the log client of #{@service.inspect} has no more room (#{room})#{": #{@sender.error.message}" if @sender.error}"
      end
    end
  end
end
