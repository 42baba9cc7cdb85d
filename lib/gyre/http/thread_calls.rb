# frozen_string_literal: true

# Lets other threads call an exchange: the calling thread waits while a fiber of the loop's thread
# runs the call. Used by an exchange's primitives (ext/gyre/http/methods.c). Also resolves the
# promises that tell of a client's departure, because the callbacks that notice it have no fiber.

require "gyre/http/service"

module Gyre
  module HTTP
    class ThreadCalls
      # Made in the waiting thread and run in the loop's thread.
      class Call
        def initialize(thread_calls, exchange, name, arguments)
          @thread_calls = thread_calls
          @exchange = exchange
          @name = name
          @arguments = arguments
          @results = Thread::Queue.new
          @left = @answered = false
        end

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

        # Called in the waiting thread. Returns the method's result or raises its exception.
        def wait
          value, error = @results.pop
          raise_again(error) if error

          value
        end

        # Ends the call after an exception in the waiting thread. Also ends the fiber's wait, so
        # that other threads may read the body. If a message was partly sent, its connection closes.
        # A message that was read meanwhile is given back.
        def leave(taken)
          @left = true
          return if taken
          return @thread_calls.post(method(:give_back)) if @answered

          @exchange.interrupt_reader(@fiber, stopped) if @fiber
          @thread_calls.post(method(:stop))
        rescue IOError
          nil # the loop and its fibers have ended
        end

        # Cancels the call in the loop. Any thread may call it.
        def abandon(error = IOError.new("the server ended while another thread used this request")) = answer(nil, error)

        private

        def answer(value, error)
          @value = value
          return give_back if @left && !@answered && !error
          @answered = true
          @results << [value, error]
        end

        def raise_again(error)
          error.set_backtrace([*error.backtrace, *caller(2)]) unless error.frozen?
          raise error
        end

        def give_back = (@exchange.give_back(@value) if @value && @name == :read && @exchange.respond_to?(:give_back))

        def stop = (Fiber.scheduler.fiber_interrupt(@fiber, stopped) if @fiber)

        def stopped = Gyre::Stop.new("the thread that waited for it was interrupted")
      end

      # A promise, which is resolved in its own fiber, or immediately if no fiber can be made.
      Departure = Struct.new(:promise) do
        def call = promise.resolve(true)

        def abandon(_error) = call
      end

      # Maximum jobs that wait for a thread before publishers wait.
      JOBS_LIMIT = 1000
      private_constant :JOBS_LIMIT

      # Runs this thread's jobs of {#post_in_order} that wait.
      def self.run_in_order
        jobs = Thread.current.thread_variable_get(:gyre_jobs_in_order) or return
        jobs.shift.call until jobs.empty?
      end

      # acceptor.post makes the loop's thread call {#start} soon.
      def initialize(acceptor)
        @in_order = Thread.current.thread_variable_get(:gyre_jobs_in_order) || Thread.current.thread_variable_set(:gyre_jobs_in_order, [])
        @acceptor = acceptor
        @calls = {}.compare_by_identity
        @posted = []
        @in_order_due = @ended = false
      end

      # Called from another thread. Calls a method of the exchange in the loop's thread. Raises
      # IOError if the loop has ended.
      def call(exchange, name, arguments)
        call = Call.new(self, exchange, name, arguments)
        @calls[call] = true
        taken = false
        Thread.handle_interrupt(Object => :on_blocking) do
          post(call)
          call.wait.tap { taken = true }
        end
      rescue Exception # rubocop:disable Lint/RescueException -- an interrupt right after the wait
        taken = false
        raise
      ensure
        @calls.delete(call)
        call&.leave(taken)
      end

      # Runs `job` in a fiber of the loop's thread. Any thread may call it. Raises IOError if the
      # loop has ended.
      def post(job)
        raise IOError, "the server has ended" if @ended

        @posted << job
        @acceptor.post
      end

      # Runs `job`, which must not wait, after those of earlier calls for this thread.
      def post_in_order(job)
        raise IOError, "the server has ended" if @ended

        @in_order << job
        return if @in_order_due # the run begins later, so that it has this job

        @in_order_due = true
        post(method(:run_in_order))
      end

      # True if the loop's thread is late with its jobs.
      def behind? = @posted.size + @in_order.size > JOBS_LIMIT

      # Lets the next {#start} or {#close} resolve the promise. Called in the loop's thread.
      def depart(promise) = @posted << Departure.new(promise)

      # Runs the present jobs. Later jobs wait for the next turn: a thread could post endlessly.
      def start(scheduler)
        @posted.size.times do
          scheduler.spawn(job = @posted.shift)
        rescue FiberError, NoMemoryError => error
          job.respond_to?(:abandon) ? job.abandon(error) : raise
        end
      end

      # Fails all waiting calls at the loop's end.
      def close
        @ended = true
        @calls.each_key.to_a.each(&:abandon)
        @posted.grep(Departure).each(&:call)
      end

      private

      # The thread's jobs may be those of several servers, of which some have ended.
      def run_in_order
        @in_order_due = false
        ThreadCalls.run_in_order
      end
    end
  end
end
