# frozen_string_literal: true

# A stream that connects. Made by EventMachine.connect and reconnect.

module Gyre
  module EventMachine
    module Descriptors
      class Client < Stream
        def initialize(reactor, socket, address)
          super(reactor, socket)
          @connecting = true
          limits.start
          await_room
          socket.connect_nonblock(address, exception: false)
        rescue SystemCallError => error
          fail_with(error)
        end

        # Replaces the descriptor of an ended connection.
        def reopen(connection)
          @connection = connection
          @reactor.conns[@signature] = connection
          connection.__send__(:bind_to, @signature)
          connection
        end

        def connecting? = @connecting

        def readable = (super unless @connecting)

        def writable = @connecting ? connected : super

        private

        def connected
          error = io.getsockopt(:SOCKET, :ERROR).int
          return fail_with(SystemCallError.new(error)) unless error.zero?

          @connecting = false
          limits.start
          @active_at = Clock.now
          guarded { @connection.__send__(:connection_completed) }
          return if over?

          send_queued
          watch
          @reactor.emit(self) if @ending || @handshake
        end

        def sends? = !@connecting && super

        def room_calls_back? = @connecting || super

        def reads? = !@connecting && super

        def drained?
          return super unless @connecting

          @ending&.step == :now
        end
      end
    end
  end
end
