# frozen_string_literal: true

# A client's connection to the log server, from accept to close: a Gyre::Transport and protocol
# state. Gyre::Log::Hub calls {#ready}, which processes received bytes at once and keeps only
# incomplete messages. Has no fiber and never waits. An exception ends only this connection.
#
#   :tls ─► :handshake ─► :serving ──(end)──► :closing ─► :closed
#     │         │            │                               ▲
#     └─────────┴────────────┴── fault, denied ─► :lingering ┘
#
# In :closing, received messages become durable and are acknowledged. In :lingering, the client can
# read the error. In :denied and :reopening, the response is delayed. Syslog and JSON connections go
# from :tls to :serving. In :serving, @work is a Gyre::Log::Feed or a Gyre::Log::Follower.

require "json"
require "gyre/log/wire"
require "gyre/log/wire/origin"

module Gyre
  module Log
    class Connection
      # Maximum bytes per read. A read from TLS returns about 64 KB, so TLS gets several reads.
      READ_BYTES = 262_144
      TLS_READS = 4
      PARTING_READS = 64
      # Errors that end only the connection whose bytes caused them.
      FAULTS = [StandardError, NoMemoryError, SystemStackError].freeze
      # The peer: address, input, default origin of its messages, protocol, service, and bytes read.
      Peer = Struct.new(:name, :input, :origin, :kind, :service, :bytes) { def to_s = name }

      # `origin` is the origin of messages if the client does not state one.
      def initialize(hub, transport, name, input, origin = nil)
        @hub, @transport = hub, transport
        @peer = Peer.new(name, input, origin, input.kind, nil, 0)
        @idle_since_s = nil # first tick after the last bytes; nil: bytes came since
        @deadline_s = after(hub.limits.authentication_timeout_s)
        @state = :tls
        @pause = @watched = @response = nil
      end

      def start = act { secure }

      def to_io = @transport.to_io

      def ready
        act do
          next secure if @state == :tls

          sent if flush
          take if reads?
        end
      end

      # Stops reading while an output for this connection's messages is full.
      def pause = @pause = :queue

      def resume
        @idle_since_s = @pause = nil
        act { nil }
      end

      # Ends the connection after its time limit. First reads bytes that arrived while the process
      # was suspended.
      def tick
        return unless overdue? || idle?

        ready unless @state == :lingering
        act { expire } if overdue?
        act { refuse("nothing came for #{@hub.limits.idle_timeout_s} s") } if idle?
      end

      # Called in the committer's task when messages are durable. Makes the hub call {#send_due}.
      def acknowledged = @hub.send_soon(self)

      # Called in another task after a reopen of the files. Makes the hub call {#send_due}.
      def reopened(done)
        @response = done ? "accepted 2\nreopened\n" : "accepted 2\nerror: not every file could be reopened\n"
        acknowledged
      end

      # Sends the response, or the newest acknowledgement if the previous one has been sent.
      def send_due = act { @response ? linger(@response) : write_due }

      # Ends the connection, because its client has connected again.
      def replaced
        @work&.session = nil
        act { refuse("replaced by a newer connection of the same client") }
      end

      def incomplete = @state == :serving ? @work.incomplete : 0

      def drop_incomplete = act { refuse("messages that have not ended take too much memory") }

      # Reads the received bytes before the server ends. True if more bytes may follow.
      def drain
        return false if @pause == :queue || !open?

        more = false
        act { more = read_on }
        more && open?
      end

      # Ends the stream, and drops what the client still sends, until the client has ended it, too:
      # a close with unread bytes would reset the connection, and could lose acknowledgements. True
      # if there is nothing to wait for.
      def part
        return true unless @state == :serving && @peer.kind == :records

        write_due
        @transport.finish_available
        PARTING_READS.times do
          bytes = @transport.read_available(READ_BYTES, @hub.buffer)
          return bytes.nil? unless bytes.is_a?(String)
        end
        false
      rescue SystemCallError, IOError, TLS::Error
        true
      end

      def leave
        act do
          write_due
          @transport.finish_available unless closed? || @state == :tls
        end
        close
      end

      def close
        return if closed?

        work, @work = @work, nil
        @state = :closed
        @hub.closed(self)
        work&.finish(@hub.time_ns)
      rescue *FAULTS => error # ends the connection, whatever its last bytes caused
        @hub.report_fault(error, "#{@peer}: ")
      ensure
        work.session.connection = nil if work&.session&.connection.equal?(self)
        @hub.loop.unwatch(self) if @watched
        @watched = nil
        @transport.abandon
      end

      def closed? = @state == :closed

      def to_h
        { peer: @peer.name, kind: (@peer.kind || @state).to_s, service: @peer.service.to_s.dup.force_encoding(Encoding::UTF_8).scrub,
          messages: @work ? @work.messages : 0, bytes: @peer.bytes }
      end

      private

      # Runs the block and updates the loop's watch. A fault ends only this connection.
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

      # Updates the loop's watch. Emits an event if TLS has bytes that the kernel no longer reports.
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

      def reads? = !@pause && !%i[reopening denied closing closed].include?(@state)

      def open? = @state == :handshake || @state == :serving

      def overdue? = @deadline_s && @hub.now_s >= @deadline_s

      # True if no bytes came for too long; false while paused, and for a follower.
      def idle?
        idle_s = @hub.limits.idle_timeout_s
        return false if idle_s.nil? || @state != :serving || @peer.kind == :tail || @pause

        @hub.now_s - (@idle_since_s ||= @hub.now_s) >= idle_s
      end

      # Says nothing of a connection without a byte, as health checks of load balancers are.
      def lost(error)
        complain(error.message) unless %i[lingering closing].include?(@state) || @peer.kind == :tail || !@transport.begun?
        close
      end

      def complain(message) = @hub.complaints.add(@peer, message)

      def after(seconds) = seconds && (@hub.update_clock + seconds)

      def secure
        return unless @transport.handshake_available == true

        name = @transport.peer_subject if @transport.tls?
        @peer.name = "#{@peer} (#{name})" if name
        @peer.kind ? serve(feed(nil)) : @state = :handshake
      end

      def take
        return read_on unless @hub.flow.held? || (@state == :serving && @hub.flow.paused?)

        @pause = :memory
        @hub.flow.park(self)
      end

      # Reads as much as one connection may read in a turn. True if more bytes may follow.
      def read_on
        @hub.flow.about_to_read(self, @peer.service) if @state == :serving
        reads = @transport.tls? ? TLS_READS : 1
        reads -= 1 while !@pause && (more = read) && reads > 1
        more
      end

      def read
        bytes = receive
        ended if bytes.nil?
        return false unless bytes.is_a?(String)

        @peer.bytes += bytes.bytesize
        received(bytes) unless @state == :lingering
        !closed?
      end

      # Ignores a missing close_notify: many clients send none, and messages state their length.
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
        @hub.flow.received(@work.session, bytes.bytesize, self)
        @hub.overlong(@peer, @work.newly_overlong)
        refuse(wrong) if wrong
      end

      def read_handshake(bytes)
        # Copies the bytes, because `dup` would keep the whole lent buffer.
        @first_frame = (@first_frame || String.new(encoding: Encoding::BINARY)) << bytes
        case request = @hub.handshake.read(@first_frame)
        when nil then nil
        when String then refuse(request)
        when :denied then deny
        else grant(request)
        end
      end

      # Responds at once or after a delay. Reads nothing during the delay.
      def deny
        delay_s, message = @hub.handshake.denials.add(@peer.origin&.host, @hub.update_clock)
        complain(message) if message
        return linger("denied\n") if delay_s.zero?

        @first_frame = nil
        @state = :denied
        @deadline_s = after(delay_s)
      end

      def grant(request)
        @first_frame = nil
        @peer.kind, @peer.service = request.kind, request.service
        @peer.origin = Origin.claimed(request.words, @peer.origin)
        case @peer.kind
        when :status then linger("#{request.response}#{JSON.generate(@hub.server.status)}\n")
        when :reopen
          @state = :reopening
          @deadline_s = nil
          @hub.server.reopen_for(self)
        when :tail
          follower = @hub.tail(self, @peer.service) or return refuse("too many follow the log already")
          serve(follower)
          write(request.response)
        else
          serve(feed(request.client_id && @hub.server.sessions.find(request.client_id, self, @peer.service)))
          write(request.response)
          write_due
          received(request.rest)
        end
      end

      def feed(session) = Feed.new(@hub.decoder(@peer.kind, session, @peer.input.framing, @peer.origin), session)

      def serve(work)
        @work = work
        @state = :serving
        @deadline_s = nil
      end

      def write(bytes)
        @transport.queue(bytes)
        flush
      end

      # True once the kernel has taken all bytes.
      def flush = @transport.flush_available == true

      def write_due
        return unless @work && @transport.unsent_bytes.zero?

        bytes = @work.due
        close_in_order if (bytes.nil? || write(bytes)) && @state == :closing && @work.done?
      end

      # True once the kernel has taken all bytes.
      def sent = @state == :lingering ? @transport.finish_available : write_due

      # Handles the end of the client's stream. Acknowledgements may still be pending.
      def ended
        return refuse("cut off in its first frame", "error: #{Wire::CUT_OFF}\n") if @first_frame
        return close_in_order unless @state == :serving

        wrong = @work.finish(@hub.time_ns)
        @hub.flow.received(@work.session)
        return wrong ? refuse(wrong) : close_in_order if @work.done? && @transport.unsent_bytes.zero?

        complain(wrong) if wrong
        @state = :closing
      end

      def close_in_order
        @transport.finish_available
        close
      end

      def refuse(message, response = "error: #{message}\n")
        complain(message)
        @peer.kind == :syslog || @state == :tls ? close : linger(response) # syslog has no responses
      end

      # Sends the response and lingers. A close while the client sends would reset the connection
      # and lose the response (RFC 9112, section 9.6).
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

    # Passes a connection's messages to a decoder of the ingest, and acknowledges durable records. A
    # Gyre::Log::Connection has a Feed or a Gyre::Log::Follower; neither uses a socket or loop.
    class Feed
      attr_accessor :session # nil: the client's next connection has it

      def initialize(decoder, session)
        @decoder, @session = decoder, session
        @sent = 0 # the last acknowledgement
        @overlong = 0 # as returned by newly_overlong
      end

      def receive(bytes, time_ns) = @decoder.feed(bytes, time_ns)

      # Ends the input. Returns nil or the fault.
      def finish(time_ns) = @decoder.finish(time_ns)

      def due
        return if @session.nil? || @sent >= @session.acknowledged

        @sent = @session.acknowledged
        "ack #{@sent}\n"
      end

      # True if all records of the client are acknowledged.
      def done? = @session.nil? || (!@session.pending? && @sent >= @session.acknowledged)

      def messages = @decoder.messages

      # Returns how many messages have been cut since the last call.
      def newly_overlong = @decoder.overlong - @overlong.tap { @overlong = @decoder.overlong }

      def incomplete = @decoder.bytesize
    end
  end
end
