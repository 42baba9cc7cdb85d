# frozen_string_literal: true

# The object behind a signature: a descriptor, its watch and the connection whose callbacks it
# calls. Subclasses (Descriptors::Stream, Packets, Watched) send and receive. If a callback parks,
# the descriptor's events wait until the callback returns.

module Gyre
  module EventMachine
    class Descriptor
      # How a descriptor ends. `step` is :drained while bytes are unsent, :now to close without
      # sending them, and :over at the end.
      Ending = Struct.new(:step, :reason, :detached)

      attr_reader :signature, :reactor

      def initialize(reactor)
        @reactor = reactor
        @signature = reactor.signature
        reactor.descriptors[@signature] = self
        @paused = false
        @connection = @ending = @limits = @waits = nil
        @callback = nil # :runs, then :is_awaited by an event
        @active_at = Clock.now
      end

      # Makes the connection. Its first callbacks may use the descriptor.
      def open(handler, arguments)
        guarded { @connection = handler.new(@signature, *arguments) }
        @reactor.conns[@signature] = @connection
        watch
        @reactor.emit(self) if @ending
        @connection
      rescue Exception # rubocop:disable Lint/RescueException -- raised again
        @connection = nil
        unbound
        raise
      end

      # Called when there is input, and after `emit`.
      def ready
        return if over?
        return hold if @callback
        return readable unless @ending

        drained? ? unbound : (readable if @reactor.loop.watching?(self))
      end

      # Called when there is room to write. The signature is the key of this watch.
      def room
        return if over?

        @callback && room_calls_back? ? hold : writable
      end

      def close(after_writing = false)
        return if over?
        return @reactor.next_tick(-> { close(after_writing) }) unless @reactor.in_thread? # behind what the thread has sent

        @ending ||= Ending.new(:drained)
        @ending.step = :now unless after_writing
        @reactor.emit(self)
        end_waits
      end

      # Closes after the present callback. `unbind` gets `reason`.
      def fail_with(reason)
        @ending ||= Ending.new(:drained)
        @ending.reason ||= reason.is_a?(Class) ? reason : (reason.class if reason.is_a?(SystemCallError)) || Errno::EPROTO
        close
      end

      # Runs the block, whose wait raises at the connection's end.
      def while_open
        raise ended if closing?

        (@waits ||= []) << (fiber = Fiber.current)
        hold if @callback == :is_awaited
        yield
      ensure
        @waits&.delete(fiber)
      end

      def closing? = !@ending.nil?

      def pause = switch(true)
      def resume = switch(false)
      def paused? = @paused && !over?

      # Stops watching and gives the descriptor to the caller.
      def detach
        raise "the connection has ended" if over?

        close
        @ending.detached = true
        io.autoclose = false
        io.fileno
      end

      def idle_s = Clock.now - @active_at

      def active = @active_at = Clock.now

      def limits = @limits ||= Limits.new(self)

      def connecting? = false

      # Answers to questions about other kinds of descriptors.
      %i[transport links pid status notify_readable? notify_writable?].each { |name| define_method(name) { nil } }

      def error?
        return true unless socket?

        number = io.getsockopt(:SOCKET, :ERROR).int
        number.zero? ? false : ERRNOS.fetch(number, true)
      rescue SystemCallError, IOError
        true
      end

      def peername = (io.getpeername.then { |address| address unless address.empty? } if socket?)
      def sockname = (io.getsockname if socket?)

      # Ends the descriptor after the reactor's last callback.
      def release
        drained? unless over? || @paused
        unbound
      rescue Stop
        raise
      rescue Exception => error # rubocop:disable Lint/RescueException -- leaves by `run`
        @reactor.failed(error)
      end

      # Closes the copy of a parent's descriptor; the parent's connection goes on.
      def disown = io.close

      private

      # Raises in the fibers that wait by {#while_open}.
      def end_waits
        waits, @waits = @waits, nil
        waits&.each { |fiber| Fiber.scheduler.fiber_interrupt(fiber, ended) unless fiber.equal?(Fiber.current) }
        nil
      end

      def ended = (@ending&.reason || IOError).new("the connection has ended")

      def over? = @ending && @ending.step == :over

      def socket? = io.is_a?(BasicSocket) && !io.closed?

      # Runs a callback. If the callback parks, events wait meanwhile.
      def guarded
        @callback = :runs
        yield
      ensure
        awaited = @callback == :is_awaited
        @callback = nil
        let_go if awaited && !over?
      end

      def hold
        @callback = :is_awaited
        @reactor.loop.unwatch(self)
      end

      def let_go
        await_room if room_calls_back?
        watch
        @reactor.emit(self)
      end

      # Pauses or resumes. Returns true if the state has changed.
      def switch(paused)
        return false if @paused == paused || over?

        @paused = paused
        watch
        true
      end

      def watch
        wanted = !over? && !@paused && (@callback.nil? || @callback == :runs) && reads?
        return if wanted == @reactor.loop.watching?(self)

        wanted ? @reactor.loop.watch_io(self, io) : @reactor.loop.unwatch(self)
      end

      def await_room = (@reactor.loop.watch_io(@signature, io, true, true) unless @reactor.loop.watching?(@signature))

      # Calls the connection's `unbind`, then closes the descriptor.
      def unbound
        return if over?

        @ending ||= Ending.new
        @ending.step = :over
        begin
          @reactor.conns.delete(@signature)
          [self, @signature].each { |key| @reactor.loop.unwatch(key) }
          @limits&.cancel
          tell if @connection
        ensure
          @reactor.descriptors.delete(@signature)
          shut unless @ending.detached
        end
      end

      def tell
        arguments = @connection.original_method(:unbind).arity.zero? ? [] : [@ending.reason]
        guarded { @connection.__send__(:unbind, *arguments) }
      end

      def reads? = true

      def room_calls_back? = false

      # Sends as many bytes as possible. True if all bytes are sent.
      def drained? = true

      def shut = io.close
    end

    # Limits of a descriptor's inactivity and connect time in seconds. 0.0: no limit.
    # Bytes that the kernel takes are activity; they are looked at LOOKS times in silence_s.
    Limits = Struct.new(:descriptor, :silence_s, :connect_s, :timer, :unsent) do
      const_set(:LOOKS, 4)

      def initialize(descriptor) = super(descriptor, 0.0, 20.0)

      def change(limit, seconds)
        self[limit] = seconds
        start
      end

      # Starts the timer that applies now; called again when the connection is established.
      def start
        cancel
        descriptor.connecting? ? wait(connect_s) : look(silence_s)
      end

      def cancel
        descriptor.reactor.cancel_timer(timer) if timer
        self.timer = nil
      end

      private

      def wait(seconds) = (self.timer = descriptor.reactor.add_timer(seconds, method(:check)) if seconds.positive?)

      def look(left_s)
        self.unsent = descriptor.unsent_bytes
        wait([left_s, silence_s / self.class::LOOKS].min)
      end

      def check
        self.timer = nil
        descriptor.active if !descriptor.connecting? && unsent && descriptor.unsent_bytes < unsent
        left_s = descriptor.connecting? ? 0 : silence_s - descriptor.idle_s
        left_s.positive? ? look(left_s) : descriptor.fail_with(Errno::ETIMEDOUT)
      end
    end
  end
end
