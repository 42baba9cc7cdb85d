# frozen_string_literal: true

# One client of the log server, from accept to close. The hub (Gyre::Log::Hub) watches its socket and calls `ready`; what comes goes
# on at once, and only what is incomplete is kept. It holds no fiber, never waits, and lets no exception out that the client
# caused: that ends this connection only. What is said is in conversation.rb.
#
#   :handshake ─► :greeting ─► :asking ─► :serving ──(end)──► :closing ─► :closed   :closing: what was received is not durable or
#        │            │                      │                                 ▲     not told yet; :lingering: the client gets
#        └────────────┴──────────────────────┴── fault, denied ─► :lingering ──┘     time to read why
#
# :denied: a wrong key waits for its late answer (denials.rb). :asking: an output that other servers write to as well is asked what it
# has of an acknowledged client. Nothing is read then. Syslog and JSON begin with :serving; it serves a Gyre::Log::Feed or a Gyre::Log::Tail.

require "gyre/log/server/conversation"
require "gyre/log/server/link"
require "gyre/log/server/transport"

module Gyre
  module Log
    # A state machine over a link.
    class Connection
      include Conversation

      # How much one event may read: others wait meanwhile.
      READ_BYTES = 262_144
      # A read from TLS gives one record, of at most 16 KB, and leaves the others in the kernel.
      SECURE_READS = 16
      # What may go wrong in reading bytes of a peer.
      FAULTS = [StandardError, NoMemoryError, SystemStackError].freeze

      # @return [String] where the client is
      attr_reader :peer
      # @return [Symbol, nil] :analogger, :records, :tail, :status, :syslog, :json; nil before it is known
      attr_reader :kind
      # @return [Symbol]
      attr_reader :state

      # @param hub [Hub]
      # @param transport [Transport::Plain]
      # @param peer [String]
      # @param input [Input] through which it came
      # @param origin [Origin, nil] where its messages come from, unless the client says it
      def initialize(hub, transport, peer, input, origin = nil)
        @hub, @peer, @input, @origin = hub, peer, input, origin
        @kind = input.kind
        @transport = transport
        @link = Link.new(hub, self, transport)
        @bytes = 0
        @heard_s = nil # the last tick before which something had come; nil: something came since
        @deadline_s = after(hub.limits.authentication_timeout_s)
        @state = :handshake
        @parked = @held_up = @word = @answer = false
      end

      # Begins, or goes on where a former process left off.
      #
      # @param left [Hash{String => Object}, nil] what {#handed} said there
      # @return [void]
      def start(left = nil)
        act { left ? go_on(left) : handshake }
      end

      # @return [Socket]
      def to_io
        @transport.to_io
      end

      # The socket is ready, or so it seems.
      #
      # @return [void]
      def ready
        act do
          reads = @link.stir
          sent if @link.flush
          @state == :handshake ? handshake : take if reads && reads?
        end
      end

      # An output that it brings messages for takes no more at present: it is not read until it is resumed.
      def hold
        @parked = @held_up = true
      end

      # Goes on after a pause.
      def resume
        @heard_s = nil
        @held_up = false
        act do
          @parked = false
          answered if @answer
        end
      end

      # Called once in a while, to see whether the time is over. The whole process may have stood still, and something has come.
      #
      # @return [void]
      def tick
        return unless overdue? || silent?

        ready unless @state == :lingering
        act { expire } if overdue?
        act { refuse("nothing came for #{@hub.limits.idle_timeout_s} s") } if silent?
      end

      # There is something to tell the client. Called in the committer's task, so it only leaves word.
      #
      # @return [void]
      def acknowledged
        @hub.speak_soon(self) unless @word
        @word = true
      end

      # What the connection has asked for: the client's session, or why there is none; whether the files were reopened. Called in a
      # task of its own, so it only leaves word.
      #
      # @param answer [Session, Symbol, Exception]
      # @return [void]
      def found(answer)
        @answer = answer
        acknowledged
      end

      # Tells the client what is due: only the newest, and only when it has taken what was told before.
      #
      # @return [void]
      def speak
        @word = false
        act { @answer ? answered : tell }
      end

      # The same client came again.
      def replaced
        @answer = false
        @work&.give_up_session
        act { refuse("replaced by a newer connection of the same client") }
      end

      # @return [Integer] bytes of a message that has not ended
      def incomplete
        @state == :serving ? @work.incomplete : 0
      end

      # Goes, for others need the memory.
      #
      # @return [void]
      def give_way
        act { refuse("messages that have not ended take too much memory") }
      end

      # Reads once more what has come already, for the server is about to end.
      #
      # @return [Boolean] whether there may be more
      def drain
        return false if @held_up || !%i[greeting serving].include?(@state)

        @more = false
        act { read_on }
        @more && %i[greeting serving].include?(@state)
      end

      # Says farewell in order, as far as that goes without waiting, and closes.
      #
      # @return [void]
      def leave
        act do
          tell
          @transport.finish unless closed? || @state == :handshake
        end
        close
      end

      # @return [Hash{Symbol => Object}, nil] what a fresh process needs to go on; nil when it cannot: TLS has keys, and a connection
      #   that only sends its last bytes need not go on
      def handed
        return unless @input.plain? && %i[greeting serving].include?(@state)

        texts = { service: @service, greeting: @greeting, unsent: @link.unsent }.transform_values { |text| Handover.pack(text.to_s) }
        { descriptor: to_io.fileno, peer: @peer, input: @input.to_s, bytes: @bytes, kind: @work && @kind, **texts, **@origin.to_h, **@work.to_h }
      end

      # @return [void]
      def close
        return if closed?

        work, @work = @work, nil
        @state = :closed
        @hub.closed(self)
        finish(work) if work
        work.session.connection = nil if work&.session&.connection.equal?(self)
        @link.close
      end

      # @return [Boolean]
      def closed?
        @state == :closed
      end

      # @return [Hash{Symbol => Object}] for the status
      def to_h
        { peer: @peer, kind: (@kind || @state).to_s, service: @service.to_s.dup.force_encoding(Encoding::UTF_8).scrub,
          messages: @work ? @work.messages : 0, bytes: @bytes }
      end

      private

      # Whatever goes wrong ends this connection and no other. Afterwards the loop is told what is waited for.
      def act
        return if closed?

        yield
        @link.watch(!@parked && reads?) unless closed?
      rescue SystemCallError, IOError, OpenSSL::SSL::SSLError, Output::Unavailable => error
        lost(error)
      rescue *FAULTS => error
        @hub.report_fault(error, "#{@peer}: ")
        lost(error)
      end

      def reads?
        !%i[asking denied closing closed].include?(@state)
      end

      # Whatever the last bytes were: nothing of the connection stays.
      def finish(work)
        work.finish(@hub.time_ns)
      rescue *FAULTS => error
        @hub.report_fault(error, "#{@peer}: ")
      end

      def overdue?
        @deadline_s && @hub.now_s >= @deadline_s
      end

      # Not while it is not read, nor one that only listens.
      def silent?
        idle_s = @hub.limits.idle_timeout_s
        return false if idle_s.nil? || @state != :serving || @kind == :tail || @parked

        @hub.now_s - (@heard_s ||= @hub.now_s) >= idle_s
      end

      def lost(error)
        complain("#{"TLS: " if @state == :handshake}#{error.message}") unless %i[lingering closing].include?(@state) || @kind == :tail
        close
      end

      def complain(message)
        @hub.complaints.add(@peer, message)
      end

      # --- reading ---

      def handshake
        return unless @link.heed(@transport.handshake) == true

        name = @transport.certified_name
        @peer = "#{@peer} (#{name})".freeze if name
        @kind ? begin_work(feed(nil)) : @state = :greeting
      end

      def take
        if @hub.held? || (@state == :serving && @hub.paused?)
          @parked = true
          return @hub.brake.park(self)
        end

        read_on
      end

      # The same share from every connection.
      def read_on
        (@input.plain? ? 1 : SECURE_READS).times do
          read
          break unless @more && !@parked
        end
      end

      def read
        return (@more = @transport.discard(@hub.buffer)) || close if @state == :lingering

        bytes = @link.heed(@transport.read(READ_BYTES, @hub.buffer))
        @more = bytes.is_a?(String)
        @more ? received(bytes) : bytes.nil? && ended
        @more &&= !closed?
      end

      def received(bytes)
        @bytes += bytes.bytesize
        @heard_s = nil
        @state == :serving ? work_on(bytes) : greet(bytes)
      end

      def work_on(bytes)
        wrong = @work.receive(bytes, @hub.time_ns)
        @hub.fed(@work.session, bytes.bytesize, self)
        refuse(wrong) if wrong
      end
    end
  end
end
