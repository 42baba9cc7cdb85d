# frozen_string_literal: true

# A reactor of Gyre::EventMachine: a keyed loop with the events of connections, timers and ticks.
# EventMachine's functions call it; it knows no descriptor's kind. It runs in a tree of tasks
# (Gyre.run), alone or beside other tasks.
require "gyre/event_machine/ticks"

module Gyre
  module EventMachine
    class Reactor
      # Connections, acceptors ([class, arguments, block]), callbacks of timers and descriptors by
      # signature. Programs look into the first three by EventMachine's instance variables.
      attr_reader :conns, :acceptors, :timers, :descriptors, :tails, :loop, :thread

      def initialize
        @ticks = Ticks.new(self)
        @tails = []
        reset
      end

      def running? = !@thread.nil? && @pid == Process.pid

      def stopping? = @stopping

      # True in a process that was forked while the reactor ran.
      def stale? = !@thread.nil? && @pid != Process.pid

      def in_thread? = @thread.equal?(Thread.current)

      def next_tick_queue = @ticks.queue

      # Runs until {#stop}. If a callback raises and there is no error handler, raises that
      # exception.
      def run(block)
        reset
        yield
        next_tick_queue.unshift(block) if block
        Gyre.run("EventMachine") { |task| serve(task) }
        error = @pumps.error
        raise error if error
      end

      # Ends `run` after queued events. Any thread or trap handler may call it.
      def stop
        @stopping = true
        @loop&.emit(:halt)
      end

      # From any thread.
      def next_tick(callable) = @ticks.push(callable)

      # Runs the block in the reactor's thread, at once if that is this one. Any thread may call it.
      def in_turn(&block) = in_thread? ? yield : next_tick(block)

      # From any thread: returns what the block returns in the reactor's thread.
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

      # Gives a callback's exception to the error handler, or stops.
      def failed(error)
        handler = EventMachine.error_handler_block
        raise error if handler.nil? || !error.is_a?(StandardError)

        handler.call(error)
      rescue Exception => raised # rubocop:disable Lint/RescueException -- leaves by `run`
        @pumps.finish(raised)
      end

      # Waits for an event. The loop raises IOError if the program has closed a watched IO.
      def next_event
        @loop.next_event
      rescue IOError
        @descriptors.values.each { |descriptor| descriptor.close if descriptor.io.closed? }
        nil
      end

      def dispatch(event)
        case event
        when Integer then (timer = @timers.delete(event)) ? timer.call : @descriptors[event]&.room
        when Symbol then event == :halt ? @pumps.finish : @ticks.public_send(event)
        else event&.ready
        end
      rescue Stop
        raise
      rescue Exception => error # rubocop:disable Lint/RescueException -- leaves by `run`
        failed(error)
      end

      private

      def reset
        @conns, @acceptors, @timers, @descriptors = {}, {}, {}, {}
        @signature = 0
        @stopping = false
        @thread = nil
        @ticks.reset
      end

      def serve(task)
        @pid, @thread, @loop = Process.pid, Thread.current, Loop.new
        @pumps = Pumps.new(task, self)
        emit(:run) unless next_tick_queue.empty?
        @pumps.run
      ensure
        shut_down if @pid == Process.pid
      end

      def shut_down
        @pumps.stop
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
        @pumps.finish(error)
        retry
      end
    end

    # The tasks that take a reactor's events and run its callbacks. One pump works while another
    # stands by and takes over when a callback parks; the parked pump ends with that callback.
    class Pumps
      # Number of pumps that may wait for events.
      IDLE = 2

      # The first exception that `finish` was given.
      attr_reader :error

      def initialize(task, reactor)
        @task = task
        @reactor = reactor
        @tasks = []
        @waiting = 0
        @end = Thread::Queue.new
        @error = nil
      end

      # Returns after `finish`.
      def run
        IDLE.times { start }
        @end.pop
      end

      def finish(error = nil)
        @error ||= error
        @end.close
      end

      # Ends parked callbacks, too.
      def stop
        @end.close
        @tasks.dup.each(&:stop)
      end

      private

      def start = @tasks << @task.async("EventMachine's callbacks") { pump }

      def pump
        nil while take
      ensure
        @tasks.delete(Task.current)
      end

      # Returns nil at the end. By itself, as YJIT does not compile a loop that runs already.
      def take
        return if @end.closed? || @waiting >= IDLE

        event = await_event
        start if @waiting.zero?
        @reactor.dispatch(event)
        true
      end

      def await_event
        @waiting += 1
        @reactor.next_event
      ensure
        @waiting -= 1
      end
    end
  end
end
