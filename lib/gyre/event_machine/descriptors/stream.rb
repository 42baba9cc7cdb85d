# frozen_string_literal: true

# A connection over a stream socket: TCP, a Unix socket, a child process. Transport moves its bytes;
# the queue leaves at the end of the loop's turn. EventMachine's functions and Acceptor make it.

module Gyre
  module EventMachine
    module Descriptors
      class Stream < Descriptor
        READ_BYTES = 16 * 1024
        # Records of TLS that are read for one report of the kernel.
        RECORDS = 10
        CONNECT_TIMEOUT_S = 20.0

        attr_reader :transport, :proxy
        attr_writer :tls_settings

        # `address` is the one to connect to; nil if the socket is connected already.
        def initialize(reactor, io, address = nil, accepted: false)
          super(reactor, io)
          @accepted = accepted
          @transport = socket? ? Transport.new(io, "the peer") : Pipe.new(io) { await_room }
          @reads = socket? || @transport.reads?
          @proxy = nil
          @connecting = !address.nil?
          @connect_timeout_s = CONNECT_TIMEOUT_S
          connect(address) if address
        end

        # Serves a connection whose former descriptor is over.
        def reopen(connection)
          @connection = connection
          @reactor.conns[@signature] = connection
          connection.__send__(:bind_to, @signature)
        end

        def send_data(data)
          return 0 if @closing || @over
          return @reactor.next_tick(-> { send_data(data) }) unless @reactor.in_thread?

          @connecting || @paused || @handshake ? @transport.queue(data) : @transport.send_soon(data)
          @active_at = Clock.now
          data.bytesize
        rescue SystemCallError, TLS::Error, IOError => error
          fail_with(error)
          0
        end

        # Sends nothing meanwhile, either.
        def pause = super.tap { |paused| @transport.hold if paused }

        def resume
          return false unless super

          send_queued
          true
        end

        def unsent_bytes = @over ? 0 : @transport.unsent_bytes

        # Begins TLS; the handshake goes on with the loop's events.
        def start_tls
          context = @tls_settings.context(@accepted) or return fail_with(Errno::EPROTO)
          @handshake = Handshake.new(@transport, self, @tls_settings, context)
          @transport.hold # the handshake is made here alone, so that its end is seen
          @reactor.emit(self)
        end

        # A certificate of the peer, for ssl_verify_peer.
        def ssl_verify_peer(pem) = guarded { @connection.__send__(:ssl_verify_peer, pem) }

        def readable
          return if @paused || @connecting
          return if @handshake && !shaken

          records = 0
          loop do
            data = receive or return
            @active_at = Clock.now
            take(data)
            return if @over || @closing || @paused || !@transport.pending?
            return @reactor.emit(self) if (records += 1) == RECORDS
          end
        end

        # Called when there is room, or when the connection is established.
        def writable
          return connected if @connecting
          return unless drained?

          call_waiting
          @reactor.emit(self) if @closing
        end

        # Calls back in a later turn, once the kernel has taken all bytes.
        def when_drained(callable)
          (@waiting ||= []) << callable
          await_room
        end

        # From now on sends the input to another descriptor; with nil no longer.
        def proxy=(proxy)
          @proxy&.target&.sources&.delete(self)
          @proxy = proxy
          (proxy.target.sources ||= []) << self if proxy
        end

        # The streams whose input comes here.
        attr_accessor :sources

        def target_unbound
          return if @over

          self.proxy = nil
          guarded { @connection.__send__(:proxy_target_unbound) }
        end

        def connect_timeout_s = @connect_timeout_s

        def connect_timeout_s=(seconds)
          @connect_timeout_s = seconds
          limit_connecting if @connecting
        end

        private

        def socket? = @io.stat.socket?

        def send_queued
          @transport.send_soon("") unless @connecting || @handshake || @paused || @over
        rescue SystemCallError, TLS::Error, IOError => error
          fail_with(error)
        end

        def call_waiting
          waiting, @waiting = @waiting, nil
          waiting&.each(&:call)
        end

        def room_calls_back? = @connecting || @handshake || @waiting

        # True once the handshake is over and its callback has been called.
        def shaken
          state = @transport.handshake_available
          await_room if state == :wait_writable
          return unless state == true

          @handshake = nil
          @active_at = Clock.now
          guarded { @connection.__send__(:ssl_handshake_completed) }
          send_queued
          !@over && @closing != :now
        rescue SystemCallError, TLS::Error => error
          raise if @handshake.nil? # the program's own

          fail_with(error)
          raise @handshake.error if @handshake.error
        end

        def take(data)
          if @proxy
            proxy = @proxy
            data = proxy.pass(data)
            return unless proxy.over?

            self.proxy = nil
            guarded { @connection.__send__(:proxy_completed) }
          end
          guarded { @connection.__send__(:receive_data, data) } if data
        end

        def unbound
          return if @over

          @sources&.dup&.each(&:target_unbound)
          super
        ensure
          call_waiting
          self.proxy = nil
        end

        def connect(address)
          limit_connecting
          await_room
          @io.connect_nonblock(address, exception: false)
        rescue SystemCallError => error
          fail_with(error)
        end

        def limit_connecting
          @reactor.cancel_timer(@limit_timer) if @limit_timer
          @limit_timer = (@reactor.add_timer(@connect_timeout_s, -> { fail_with(Errno::ETIMEDOUT) if @connecting }) if @connect_timeout_s.positive?)
        end

        def connected
          error = @io.getsockopt(:SOCKET, :ERROR).int
          return fail_with(SystemCallError.new(error)) unless error.zero?

          @connecting = false
          self.inactivity_timeout_s = @inactivity_s # replaces the other timer
          @active_at = Clock.now
          guarded { @connection.__send__(:connection_completed) }
          return if @over

          send_queued
          watch
          @reactor.emit(self) if @closing || @handshake
        end

        # Returns nil without bytes: there are none, or the connection ends.
        def receive
          data = @transport.read_available(READ_BYTES)
          return data if data.is_a?(String)

          data ? nil : close
        rescue SystemCallError, TLS::Error, IOError => error
          fail_with(error)
        end

        def reads? = @reads && !@connecting && @closing != :now

        def drained?
          return true if @closing == :now
          return false if @connecting
          return true if @transport.unsent_bytes.zero?
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
