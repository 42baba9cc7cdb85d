# frozen_string_literal: true

# A connection over a stream socket, a pipe or a terminal. Transport sends and receives the bytes;
# queued bytes are sent at the end of the loop's turn. Made by Acceptor for a client and by
# EventMachine.attach for any IO.
require "fcntl"

module Gyre
  module EventMachine
    module Descriptors
      class Stream < Descriptor
        # Maximum number of reads in one turn while the transport holds decrypted bytes.
        RECORDS = 10

        attr_reader :transport
        # Set by set_tls_parms; nil after the handshake.
        attr_writer :handshake

        def initialize(reactor, io)
          @transport = io.is_a?(BasicSocket) || io.stat.socket? ? Transport.new(io, "the peer") : Pipe.new(io) { await_room }
          @handshake = @links = @early = nil
          super(reactor)
        end

        def io = @transport.to_io

        def send_data(data)
          return over? ? -1 : 0 if @ending
          return @reactor.next_tick(-> { send_data(data) }) unless @reactor.in_thread?

          @active_at = Clock.now
          checked { sends? ? @transport.send_soon(data) : @transport.queue(data) }
          @ending ? 0 : data.bytesize
        end

        def unsent_bytes = over? ? 0 : @transport.unsent_bytes

        def server? = false

        # Sends queued bytes before the new owner's, and drops what the kernel does not take.
        def detach
          return super if over?

          checked { @transport.flush_available } if sends?
          @transport.hold
          super
        end

        # Begins TLS. The loop's events continue the handshake.
        def start_tls
          return fail_with(Errno::EPROTO) unless @handshake.start(self)

          @transport.hold # only `shaken` continues the handshake, so that its end is seen
          @reactor.emit(self)
        end

        def ssl_verify_peer(pem) = guarded { @connection.__send__(:ssl_verify_peer, pem) }

        def readable
          return if @paused || (@handshake && !shaken)

          records = 0
          while (data = receive)
            @active_at = Clock.now
            take(data)
            return if @ending || @paused || !@transport.pending?
            return more if (records += 1) == RECORDS
          end
        rescue Exception # rubocop:disable Lint/RescueException -- raised again
          more
          raise
        end

        def writable
          return unless drained?

          @links&.drained
          @reactor.emit(self) if @ending
        end

        # Calls back in a later turn, once the kernel has taken all bytes.
        def when_drained(callable)
          links.when_drained(callable)
          await_room
        end

        def links = @links ||= Links.new(self)

        def target_unbound
          return if over?

          links.pass_to(nil)
          guarded { @connection.__send__(:proxy_target_unbound) }
        end

        private

        def switch(paused)
          super.tap do |changed|
            paused ? @transport.hold : send_queued if changed
            @ending ? @reactor.emit(self) : more
          end
        end

        # Calls `ready` again for decrypted bytes that the transport holds, as the kernel no longer
        # reports them: after a callback that raised, after a pause, or after RECORDS reads.
        def more = (@reactor.emit(self) if !@paused && !@ending && !@handshake && (@early || @transport.pending?))

        def sends? = !@paused && !@handshake&.started?

        def send_queued = checked { @transport.send_soon("") if sends? && !over? }

        # Closes the connection if the transport raises.
        def checked
          yield
        rescue SystemCallError, TLS::Error, IOError => error
          fail_with(error)
        end

        def room_calls_back? = @handshake || @links

        # Continues the handshake. Returns true if input may be read: the handshake has not begun,
        # or it is over and its callback has been called.
        def shaken
          return true unless @handshake.started?

          state = @transport.handshake_available
          await_room if state == :wait_writable
          return unless state == true

          @handshake = nil
          @active_at = Clock.now
          begin
            guarded { @connection.__send__(:ssl_handshake_completed) }
          ensure
            send_queued
          end
          !over? && @ending&.step != :now
        rescue SystemCallError, TLS::Error => error
          raise if @handshake.nil? # the program's own

          fail_with(error)
          raise @handshake.error if @handshake.error
        end

        def take(data)
          if @links&.target
            data = @links.pass(data)
            return unless @links.over?

            @links.pass_to(nil)
            guarded { @connection.__send__(:proxy_completed) }
          end
          guarded { @connection.__send__(:receive_data, data) } if data
        end

        def unbound
          return if over?

          super
          @links&.unbound
        ensure
          @links&.drop
        end

        def read_bytes = 16 * 1024

        # Reads ahead while a callback waits by `while_open`, because only a read finds the end.
        def hold
          return super if @paused || @handshake || !@waits&.any? || @early.to_s.bytesize > read_bytes

          @callback = :is_awaited
          data = checked { @transport.read_available(read_bytes) } || end_waits
          (@early ||= String.new) << data if data.is_a?(String)
          return super unless data

          @reactor.loop.watch_io(self, io) unless @reactor.loop.watching?(self)
        end

        # Returns nil if there are no bytes, or if the connection ends.
        def receive
          early, @early = @early, nil
          return early if early

          data = checked { @transport.read_available(read_bytes) }
          return data if data.is_a?(String)
          return if data

          checked { @transport.flush_available } # raises if sent bytes are lost
          close
        end

        def reads? = @ending&.step != :now && !(@transport.is_a?(Pipe) && @transport.write_only?)

        def drained?
          return true if @ending&.step == :now || @transport.unsent_bytes.zero?
          return false if @paused || (@handshake && !shaken)

          flushed?
        end

        def flushed?
          return true if @transport.flush_available == true

          await_room
          false
        rescue SystemCallError, TLS::Error, IOError => error
          fail_with(error)
          true
        end

        def shut
          checked { @paused ? (io.shutdown(:WR) if io.is_a?(BasicSocket)) : @transport.finish_available }
        ensure
          @transport.abandon
        end
      end

      # Reads standard input byte by byte, as in EventMachine. If a program closes the connection
      # after a line, the next line is still in $stdin. Made by EventMachine.open_keyboard.
      Keyboard = Class.new(Stream) { def read_bytes = 1 }

      # A Stream's transport over a pipe or terminal, with the methods that Stream calls.
      class Pipe
        PIECE_BYTES = 65_536
        private_constant :PIECE_BYTES

        attr_reader :to_io

        # The block is called whenever sent bytes must wait for room.
        def initialize(io, &full)
          @to_io = io
          @queue = String.new
          @sent = 0 # bytes of the queue
          @full = full
        end

        def write_only? = @to_io.fcntl(Fcntl::F_GETFL) & Fcntl::O_ACCMODE == File::WRONLY

        def read_available(limit) = @to_io.read_nonblock(limit, exception: false)

        def pending? = false

        def queue(bytes) = @queue << bytes.b

        def send_soon(bytes)
          queue(bytes)
          @full.call unless flush_available == true
        end

        def hold; end

        def flush_available
          until unsent_bytes.zero?
            count = @to_io.write_nonblock(@queue.byteslice(@sent, PIECE_BYTES), exception: false)
            return count unless count.is_a?(Integer)

            @sent += count
            drop_sent if 2 * @sent >= @queue.bytesize
          end
          true
        end

        def unsent_bytes = @queue.bytesize - @sent

        def finish_available = true

        def abandon = @to_io.close

        private

        # Moves the rest seldom: each byte costs the same, however long the queue is.
        def drop_sent
          @queue = @queue.byteslice(@sent..)
          @sent = 0
        end
      end
    end
  end
end
