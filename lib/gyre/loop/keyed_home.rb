# frozen_string_literal: true

# Which portable loop a Loop::PortableKeyed works on: that of the thread's scheduler, where a wait for an event parks the fiber, else one of
# its own. Its watches move along. Included by PortableKeyed only.
require_relative "portable"

module Gyre
  class Loop
    # Where a keyed loop lives, and whose it is.
    module KeyedHome
      # What the loop has done and holds, as Scheduler#stats says it. On a scheduler's loop the figures are that one's.
      # @return [Hash{Symbol => Integer, Float}]
      # @raise [RuntimeError] when the loop is closed
      def stats
        settle
        stats = (@scheduler || @loop).stats
        unsettle
        stats
      end

      private

      # Finds the loop to be used by this thread and brings the watches there.
      # @raise [ThreadError] when another thread uses it
      def settle
        raise "the loop is closed" if @closed

        check_fork
        check_thread
        scheduler = present_scheduler
        return if @loop && scheduler.equal?(@scheduler)

        @watches.each_value(&:detach)
        @scheduler = scheduler
        @thread = scheduler || @depth > 0 ? Thread.current : nil
        @loop = scheduler ? scheduler.event_loop : (@own ||= Portable.new { Select.new })
        @watches.values.each { |watch| watch.attach(@loop) }
      end

      # Leaves the scheduler's loop when there is nothing to do on it.
      def unsettle
        return unless @scheduler && @depth.zero? && @watches.empty?

        @scheduler = @loop = @thread = nil
      end

      # For each and next_event.
      def inside
        settle
        @thread = Thread.current
        @depth += 1
        begin
          yield
        ensure
          @depth -= 1 if @depth > 0
          @thread = nil if @depth.zero? && @scheduler.nil?
          unsettle
        end
      end

      # @return [Scheduler::Portable, nil]
      def present_scheduler
        scheduler = Fiber.scheduler if Fiber.respond_to?(:scheduler)
        return unless scheduler && defined?(Scheduler) && scheduler.is_a?(Scheduler) && !scheduler.closed?
        return scheduler if scheduler.is_a?(Scheduler::Portable)

        raise "this loop is portable, and the scheduler of its thread is native: make the loop in that thread"
      end

      def check_thread
        return if @thread.nil? || @thread.equal?(Thread.current) || (@scheduler && @scheduler.closed?)

        raise ThreadError, "the loop is used by another thread, #{@thread.inspect}: only emit, signal and stop may be called here"
      end

      # A forked child begins with nothing watched and nothing queued; a closed loop stays closed.
      def check_fork
        return if @pid == Process.pid

        @pid = Process.pid
        watches = @watches.values
        @depth = 0 unless @thread.equal?(Thread.current)
        closed = @closed
        forget
        @closed = @stopped = closed
        @own.reopen if @own && !closed
        watches.each(&:release)
      end
    end
  end
end
