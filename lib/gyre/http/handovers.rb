# frozen_string_literal: true

# A request that is used from another thread than its server's: the thread waits here, and what it
# asked for is done in a fiber of the loop's thread, where fibers and descriptors belong. The
# primitives of H1::Exchange call it when they notice (ext/gyre/http/http_exchange.c). It has
# nothing of what it hands over.

require "gyre/errors"
require "gyre/http/service"

module Gyre
  module HTTP
    # The calls from other threads at one acceptor.
    class Handovers
      # One call: made in the thread that waits, run in the loop's.
      class Handover
        def initialize(handovers, exchange, name, arguments)
          @handovers = handovers
          @exchange = exchange
          @name = name
          @arguments = arguments
          @results = Thread::Queue.new
          @left = @answered = false
        end

        # In the loop's thread, in a fiber of its own.
        # @return [void]
        def call
          return if @left || @answered

          @fiber = Fiber.current
          answer(@exchange.public_send(@name, *@arguments), nil)
        rescue Gyre::Stop
          nil # the thread has left, or the scheduler closes
        rescue SystemExit, SignalException
          raise
        rescue Exception => error # rubocop:disable Lint/RescueException -- raised in the thread that waits
          answer(nil, error)
        ensure
          @fiber = nil
          abandon unless @answered
        end

        # In the other thread.
        # @return what the method returned
        # @raise what the method raised
        def wait
          value, error = @results.pop
          raise_again(error) if error

          value
        end

        # In the other thread, at the end, whatever was raised in it and when. Without an answer so
        # far the wait in the loop ends then, too, and others may read the body at once; a message
        # of which some was sent ends its connection.
        # @return [void]
        def leave
          @left = true
          return if @answered

          @exchange.interrupt_reader(@fiber, stopped) if @fiber
          @handovers.post(method(:stop))
        rescue IOError
          nil # the loop has ended, and all that it did
        end

        # From any thread: the loop does it no more.
        # @return [void]
        def abandon(error = IOError.new("the server ended while another thread used this request"))
          answer(nil, error)
        end

        private

        def answer(value, error)
          @answered = true
          @results << [value, error]
        end

        def raise_again(error)
          error.set_backtrace([*error.backtrace, *caller(2)]) unless error.frozen?
          raise error
        end

        # In the loop's thread.
        def stop
          Fiber.scheduler.fiber_interrupt(@fiber, stopped) if @fiber
        end

        def stopped
          Gyre::Stop.new("the thread that waited for it was interrupted")
        end
      end

      # @param acceptor [#post] calls {#start} in the loop's thread soon
      def initialize(acceptor)
        @acceptor = acceptor
        @calls = {}.compare_by_identity
        @posted = []
        @ended = false
      end

      # From another thread: has a method called in the loop's.
      #
      # @param exchange [Exchange]
      # @param name [Symbol]
      # @param arguments [Array]
      # @return what it returned
      # @raise what it raised
      # @raise [IOError] the loop ended meanwhile
      def call(exchange, name, arguments)
        handover = Handover.new(self, exchange, name, arguments)
        @calls[handover] = true
        post(handover)
        handover.wait
      ensure
        @calls.delete(handover)
        handover&.leave
      end

      # From any thread.
      #
      # @param job [#call] run in a fiber of the loop's thread
      # @return [void]
      # @raise [IOError] the loop has ended
      def post(job)
        raise IOError, "the server has ended" if @ended

        @posted << job
        @acceptor.post
      end

      # In the loop's thread.
      #
      # @param scheduler [Scheduler]
      # @return [void]
      def start(scheduler)
        while (job = @posted.shift)
          begin
            scheduler.spawn(job)
          rescue FiberError, NoMemoryError => error
            job.respond_to?(:abandon) ? job.abandon(error) : raise
          end
        end
      end

      # The loop ends: every call that waits for it fails.
      #
      # @return [void]
      def close
        @ended = true
        @calls.each_key.to_a.each(&:abandon)
      end
    end
  end
end
