# frozen_string_literal: true

# A reactor of Gyre::EventMachine: a keyed loop with the events of connections, timers and ticks.
# Called by EventMachine's functions. Its tasks (Gyre.run) are pumps: a pump takes events and runs
# callbacks while a second pump waits. If a callback parks, the second pump takes over, and the
# parked pump may end after the callback.
require "gyre/event_machine/locals"
require "gyre/event_machine/ticks"

module Gyre
  module EventMachine
    class Reactor
      # Number of pumps that may wait for events.
      IDLE = 2
      # Key of run's block among the timers: it is the first of them, as in EventMachine.
      BLOCK = 0
      private_constant :IDLE, :BLOCK

      # Connections, acceptors ([class, arguments, block]), timers' callbacks and descriptors, each
      # by signature. Programs read the first three as EventMachine's instance variables.
      attr_reader :conns, :acceptors, :timers, :descriptors, :tails, :loop, :thread

      def initialize
        @ticks = Ticks.new(self)
        @tails = []
        @signature = 0 # goes on in the next run, where nothing of this one may be met by its number
        reset
      end

      def running? = !@thread.nil? && !stale?

      def stopping? = @stopping

      # True in a process that was forked while the reactor ran.
      def stale? = !@thread.nil? && @forks != Scheduler::Fork.depth

      def in_thread? = @thread.equal?(Thread.current)

      def next_tick_queue = @ticks.queue

      # Runs until {#stop}. Raises a callback's exception if no error handler is set.
      def run(block)
        disown if stale?
        reset
        yield
        @timers[BLOCK] = block if block
        @locals = Locals.new
        Gyre.run("EventMachine") { |task| serve(task) }
        @locals.finish
        raise @error if @error
      end

      # Ends `run` after queued events, and after the ticks of this turn: timers are called before
      # ticks, and input after them. Any thread or trap handler may call it.
      def stop
        @ticks_left = @in_timer || !in_thread?
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
          @ticks.wait_again if seconds.zero? && !@in_timer # or timers could keep ticks waiting
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
        @stopping = @in_timer = @ticks_left = false
        @thread = nil
        @ticks.reset
      end

      # Closes the copies of the parent's descriptors in a forked process. No callback is called.
      def disown
        [*@descriptors.values, *@conns.values.grep(Watch)].each(&:disown)
        @ticks = Ticks.new(self)
      end

      def serve(task)
        @forks, @thread, @loop = Scheduler::Fork.depth, Thread.current, Loop.new
        @task, @tasks, @waiting, @end, @error = task, [], 0, Promise.new, nil
        emit(BLOCK)
        @ticks.start
        IDLE.times { start_pump }
        @end.wait
      ensure
        shut_down if running?
      end

      # Ends `serve`. `run` raises the first error.
      def finish(error = nil)
        @error ||= error
        @end.resolve
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
        return if !@end.pending? || @waiting >= IDLE || stale?

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
        locals = @locals.enter
        case event
        when Integer then (timer = @timers.delete(event)) ? fire(timer) : @descriptors[event]&.room
        when Symbol then event == :halt ? halt : @ticks.public_send(event)
        else event&.ready
        end
      rescue Stop
        raise
      rescue Exception => error # rubocop:disable Lint/RescueException -- leaves by `run`
        failed(error)
      ensure
        @locals.leave(locals)
      end

      def fire(timer)
        @in_timer = true
        timer.call
      ensure
        @in_timer = false
      end

      def halt
        return finish unless @ticks_left

        @ticks_left = false
        emit(:halt)
        @ticks.turn_over
      end

      def shut_down
        @end.resolve
        @tasks.dup.each(&:stop) # ends parked callbacks, too
        locals = @locals.enter
        run_hooks
        @descriptors.values.each(&:release)
        @descriptors.each_value { |late| late.io.close } # opened by an unbind
        @descriptors.clear
        @conns.values.grep(Watch).each(&:finish)
        EventMachine.stop_threads
      ensure
        @locals.leave(locals || {})
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
