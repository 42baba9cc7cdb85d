# frozen_string_literal: true

# The portable engine's loop: what waits for which descriptor, and the timers; one `poll` is the
# asking half of a turn. Driven by Gyre::Scheduler::Portable; it calls back, but never switches
# fibers itself. Everything except `wake` belongs to the thread that drives it.
require_relative "closing"
require_relative "lag"
require_relative "select"
require_relative "timers"

module Gyre
  class Loop
    # Watches and timers over a backend.
    class Portable
      # Interest of one party in one descriptor. There may be several for the same number.
      class Watch
        attr_reader :io, :fd, :interest

        def initialize(loop, io, interest, target)
          @loop = loop
          @io = io
          @fd = io.fileno
          @interest = interest
          @target = target
        end

        # Ends it; harmless a second time.
        def cancel
          return unless @target

          @target = nil
          @loop.forget(self)
        end

        # @param ready [Integer] what happened to the descriptor
        def report(ready)
          ready &= @interest
          @target&.ready(ready) unless ready.zero?
        end

        # The descriptor is closed: nothing more can happen to it.
        def fail
          target = @target
          cancel
          target&.failed(@io.closed? ? IOError.new("closed stream") : Errno::EBADF.new)
        end
      end

      # The thread that the calling fiber belongs to. On JRuby Thread.current is the fiber's own
      # one, and the variables are shared.
      # @return [Thread]
      def self.thread
        current = Thread.current
        current.thread_variable_get(:gyre_thread) || current.tap { current.thread_variable_set(:gyre_thread, current) }
      end

      # @return [Timers]
      attr_reader :timers
      # @return [Integer] how often the backend was asked
      attr_reader :turns

      # @yield makes a backend; called again in a forked child
      def initialize(&backend)
        @make_backend = backend
        @turns = @waits = @wakeups = @events = 0
        @lag = Lag.new
        @polled = Timers.now
        open
      end

      # Calls target.ready(events) again and again while the descriptor is ready, until the watch is
      # cancelled; target.failed(error) when the descriptor was closed meanwhile (then the watch is
      # over).
      # @param io [IO]
      # @param interest [Integer] sum of IO::READABLE, IO::WRITABLE, IO::PRIORITY
      # @return [Watch]
      # @raise [IOError] when it is closed
      def watch(io, interest, target)
        watch = Watch.new(self, io, interest, target)
        others = @watches[watch.fd]
        others.select { |other| other.io.closed? }.each(&:fail) if others # the number has been given out again
        (@watches[watch.fd] ||= []).push(watch)
        tell_backend(watch.fd)
        watch
      end

      # For Watch#cancel only. Others of an IO that is closed by now fail when the loop next polls.
      def forget(watch)
        watches = @watches[watch.fd] or return
        watches.delete(watch)
        tell_backend(watch.fd) unless watches.last&.io&.closed?
      end

      # @return [Boolean] whether the loop is waiting for the kernel, or is about to: then what
      #   makes work has to wake it
      def waiting?
        @waiting
      end

      # Asks the backend once, reports what happened, fires what is due.
      # @yieldreturn [Boolean] whether there is nothing else to do, so that it may sleep; asked
      #   after {#waiting?} is true
      def poll
        @turns += 1
        begin
          @waiting = true
          timeout = 0
          if yield
            timeout = @timers.delay
            @waits += 1 unless timeout&.zero?
          end
          @lag.add(Timers.now - @polled)
          events = timeout&.zero? && @watches.empty? ? {} : @backend.wait(timeout)
        ensure
          @waiting = false
        end
        @polled = Timers.now
        @events += events.size
        events.each { |fd, ready| report(fd, ready) }
        @timers.fire
      end

      # @return [Float] seconds since the backend was last asked
      def since_poll_s
        Timers.now - @polled
      end

      # @return [Hash{Symbol => Integer, Float}] for Scheduler#stats, which has figures for the
      #   fibers
      def stats
        { turns: @turns, waits: @waits, wakeups: @wakeups, events: @events, tasks: 0, idle_fibers: 0, parked: 0,
          ready: 0, timers: @timers.size, descriptors: @watches.size }.merge(@lag.to_h)
      end

      # @return [Boolean] whether nothing of its own will ever end its sleep: no timer, no
      #   descriptor
      def idle?
        @watches.empty? && @timers.delay.nil?
      end

      # Ends the present or the next poll's sleep. From any thread and from a trap handler.
      def wake
        @wakeups += 1
        @backend.wake
      end

      # For Closing: what had this number was closed or reopened, by whatever thread.
      def descriptor_closed(descriptor)
        wake if @watches.key?(descriptor)
      end

      # In a forked child: forgets everything. The parent's descriptors are only ours to close.
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
        @backend = @make_backend.call
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
