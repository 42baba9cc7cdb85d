# frozen_string_literal: true

# A reactor of Gyre::EventMachine: a keyed loop with the events of connections, timers and ticks.
# Called by EventMachine's functions. Its tasks (Gyre.run) are pumps: a pump takes events and runs
# callbacks while a second pump waits. If a callback parks, the second pump takes over, and the
# parked pump may end after the callback.
require "gyre/event_machine/ticks"

module Gyre
  module EventMachine
    class Reactor
      # Number of pumps that may wait for events.
      IDLE = 2
      private_constant :IDLE

      # Connections, acceptors ([class, arguments, block]), timers' callbacks and descriptors, each
      # by signature. Programs read the first three as EventMachine's instance variables.
      attr_reader :conns, :acceptors, :timers, :descriptors, :tails, :loop, :thread

      def initialize
        @ticks = Ticks.new(self)
        @tails = []
        @signature = 0 # goes on in the next run, where nothing of this one may be met by its number
        reset
      end

      def running? = !@thread.nil? && @pid == Process.pid

      def stopping? = @stopping

      # True in a process that was forked while the reactor ran.
      def stale? = !@thread.nil? && @pid != Process.pid

      def in_thread? = @thread.equal?(Thread.current)

      def next_tick_queue = @ticks.queue

      # Runs until {#stop}. Raises a callback's exception if no error handler is set.
      def run(block)
        reset
        yield
        next_tick_queue.unshift(block) if block
        Gyre.run("EventMachine") { |task| serve(task) }
        raise @error if @error
      end

      # Ends `run` after queued events. Any thread or trap handler may call it.
      def stop
        @stopping = true
        @loop&.emit(:halt)
      end

      # Any thread may call it.
      def next_tick(callable) = @ticks.push(callable)

      # Runs the block in the reactor's thread; immediately if called there. Any thread may call it.
      def in_turn(&block) = in_thread? ? yield : next_tick(block)

      # Runs the block in the reactor's thread and returns its value. Any thread may call it.
      def call(&block)
        return yield if in_thread?

        errand = Errand.new(block)
        next_tick(errand)
        errand.drop unless running?
        errand.wait
      end

      def signature = @signature += 1

      def add_timer(seconds, callable)
        @timers[timer = signature] = callable
        seconds = 0 if seconds.negative?
        if in_thread?
          @loop.watch_timer(timer, seconds)
        else
          next_tick(-> { @loop.watch_timer(timer, seconds) if @timers.key?(timer) })
        end
        timer
      end

      def cancel_timer(timer)
        return unless @timers.delete(timer)

        in_turn { @loop.unwatch(timer) }
      end

      # Queues a call of the object's `ready`.
      def emit(object) = @loop.emit(object)

      # Passes a callback's exception to the error handler. If there is none, ends the reactor.
      def failed(error)
        handler = EventMachine.error_handler_block
        raise error if handler.nil? || !error.is_a?(StandardError)

        handler.call(error)
      rescue Exception => raised # rubocop:disable Lint/RescueException -- leaves by `run`
        finish(raised)
      end

      private

      def reset
        @conns, @acceptors, @timers, @descriptors = {}, {}, {}, {}
        @stopping = false
        @thread = nil
        @ticks.reset
      end

      def serve(task)
        @pid, @thread, @loop = Process.pid, Thread.current, Loop.new
        @task, @tasks, @waiting, @end, @error = task, [], 0, Thread::Queue.new, nil
        emit(:run) unless next_tick_queue.empty?
        IDLE.times { start_pump }
        @end.pop
      ensure
        shut_down if @pid == Process.pid
      end

      # Ends `serve`. `run` raises the first error.
      def finish(error = nil)
        @error ||= error
        @end.close
      end

      def start_pump = @tasks << @task.async("EventMachine's callbacks") { pump }

      def pump
        nil while take
      ensure
        @tasks.delete(Task.current)
      end

      # Takes an event and runs its callback; nil at the end. A method of its own, as YJIT does not
      # compile a loop that is already running.
      def take
        return if @end.closed? || @waiting >= IDLE

        event = next_event
        start_pump if @waiting.zero?
        dispatch(event)
        true
      end

      # Waits for an event. The loop raises IOError if the program has closed a watched IO.
      def next_event
        @waiting += 1
        @loop.next_event
      rescue IOError
        @descriptors.values.each { |descriptor| descriptor.close if descriptor.io.closed? }
        nil
      ensure
        @waiting -= 1
      end

      def dispatch(event)
        case event
        when Integer then (timer = @timers.delete(event)) ? timer.call : @descriptors[event]&.room
        when Symbol then event == :halt ? finish : @ticks.public_send(event)
        else event&.ready
        end
      rescue Stop
        raise
      rescue Exception => error # rubocop:disable Lint/RescueException -- leaves by `run`
        failed(error)
      end

      def shut_down
        @end.close
        @tasks.dup.each(&:stop) # ends parked callbacks, too
        run_hooks
        @descriptors.values.each(&:release)
        @descriptors.each_value { |late| late.io.close } # opened by an unbind
        @descriptors.clear
        @conns.each_value { |connection| connection.release if connection.respond_to?(:release) }
        EventMachine.stop_threads
      ensure
        @loop.close
        @thread = nil
        @ticks.drop
      end

      def run_hooks
        while (hook = @tails.pop)
          hook.call
        end
      rescue StandardError => error
        finish(error)
        retry
      end
    end
  end
end
