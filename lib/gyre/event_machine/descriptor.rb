# frozen_string_literal: true

# The object behind a signature: a descriptor with its watch, and the connection that it calls.
# Descriptors::Stream, Datagram and Watched add what bytes do. A callback that parks makes its
# descriptor busy: events wait until it is over.

module Gyre
  module EventMachine
    class Descriptor
      # Key of the loop: room to write.
      class Room
        def initialize(descriptor)
          @descriptor = descriptor
        end

        def ready = @descriptor.room
      end

      attr_reader :signature, :io, :reactor
      attr_accessor :connection

      def initialize(reactor, io)
        @reactor = reactor
        @io = io
        @signature = reactor.signature
        reactor.descriptors[@signature] = self
        @connection = @closing = @reason = @limit_timer = nil
        @busy = @held = @over = @paused = @watching = false
        @inactivity_s = 0.0
        @active_at = Clock.now
      end

      # Makes the connection; its callbacks may already use the descriptor.
      def open(handler, arguments)
        guarded { @connection = handler.new(@signature, *arguments) }
        @reactor.conns[@signature] = @connection
        watch
        @reactor.emit(self) if @closing
        @connection
      rescue Exception # rubocop:disable Lint/RescueException -- raised again
        @connection = nil
        unbound
        raise
      end

      # An event of the loop, or one that `emit` has queued.
      def ready
        return if @over
        return hold if @busy
        return readable unless @closing

        drained? ? unbound : (readable if @watching)
      end

      # There is room to write.
      def room
        @awaiting = false
        return if @over
        return writable unless @busy && room_calls_back?

        @room_held = true
        hold
      end

      def close(after_writing = false)
        return if @over
        return @reactor.next_tick(-> { close(after_writing) }) unless @reactor.in_thread? # behind what the thread has sent

        @closing = @closing == :now || !after_writing ? :now : :drained
        @reactor.emit(self)
        nil
      end

      # Closes after the present callback; unbind gets `reason`.
      def fail_with(reason)
        @reason ||= reason.is_a?(Class) ? reason : (reason.class if reason.is_a?(SystemCallError)) || Errno::EPROTO
        close
      end

      def closing? = !@closing.nil?

      def pause
        return false if @paused || @over

        @paused = true
        watch
        true
      end

      def resume
        return false unless @paused

        @paused = false
        watch
        true
      end

      def paused? = @paused

      # Stops watching; the caller has the descriptor.
      def detach
        @detached = true
        close
        @io.autoclose = false
        @io.fileno
      end

      def idle_s = Clock.now - @active_at

      def inactivity_timeout_s = @inactivity_s

      def inactivity_timeout_s=(seconds)
        @inactivity_s = seconds
        @reactor.cancel_timer(@limit_timer) if @limit_timer
        @limit_timer = nil
        limit_inactivity if seconds.positive?
      end

      def error?
        number = @io.getsockopt(:SOCKET, :ERROR).int
        number.zero? ? false : ERRNOS.fetch(number, true)
      rescue SystemCallError, IOError
        true
      end

      def peername = (@io.getpeername.then { |address| address unless address.empty? } unless @io.closed?)
      def sockname = (@io.getsockname unless @io.closed?)

      # The reactor ends, behind its last callback.
      def release
        drained? unless @over
        unbound
      rescue Stop
        raise
      rescue Exception => error # rubocop:disable Lint/RescueException -- leaves by `run`
        @reactor.failed(error)
      end

      private

      # Calls back; events wait meanwhile if that parks.
      def guarded
        @busy = true
        yield
      ensure
        @busy = false
        let_go if @held
      end

      def hold
        @held = true
        @reactor.loop.unwatch(self) if @watching
        @watching = false
      end

      def let_go
        @held = false
        return if @over

        await_room if @room_held
        @room_held = false
        watch
        @reactor.emit(self)
      end

      # Watches for input unless something forbids it.
      def watch
        wanted = !@over && !@paused && !@held && reads?
        return if wanted == @watching

        @watching = wanted
        wanted ? @reactor.loop.watch_io(self, @io) : @reactor.loop.unwatch(self)
      end

      def await_room
        return if @awaiting

        @awaiting = true
        @reactor.loop.watch_io(@room ||= Room.new(self), @io, true, true)
      end

      def limit_inactivity(after_s = @inactivity_s)
        @limit_timer = @reactor.add_timer(after_s, lambda {
          left_s = @inactivity_s - idle_s
          next limit_inactivity(left_s) if left_s.positive?

          @limit_timer = nil
          fail_with(Errno::ETIMEDOUT)
        })
      end

      # Ends: the connection learns of it, then the descriptor is closed.
      def unbound
        return if @over

        @over = true
        @closing ||= :now
        @reactor.conns.delete(@signature)
        watch
        @reactor.loop.unwatch(@room) if @awaiting
        @reactor.cancel_timer(@limit_timer) if @limit_timer
        tell if @connection
      ensure
        @reactor.descriptors.delete(@signature)
        shut unless @detached
      end

      def tell
        guarded do
          @connection.original_method(:unbind).arity.zero? ? @connection.__send__(:unbind) : @connection.__send__(:unbind, @reason)
        end
      end

      # --- of a kind ---

      def reads? = true

      # Whether `writable` runs a callback.
      def room_calls_back? = true

      # Sends what it can; true if nothing is left, or nothing needs to be sent.
      def drained? = true

      def shut = @io.close
    end
  end
end
