# frozen_string_literal: true

# EventMachine.defer and ThreadedResource: threads for blocking work. The reactor gets the results.

module Gyre
  module EventMachine
    @threadpool_size = 20
    @deferred_results = 0

    class << self
      attr_accessor :threadpool_size
      attr_reader :threadpool

      # Runs an operation in a thread. Then `callback` gets the result, or `errback` the exception,
      # in the reactor's thread.
      def defer(operation = nil, callback = nil, errback = nil, &block)
        spawn_threadpool unless @threadpool && @threads_pid == Process.pid # a fork has no threads
        @threadqueue << [operation || block, callback, errback, reactor]
        nil
      end

      # True if no deferred work is left.
      def defers_finished?
        !@threadpool || (@threadqueue.empty? && @deferred_results.zero? && @threadqueue.num_waiting == @threadpool.size)
      end

      # Starts the threads of `defer`.
      def spawn_threadpool
        @threads_pid = Process.pid
        @threadqueue = Thread::Queue.new
        @threadpool = Array.new(@threadpool_size.to_i) { Thread.new(@threadqueue) { |queue| work(queue) } }
      end

      # Called at the reactor's end.
      def stop_threads
        return if @threads_apart # other reactors use them

        threads, @threadpool = @threadpool, nil
        threads&.each(&:kill)
        threads&.each { |thread| thread.join(0.1) }
        @threadqueue = nil
      end

      private

      def work(queue)
        while (operation, callback, errback, reactor = queue.pop)
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

    # An object that only one thread uses.
    class ThreadedResource
      # @yieldreturn [Object] the resource
      def initialize
        @resource = yield
        @jobs = Thread::Queue.new
        @thread = Thread.new { EventMachine.__send__(:work, @jobs) }
      end

      # @yieldparam resource [Object] in the resource's thread
      # @return [Completion] succeeds with the block's value, fails with its exception
      def dispatch
        completion = Completion.new
        @jobs << [-> { yield @resource }, completion.method(:succeed), completion.method(:fail), EventMachine.reactor]
        completion
      end

      # Ends the thread after pending calls.
      # @return [Thread]
      def shutdown
        @jobs.close
        @thread.join
      end
    end
  end
end
