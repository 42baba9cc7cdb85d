# frozen_string_literal: true

# One client of the log server, from accept to close: protocol state over a Gyre::Transport. The hub
# (Gyre::Log::Hub) watches its socket and calls `ready`; bytes are processed at once, and only what
# is incomplete is kept. It holds no fiber, never waits, and lets no exception out that the client
# caused: that ends this connection only.
#
#   :tls ─► :handshake ─► :asking ─► :serving ──(end)──► :closing ─► :closed
#     │         │                       │                               ▲
#     └─────────┴───────────────────────┴── fault, denied ─► :lingering ┘
#
# :asking waits for what the outputs have of an acknowledged client, :closing until what was
# received is durable and acknowledged; :lingering lets the client read the error, :denied delays
# the response to a wrong key (denials.rb). Syslog and JSON go from :tls to :serving. There @work is
# a Gyre::Log::Feed or a Gyre::Log::Tail.

require "gyre/log/server/feed"
require "gyre/log/wire"
require "gyre/log/wire/origin"

module Gyre
  module Log
    # A state machine over a transport.
    class Connection
      # How much one event may read. A read from TLS gives about 64 KB.
      READ_BYTES = 262_144
      TLS_READS = 4
      # What may go wrong in reading bytes of a peer.
      FAULTS = [StandardError, NoMemoryError, SystemStackError].freeze

      # @param peer [String] address of the client
      # @param input [Input] through which it came
      # @param origin [Origin, nil] where its messages come from, unless the client gives it
      def initialize(hub, transport, peer, input, origin = nil)
        @hub, @transport, @peer, @input, @origin = hub, transport, peer, input, origin
        @kind = input.kind
        @bytes = 0
        @idle_since_s = nil # the last tick before which something had come; nil: something came since
        @deadline_s = after(hub.limits.authentication_timeout_s)
        @state = :tls
        @parked = @queue_full = @notified = false
        @result = @watched = nil
      end

      # @param left [Hash{String => Object}, nil] {#handover} of a former process, which it
      #   continues
      def start(left = nil)
        act { left ? continue(left) : secure }
      end

      def to_io = @transport.to_io

      # The socket is ready, or may be.
      def ready
        act do
          next secure if @state == :tls

          sent if flush
          take if reads?
        end
      end

      # An output that it brings messages for is full: it is not read until it is resumed.
      def pause
        @parked = @queue_full = true
      end

      # Goes on after a pause.
      def resume
        @idle_since_s = nil
        @queue_full = false
        act do
          @parked = false
          complete_request if @result
        end
      end

      # Ends it when its time is over. What came while the process was suspended is read before.
      def tick
        return unless overdue? || idle?

        ready unless @state == :lingering
        act { expire } if overdue?
        act { refuse("nothing came for #{@hub.limits.idle_timeout_s} s") } if idle?
      end

      # More is durable. Called in the committer's task: the hub calls {#send_due}.
      def acknowledged
        @hub.send_soon(self) unless @notified
        @notified = true
      end

      # What {#ask} waits for. Called in a task of its own: the hub calls {#send_due}.
      #
      # @param result [Session, Symbol, Exception] the client's session; :reopened or :kept
      def completed(result)
        @result = result
        acknowledged
      end

      # Sends the newest acknowledgement, once the client has taken the one before.
      def send_due
        @notified = false
        act { @result ? complete_request : write_due }
      end

      # The same client has connected again.
      def replaced
        @result = nil
        @work&.detach_session
        act { refuse("replaced by a newer connection of the same client") }
      end

      # @return [Integer] bytes of a message that has not ended
      def incomplete = @state == :serving ? @work.incomplete : 0

      # Ends it, for its incomplete message takes memory that others need.
      def drop_incomplete = act { refuse("messages that have not ended take too much memory") }

      # Reads what has come, before the server ends. Returns whether there may be more.
      def drain
        return false if @queue_full || !open?

        more = false
        act { more = read_on }
        more && open?
      end

      # Ends the stream in order, as far as that is possible without waiting, and closes.
      def leave
        act do
          write_due
          @transport.finish_available unless closed? || @state == :tls
        end
        close
      end

      # @return [Hash{Symbol => Object}, nil] what a fresh process needs to continue; nil when it
      #   cannot: TLS has keys, and a connection that only sends its last bytes need not
      def handover
        return if @transport.tls? || !open?

        { descriptor: to_io.fileno, peer: @peer, input: @input.to_s, bytes: @bytes, kind: @work && @kind, service: @service,
          rest: @first_frame, unsent: @transport.unsent, **@origin.to_h, **@work.to_h }
      end

      def close
        return if closed?

        work, @work = @work, nil
        @state = :closed
        @hub.closed(self)
        work&.finish(@hub.time_ns)
      rescue *FAULTS => error # whatever the last bytes were: nothing of the connection stays
        @hub.report_fault(error, "#{@peer}: ")
      ensure
        work.session.connection = nil if work&.session&.connection.equal?(self)
        @hub.loop.unwatch(self) if @watched
        @watched = nil
        @transport.abandon
      end

      def closed? = @state == :closed

      # @return [Hash{Symbol => Object}] for the status
      def to_h
        { peer: @peer, kind: (@kind || @state).to_s, service: @service.to_s.dup.force_encoding(Encoding::UTF_8).scrub,
          messages: @work ? @work.messages : 0, bytes: @bytes }
      end

      private

      # Whatever goes wrong ends this connection and no other. Afterwards the loop watches for what
      # is needed now.
      def act
        return if closed?

        yield
        watch unless closed?
      rescue SystemCallError, IOError, TLS::Error, Output::Unavailable => error
        lost(error)
      rescue *FAULTS => error
        @hub.report_fault(error, "#{@peer}: ")
        lost(error)
      end

      # TLS may hold bytes that the kernel no longer reports.
      def watch
        reads = reads?
        wants = @transport.wants(read: reads)
        unless wants.equal?(@watched)
          @hub.loop.unwatch(self) if @watched
          @watched = nil
          @hub.loop.watch_io(self, to_io, **wants) if wants
          @watched = wants
        end
        @hub.loop.emit(self) if reads && @transport.pending?
      end

      def reads? = !@parked && !%i[asking denied closing closed].include?(@state)

      def open? = @state == :handshake || @state == :serving

      def overdue? = @deadline_s && @hub.now_s >= @deadline_s

      # Not while it is not read, and not a client that only follows the log.
      def idle?
        idle_s = @hub.limits.idle_timeout_s
        return false if idle_s.nil? || @state != :serving || @kind == :tail || @parked

        @hub.now_s - (@idle_since_s ||= @hub.now_s) >= idle_s
      end

      def lost(error)
        complain(error.message) unless %i[lingering closing].include?(@state) || @kind == :tail
        close
      end

      def complain(message) = @hub.complaints.add(@peer, message)

      def after(seconds) = seconds && (@hub.update_clock + seconds)

      # --- reading ---

      def secure
        return unless @transport.handshake_available == true

        name = @transport.peer_subject if @transport.tls?
        @peer = "#{@peer} (#{name})".freeze if name
        @kind ? serve(feed(nil)) : @state = :handshake
      end

      def take
        return read_on unless @hub.held? || (@state == :serving && @hub.paused?)

        @parked = true
        @hub.backpressure.park(self)
      end

      # The same share from every connection. Returns whether there may be more.
      def read_on
        @hub.queues.about_to_read(self, @service) if @state == :serving
        reads = @transport.tls? ? TLS_READS : 1
        reads -= 1 while !@parked && (more = read) && reads > 1
        more
      end

      def read
        bytes = receive
        ended if bytes.nil?
        return false unless bytes.is_a?(String)

        @bytes += bytes.bytesize
        received(bytes) unless @state == :lingering
        !closed?
      end

      # Many clients end without TLS's close_notify. Messages have their length, so none is cut off
      # unseen.
      def receive
        @transport.read_available(READ_BYTES, @hub.buffer)
      rescue TLS::Truncated
        nil
      end

      def received(bytes)
        return if bytes.empty?

        @idle_since_s = nil
        return read_handshake(bytes) unless @state == :serving

        wrong = @work.receive(bytes, @hub.time_ns)
        @hub.received(@work.session, bytes.bytesize, self)
        refuse(wrong) if wrong
      end

      # --- the first frame ---

      def read_handshake(bytes)
        # A copy; dup would keep the whole buffer that is lent.
        @first_frame = (@first_frame || String.new(encoding: Encoding::BINARY)) << bytes
        case request = @hub.handshake.read(@first_frame)
        when nil then nil
        when String then refuse(request)
        when :denied then deny
        else grant(request)
        end
      end

      # At once or late; meanwhile nothing is read from it.
      def deny
        delay_s, message = @hub.handshake.denials.add(@origin&.host, @hub.update_clock)
        complain(message) if message
        return linger("denied\n") if delay_s.zero?

        @first_frame = nil
        @state = :denied
        @deadline_s = after(delay_s)
      end

      def grant(request)
        @first_frame = nil
        @kind, @service = request.kind, request.service
        @origin = Origin.claimed(request.words, @origin)
        case @kind
        when :status then linger("#{request.response}#{@hub.server.status_line}\n")
        when :reopen then reopen(request)
        when :tail
          return refuse("too many follow the log already") unless @hub.room_for_tail?

          serve(@hub.tail(self, @service))
          write(request.response)
        else
          with_session(request.client_id) { |session| accept(request, session) }
        end
      end

      def accept(request, session)
        serve(feed(session))
        write(request.response)
        write_due
        received(request.rest)
      end

      # The response comes when nothing goes to the former files any more: they may be compressed
      # then.
      def reopen(request)
        ask do |done|
          linger("#{request.response}#{done == :reopened ? "reopened" : "error: not every file could be reopened"}\n")
        end
        @hub.server.reopen_for(self)
      end

      # At once, or when it is known what the outputs have of the client.
      def with_session(client_id, &work)
        return yield unless client_id

        ask(&work)
        session = @hub.sessions.find(client_id, self, @service)
        yield session if session
      end

      def ask(&work)
        @state = :asking
        @deadline_s = nil
        @on_result = work
      end

      def complete_request
        return @hub.backpressure.park(self) if @hub.held?

        result, @result = @result, nil
        result.is_a?(Exception) ? raise(result) : @on_result.call(result)
      end

      def feed(session, sent = 0, acknowledged = 0)
        session&.acknowledge(acknowledged)
        Feed.new(@hub.decoder(@kind, session, @input.framing, (@origin unless @kind == :syslog)), session, sent: sent)
      end

      def serve(work)
        @work = work
        @state = :serving
        @deadline_s = nil
      end

      # Where a former process left off.
      def continue(left)
        @state = :handshake
        @bytes = left.fetch("bytes")
        @origin = Origin.new(*left.values_at("host", "pid")) if left["host"]
        kind = left.fetch("kind") or return catch_up(left)
        @kind = kind.to_sym
        @service = left.fetch("service")
        with_session(left["client_id"]) do |session|
          serve(@kind == :tail ? @hub.tail(self, @service) : feed(session, left["sent"], left["acknowledged"]))
          catch_up(left)
        end
      end

      def catch_up(left)
        write(left["unsent"])
        @kind == :tail ? write(left["rest"]) : received(left["rest"])
      end

      # --- writing ---

      def write(bytes)
        @transport.queue(bytes)
        flush
      end

      # @return [Boolean] whether all that was written is in the kernel
      def flush = @transport.flush_available == true

      def write_due
        return unless @work && @transport.unsent_bytes.zero?

        bytes = @work.due
        close_in_order if (bytes.nil? || write(bytes)) && @state == :closing && @work.done?
      end

      # All that was to be sent is in the kernel.
      def sent = @state == :lingering ? @transport.finish_available : write_due

      # --- the end ---

      # The client has ended its side. Its acknowledgements may be under way still.
      def ended
        return refuse("cut off in its first frame", "error: #{Wire::CUT_OFF}\n") if @first_frame
        return close_in_order unless @state == :serving

        wrong = @work.finish(@hub.time_ns)
        @hub.received(@work.session)
        return wrong ? refuse(wrong) : close_in_order if @work.done? && @transport.unsent_bytes.zero?

        complain(wrong) if wrong
        @state = :closing
      end

      def close_in_order
        @transport.finish_available
        close
      end

      # The peer broke the protocol or a limit.
      def refuse(message, response = "error: #{message}\n")
        complain(message)
        @kind == :syslog || @state == :tls ? close : linger(response) # syslog has no responses
      end

      # The last bytes. Closing at once would reset the connection under them while the client still
      # sends (RFC 9112 section 9.6).
      def linger(response)
        @work&.finish(@hub.time_ns)
        @first_frame = nil
        @state = :lingering
        @deadline_s = after(@hub.limits.linger_timeout_s)
        sent if write(response)
      end

      def expire
        return close if @state == :lingering
        return linger("denied\n") if @state == :denied

        refuse("no authentication within #{@hub.limits.authentication_timeout_s} s")
      end
    end
  end
end
