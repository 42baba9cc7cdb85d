# frozen_string_literal: true

# EventMachine's Iterator: asynchronous work on each item, several items at a time. An item's work
# ends when Step#next is called, not when the work returns.

module Gyre
  module EventMachine
    # Runs asynchronous work on each item of a list.
    class Iterator
      # Returned by a callable list after its last item.
      Stop = "EM::Stop"

      # Passed to the work, which calls it once to end the item, with the item's result for
      # {Iterator#map} and {Iterator#inject}.
      class Step < Proc
        alias next call
        alias return call
      end

      # @return [Integer]
      attr_reader :concurrency

      # @param list [#to_a, #call] the items, or a callable that returns the next item or {Stop}
      # @param concurrency [Integer] the number of items at a time
      def initialize(list, concurrency = 1)
        raise ArgumentError, "concurrency must be greater than 0" unless concurrency.positive?

        items = list.to_a.dup unless list.respond_to?(:call)
        @source = items ? -> { items.empty? ? Stop : items.shift } : list
        @concurrency = concurrency
        @pending = 0
        @open = false
      end

      # @param number [Integer] also for a running iteration
      def concurrency=(number)
        @concurrency = number
        EventMachine.next_tick { fill }
      end

      # @param work [#call] called with an item and a {Step}
      # @param after [#call, nil] called at the end
      # @return [self]
      def each(work = nil, after = nil, &block)
        work ||= block
        raise ArgumentError, "proc or block required for iteration" unless work
        raise "cannot iterate over an iterator more than once" if @work

        @work, @after = work, after
        @open = true
        EventMachine.next_tick { fill }
        self
      end

      # Calls {#inject}, which a subclass may have changed.
      # @param work [#call] called with an item and a {Step}, whose `return` takes the result
      # @param after [#call] called with the results, in the items' order
      # @return [self]
      def map(work, after)
        count = 0
        inject([], lambda { |results, item, step|
          index = (count += 1) - 1
          work.call(item, Step.new { |result| step.return(results) && results[index] = result })
        }, after)
      end

      # Calls {#each}, which a subclass may have changed.
      # @param object [Object]
      # @param work [#call] called with object, item and {Step}; `step.return(object)` goes on
      # @param after [#call] called with the last object
      # @return [self]
      def inject(object, work, after)
        each(->(item, step) { work.call(object, item, Step.new { |result| step.next && object = result }) }, -> { after.call(object) })
      end

      private

      def fill
        while @open && @pending < @concurrency
          item = @source.call
          Stop.equal?(item) ? @open = false : begin_item(item)
        end
        return if @open || @pending.positive?

        after, @after = @after, nil
        after&.call
      end

      def begin_item(item)
        @pending += 1
        over = false
        @work.call(item, Step.new do
          raise "already completed this iteration" if over

          over = true
          EventMachine.next_tick do # one item a tick: the reactor runs between items whose work ends at once
            @pending -= 1
            fill
          end
          true
        end)
      end
    end
  end
end
