# frozen_string_literal: true

# EventMachine's Iterator: asynchronous work on each item, several at a time. A call ends an item's
# work, not a return.

module Gyre
  module EventMachine
    # Runs asynchronous work on each item of a list.
    class Iterator
      # Value that ends a callable list.
      Stop = "EM::Stop"

      # Passed to the work; its call ends the item.
      class Step
        def initialize(&over)
          @over = over
        end

        # Ends the item.
        # @param result [Object] the item's, for {Iterator#map} and {Iterator#inject}
        def next(*result)
          raise "already completed this iteration" unless @over

          over = @over
          @over = nil
          over.call(*result)
        end
        alias return next
        alias call next
      end

      # @return [Integer]
      attr_reader :concurrency

      # @param list [#to_a, #call] the items, or a callable that returns the next item or {Stop}
      # @param concurrency [Integer] the number of items at a time
      def initialize(list, concurrency = 1)
        raise ArgumentError, "concurrency must be greater than 0" unless concurrency.positive?

        @source = list.respond_to?(:call) ? list : nil
        @items = list.to_a.dup unless @source
        @concurrency = concurrency
        @pending = 0
        @state = :fresh
      end

      # @param number [Integer] also for a running iteration
      def concurrency=(number)
        @concurrency = number
        EventMachine.next_tick { fill }
      end

      # @param work [#call] called with an item and a {Step}
      # @param after [#call, nil] called at the end
      # @return [self]
      def each(work = nil, after = nil, &block) = start(work || block, after) { nil }

      # @param work [#call] called with an item and a {Step}, whose `return` takes the result
      # @param after [#call] called with the results, in the items' order
      # @return [self]
      def map(work, after)
        results = []
        start(work, -> { after.call(results) }) { |index, result| results[index] = result }
      end

      # @param object [Object]
      # @param work [#call] called with object, item and {Step}; `step.return(object)` goes on
      # @param after [#call] called with the last object
      # @return [self]
      def inject(object, work, after)
        start(->(item, step) { work.call(object, item, step) }, -> { after.call(object) }) { |_, result| object = result }
      end

      private

      def start(work, after, &result)
        raise ArgumentError, "proc or block required for iteration" unless work
        raise "cannot iterate over an iterator more than once" unless @state == :fresh

        @state = :started
        @index = -1
        @begin = lambda do |item|
          index = @index += 1
          @pending += 1
          work.call(item, Step.new { |*values| finish(index, *values, &result) })
        end
        @after = after
        EventMachine.next_tick { fill }
        self
      end

      def finish(index, *values)
        yield(index, *values)
        EventMachine.next_tick do # one item a tick: the reactor runs between items whose work ends at once
          @pending -= 1
          fill
        end
      end

      def fill
        while @state == :started && @pending < @concurrency
          item = next_item
          Stop.equal?(item) ? @state = :listed : @begin.call(item)
        end
        return unless @state == :listed && @pending.zero?

        @state = :ended
        @after&.call
      end

      def next_item
        return @source.call if @source

        @items.empty? ? Stop : @items.shift
      end
    end
  end
end
