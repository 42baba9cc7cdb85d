# frozen_string_literal: true

# A connection over a stream socket, or a pipe. Transport moves its bytes; the queue leaves at the
# end of the loop's turn. Acceptor makes it for a client, EventMachine.attach for any IO.

module Gyre
  module EventMachine
    module Descriptors
      class Stream < Descriptor
        READ_BYTES = 16 * 1024
        # Records of TLS read in one turn.
        RECORDS = 10

        attr_reader :transport
        # Of set_tls_parms; nil after the handshake.
        attr_writer :handshake

        def initialize(reactor, io)
          @transport = io.is_a?(BasicSocket) || io.stat.socket? ? Transport.new(io, "the peer") : Pipe.new(io) { await_room }
          @handshake = @links = nil
          super(reactor)
        end

        def io = @transport.to_io

        def send_data(data)
          return 0 if @ending
          return @reactor.next_tick(-> { send_data(data) }) unless @reactor.in_thread?

          @active_at = Clock.now
          sends? ? @transport.send_soon(data) : @transport.queue(data)
          data.bytesize
        rescue SystemCallError, TLS::Error, IOError => error
          fail_with(error)
          0
        end

        def pause = super.tap { |paused| @transport.hold if paused }

        def resume
          return false unless super

          send_queued
          true
        end

        def unsent_bytes = over? ? 0 : @transport.unsent_bytes

        # Whether it is the server's side of TLS.
        def server? = false

        # Begins TLS; the handshake goes on with the loop's events.
        def start_tls
          return fail_with(Errno::EPROTO) unless @handshake.start(self)

          @transport.hold # the handshake is made here alone, so that its end is seen
          @reactor.emit(self)
        end

        # Passes a certificate of the peer to ssl_verify_peer.
        def ssl_verify_peer(pem) = guarded { @connection.__send__(:ssl_verify_peer, pem) }

        def readable
          return if @paused || (@handshake && !shaken)

          records = 0
          while (data = receive)
            @active_at = Clock.now
            take(data)
            return if @ending || @paused || !@transport.pending?
            return @reactor.emit(self) if (records += 1) == RECORDS
          end
        end

        # Called when there is room.
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

        # Methods for other descriptors.
        def links = @links ||= Links.new(self)

        def target_unbound
          return if over?

          links.proxy = nil
          guarded { @connection.__send__(:proxy_target_unbound) }
        end

        private

        def shaking? = @handshake&.started?

        def sends? = !@paused && !shaking?

        def send_queued
          @transport.send_soon("") if sends? && !over?
        rescue SystemCallError, TLS::Error, IOError => error
          fail_with(error)
        end

        def room_calls_back? = @handshake || @links

        # True without a handshake, or once it is over and its callback has been called.
        def shaken
          return true unless @handshake.started?

          state = @transport.handshake_available
          await_room if state == :wait_writable
          return unless state == true

          @handshake = nil
          @active_at = Clock.now
          guarded { @connection.__send__(:ssl_handshake_completed) }
          send_queued
          !over? && @ending&.step != :now
        rescue SystemCallError, TLS::Error => error
          raise if @handshake.nil? # the program's own

          fail_with(error)
          raise @handshake.error if @handshake.error
        end

        def take(data)
          if (proxy = @links&.proxy)
            data = proxy.pass(data)
            return unless proxy.over?

            @links.proxy = nil
            guarded { @connection.__send__(:proxy_completed) }
          end
          guarded { @connection.__send__(:receive_data, data) } if data
        end

        def unbound
          return if over?

          @links&.unbound
          super
        ensure
          @links&.drop
        end

        def read_bytes = READ_BYTES

        # Returns nil without bytes, or if the connection ends.
        def receive
          data = @transport.read_available(read_bytes)
          return data if data.is_a?(String)

          data ? nil : close
        rescue SystemCallError, TLS::Error, IOError => error
          fail_with(error)
        end

        def reads? = @ending&.step != :now && !(@transport.is_a?(Pipe) && @transport.write_only?)

        def drained?
          return true if @ending&.step == :now || @transport.unsent_bytes.zero?
          return false if @handshake && !shaken

          flushed?
        end

        def flushed?
          return true if @transport.flush_available == true

          await_room
          false
        rescue SystemCallError, TLS::Error, IOError
          true
        end

        def shut
          @transport.finish_available
        rescue SystemCallError, TLS::Error, IOError
          nil # the peer is gone
        ensure
          @transport.abandon
        end
      end
    end
  end
end
