# frozen_string_literal: true

# EventMachine's functions for the reactor: run, stop, ticks, hooks, errors. One reactor serves the
# process, or each thread has its own (`one_for_each_thread`).

module Gyre
  module EventMachine
    @threads_apart = false

    class << self
      attr_reader :error_handler_block

      # Gives each thread its own reactor.
      def one_for_each_thread=(apart)
        @threads_apart = apart
        @reactor = nil
      end

      def reactor = @reactor || (@threads_apart ? reactor_of(Thread.current) : @reactor = Reactor.new)

      # Runs the block, then events until {stop}, then `tail`. If the reactor is already running,
      # only calls the block. Raises a callback's exception if no {error_handler} is set.
      def run(blk = nil, tail = nil, &block)
        reactor.tails.unshift(tail) if tail
        return (blk || block)&.call if reactor.running?

        reactor.run(blk || block) do # programs look into these
          @conns, @acceptors, @timers, @next_tick_queue, @tails =
            reactor.conns, reactor.acceptors, reactor.timers, reactor.next_tick_queue, reactor.tails
          @reactor_running = true # as long as a reactor runs; mailcatcher reads it
        end
        nil
      ensure
        @reactor_running = false unless reactor.running?
      end

      # Runs the block in the reactor, then stops the reactor.
      def run_block(&block)
        run do
          block.call
          stop
        end
      end

      # Ends {run}. Any thread or trap handler may call it.
      def stop
        return reactor.stop if reactor.running?

        raise "eventmachine not initialized: evma_stop_machine" unless reactor.stale?
      end
      alias stop_event_loop stop

      def stopping? = reactor.running? && reactor.stopping?

      def reactor_running? = reactor.running?

      def reactor_thread = reactor.thread

      def reactor_thread? = reactor.in_thread?

      # Makes a callable from an object and a method name, from a callable, or from a block.
      # @param object [Object, #call, nil]
      # @param method [Symbol, nil]
      # @return [#call]
      # @raise [ArgumentError] there is nothing to call
      def Callback(object = nil, method = nil, &block) # rubocop:disable Naming/MethodName
        callable = object && method ? ->(*args) { object.public_send(method, *args) } : object || block
        return callable if callable.respond_to?(:call)

        raise ArgumentError, "no callback: give an object and a method name, an object that responds to call, or a block"
      end

      # Calls the callback: immediately if this is the reactor's thread, otherwise in the next turn.
      def schedule(*arguments, &block)
        callback = Callback(*arguments, &block)
        reactor.running? && reactor.in_thread? ? callback.call : next_tick { callback.call }
      end

      # Calls the callable or block in the next turn. Any thread may call it.
      def next_tick(callable = nil, &block)
        raise ArgumentError, "no proc or block given" unless callable.respond_to?(:call) || block

        reactor.next_tick(callable || block)
        nil
      end

      # Runs a reactor in a forked process. Returns its pid.
      def fork_reactor(&block) = Kernel.fork { run(block) }

      # Adds a hook to call when {run} ends. The last hook is called first.
      def add_shutdown_hook(&block) = reactor.tails << block

      # Sets a handler for callbacks' exceptions. If there is none, `run` raises them.
      def error_handler(callback = nil, &block) = @error_handler_block = callback || block

      # Returns nil outside of {run}.
      def current_time = (Time.now if reactor.running?)

      private

      def reactor_of(thread)
        thread.thread_variable_get(:gyre_reactor) || Reactor.new.tap { |reactor| thread.thread_variable_set(:gyre_reactor, reactor) }
      end
    end
  end
end
