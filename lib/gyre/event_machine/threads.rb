# frozen_string_literal: true

# EventMachine.defer: threads for blocking work, whose results return to the reactor.

module Gyre
  module EventMachine
    @threadpool_size = 20

    class << self
      attr_accessor :threadpool_size
      attr_reader :threadpool

      # Runs an operation in a thread; the callback gets its result in the reactor, the errback an
      # exception.
      def defer(operation = nil, callback = nil, errback = nil, &block)
        spawn_threadpool unless @threadpool
        @threadqueue << [operation || block, callback, errback, reactor]
        nil
      end

      # True if no deferred work is left.
      def defers_finished?
        return true unless @threadpool

        @threadqueue.empty? && @deferred_results.zero? && @threadqueue.num_waiting == @threadpool.size
      end

      def spawn_threadpool
        @threadqueue = Thread::Queue.new
        @deferred_results = 0
        @threadpool = Array.new(@threadpool_size.to_i) { Thread.new(@threadqueue) { |queue| work(queue) } }
      end

      def stop_threads
        return if @threads_apart # other reactors use them

        threads, @threadpool = @threadpool, nil
        threads&.each(&:kill)
        threads&.each { |thread| thread.join(0.1) }
        @threadqueue = nil
      end

      private

      def work(queue)
        loop do
          operation, callback, errback, reactor = queue.pop
          begin
            report(reactor, callback, operation.call)
          rescue Exception => error # rubocop:disable Lint/RescueException -- raised again in the reactor
            report(reactor, errback || ->(raised) { raise raised }, error)
          end
        end
      end

      def report(reactor, callback, result)
        return unless callback

        @deferred_results += 1
        reactor.next_tick(lambda {
          @deferred_results -= 1
          callback.call(result)
        })
      end
    end
  end
end
