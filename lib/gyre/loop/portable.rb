# frozen_string_literal: true

# The portable engine's loop: watches descriptors and runs timers. `poll` is the second half of a
# turn. Driven by Gyre::Scheduler::Portable; never switches fibers. Belongs to one thread, except
# for `wake` and `descriptor_closed`.
require_relative "closing"
require_relative "select"
require_relative "timers"

module Gyre
  class Loop
    class Portable
      class Watch
        attr_reader :io, :fd, :interest

        def initialize(loop, io, interest, target)
          @loop = loop
          @io = io
          @fd = io.fileno
          @interest = interest
          @target = target
        end

        # May be called again.
        def cancel
          return unless @target

          @target = nil
          @loop.forget(self)
        end

        def report(ready)
          ready &= @interest
          @target&.ready(ready) unless ready.zero?
        end

        def fail
          target = @target
          cancel
          target&.failed(@io.closed? ? IOError.new("closed stream") : Errno::EBADF.new)
        end
      end

      # Returns the calling fiber's thread. On JRuby each fiber has its own Thread.current, and a
      # thread's fibers share thread variables.
      def self.thread
        current = Thread.current
        current.thread_variable_get(:gyre_thread) || current.tap { current.thread_variable_set(:gyre_thread, current) }
      end

      attr_reader :timers
      attr_reader :turns # how often the backend was asked

      def initialize
        @turns = @waits = @wakeups = @events = 0
        @polled = Timers.now
        open
      end

      # Calls target.ready(events) while the descriptor is ready, until the watch is cancelled.
      # Calls target.failed(error) once the descriptor is closed. `interest`: sum of IO::READABLE,
      # IO::WRITABLE, IO::PRIORITY.
      def watch(io, interest, target)
        watch = Watch.new(self, io, interest, target)
        others = @watches[watch.fd]
        others.select { |other| other.io.closed? }.each(&:fail) if others # the number has been reused
        (@watches[watch.fd] ||= []).push(watch)
        tell_backend(watch.fd)
        watch
      end

      # Called by Watch#cancel. Other watches of a closed IO fail in the next poll.
      def forget(watch)
        watches = @watches[watch.fd] or return
        watches.delete(watch)
        tell_backend(watch.fd) unless watches.last&.io&.closed?
      end

      # True while the loop waits or is about to wait: new work must wake it.
      def waiting? = @waiting

      # Asks the backend once, reports events and fires due timers. Calls the block once {#waiting?}
      # is true, and sleeps only if the block returns true.
      def poll
        @turns += 1
        begin
          @waiting = true
          timeout = 0
          if yield
            timeout = @timers.delay
            @waits += 1 unless timeout&.zero?
          end
          events = timeout&.zero? && @watches.empty? ? {} : @backend.wait(timeout)
        ensure
          @waiting = false
        end
        @polled = Timers.now
        @events += events.size
        events.each { |fd, ready| report(fd, ready) }
        @timers.fire
      end

      def since_poll_s = Timers.now - @polled

      def stats
        { turns: @turns, waits: @waits, wakeups: @wakeups, events: @events, tasks: 0, idle_fibers: 0, parked: 0,
          ready: 0, timers: @timers.size, descriptors: @watches.size }
      end

      # True if only the scheduler's own timers would end a sleep. `own`: the number of these
      # timers.
      def idle?(own) = @watches.empty? && @timers.size == own

      # Ends the present or next sleep. Any thread or trap handler may call it.
      def wake
        @wakeups += 1
        @backend.wake
      end

      # Called by Closing in any thread when a descriptor was closed or reopened.
      def descriptor_closed(descriptor) = (wake if @watches.key?(descriptor))

      # Called in a forked child: drops watches and timers, closes the inherited pipe.
      def reopen
        close
        open
      end

      def close
        Closing.delist(self)
        @backend.close
      end

      private

      def open
        @backend = Select.new
        @timers = Timers.new
        @watches = {}
        @waiting = false
        Closing.enlist(self)
      end

      def tell_backend(fd)
        watches = @watches[fd]
        if watches.empty?
          @watches.delete(fd)
          @backend.unwatch(fd)
        else
          @backend.watch(watches.last.io, watches.inject(0) { |sum, watch| sum | watch.interest })
        end
      end

      def report(fd, ready)
        watches = @watches[fd] or return
        watches = watches.dup
        ready.zero? ? watches.each(&:fail) : watches.each { |watch| watch.report(ready) }
      end
    end
  end
end
