# frozen_string_literal: true

# A reactor of Gyre::EventMachine: a keyed loop with the events of connections, timers and ticks,
# and the fibers that run their callbacks. EventMachine's functions call it; it knows no
# descriptor's kind. It runs in a tree of tasks (Gyre.run), alone or beside other tasks.
#
# Pumps are tasks that take events and call back. One pump works while another one stands by and
# takes over when a callback parks; the parked pump ends with that callback.

module Gyre
  module EventMachine
    class Reactor
      # Number of pumps that may wait for events.
      IDLE_PUMPS = 2
      private_constant :IDLE_PUMPS

      # Connections, acceptors ([class, arguments, block]) and callbacks of timers, each by
      # signature. Programs look into them through EventMachine's instance variables.
      attr_reader :conns, :acceptors, :timers, :next_tick_queue, :tails, :loop, :thread
      # Descriptors by signature.
      attr_reader :descriptors
      # An exception of a callback, which `run` is about to raise.
      attr_accessor :error

      def initialize
        @next_tick_queue = []
        @tails = []
        reset
      end

      def running? = @running && @pid == Process.pid

      def stopping? = @stopping

      # True in a process that was forked since `run`.
      def stale? = @pid != Process.pid && !@pid.nil?

      def in_thread? = @thread.equal?(Thread.current)

      # Runs until {#stop}. If a callback raises and there is no error handler, raises that
      # exception.
      def run(block)
        reset
        yield
        @next_tick_queue.unshift(block) if block
        Gyre.run("EventMachine") { |task| serve(task) }
        error, @error = @error, nil
        raise error if error
      end

      # Ends `run` after the events that are queued now. From any thread, or a trap handler.
      def stop
        @stopping = true
        @loop&.emit(:halt)
      end

      # From any thread.
      def next_tick(callable)
        @next_tick_queue << callable
        return if @ticking || !running?

        @ticking = true
        @loop.emit(in_thread? ? :tick : :tick_of_a_thread)
      end

      # From any thread: runs the block in the reactor's thread, at once if that is this one.
      def in_turn(&block) = in_thread? ? yield : next_tick(block)

      def signature = @signature += 1

      def add_timer(seconds, callable)
        timer = signature
        @timers[timer] = callable
        in_turn { @loop.watch_timer(timer, seconds.negative? ? 0 : seconds) if @timers.key?(timer) }
        timer
      end

      def cancel_timer(timer)
        return unless @timers.delete(timer)

        in_turn { @loop.unwatch(timer) }
      end

      # Queues a `ready` of the object, or a call of it.
      def emit(event) = @loop.emit(event)

      # Hands an exception of a callback to the error handler, or stops.
      def failed(error)
        handler = EventMachine.error_handler_block
        raise error if handler.nil? || !error.is_a?(StandardError)

        handler.call(error)
      rescue Exception => raised # rubocop:disable Lint/RescueException -- leaves by `run`
        @error ||= raised
        finish
      end

      private

      def reset
        @conns, @acceptors, @timers, @descriptors = {}, {}, {}, {}
        @signature = @waiting = @left = 0
        @running = @stopping = @ticking = @over = false
        @thread = @error = nil
      end

      def serve(task)
        @task, @pid, @thread = task, Process.pid, Thread.current
        @loop = Loop.new
        @end = Thread::Queue.new
        @pumps = []
        @running = true
        emit(:tick) unless @next_tick_queue.empty?
        IDLE_PUMPS.times { start_pump }
        @end.pop
      ensure
        shut_down if @pid == Process.pid
      end

      def start_pump = @pumps << @task.async("EventMachine's callbacks") { pump }

      def pump
        until @over || @waiting >= IDLE_PUMPS
          event = await_event
          start_pump if @waiting.zero?
          dispatch(event)
        end
      ensure
        @pumps.delete(Task.current)
      end

      # The loop raises IOError where the program has closed a watched IO itself.
      def await_event
        @waiting += 1
        @loop.next_event
      rescue IOError
        @descriptors.values.each { |descriptor| descriptor.close if descriptor.io.closed? }
        nil
      ensure
        @waiting -= 1
      end

      def dispatch(event)
        if event.is_a?(Integer)
          @timers.delete(event)&.call
        elsif event == :tick
          begin_ticks
        elsif event == :rest
          run_ticks
        elsif event == :tick_of_a_thread
          Task.current.yield # a callback that waits for the thread comes first
          begin_ticks
        elsif event == :halt
          finish
        else
          event&.ready
        end
      rescue Stop
        raise
      rescue Exception => error # rubocop:disable Lint/RescueException -- leaves by `run`
        failed(error)
      end

      # Calls the blocks that are queued now; those queued meanwhile are for the next turn. If one
      # of them parks or raises, another pump calls the rest.
      def begin_ticks
        @ticking = false
        @left = @next_tick_queue.size
        run_ticks
      end

      def run_ticks
        emit(:rest) if @left > 1
        while @left.positive?
          @left -= 1
          @next_tick_queue.shift&.call
        end
      end

      def finish
        return if @over

        @over = true
        @end << true
      end

      def shut_down
        @over = true
        pumps, @pumps = @pumps, []
        pumps.each(&:stop)
        run_hooks
        @descriptors.values.each(&:release)
        @descriptors.each_value { |late| late.io.close } # opened by an unbind
        @descriptors.clear
        @conns.each_value { |connection| connection.release if connection.respond_to?(:release) }
        EventMachine.stop_threads
      ensure
        @running = false
        @loop.close
        @next_tick_queue.clear
        @thread = nil
      end

      def run_hooks
        while (hook = @tails.pop)
          hook.call
        end
      rescue StandardError => error
        @error ||= error
        retry
      end
    end
  end
end
