# frozen_string_literal: true

# Commands that are sent before the replies of earlier ones are waited for: batches
# (Client#pipeline, Client#quiet) and promises (Client#async). The client makes them; there is no
# thread behind a promise.

require "gyre/sync/promise"

module Gyre
  module Memcached
    # A batch: has the client's methods for one key.
    class Pipeline
      # What it has.
      METHODS = %i[get gat touch get_cas get_with_metadata set set_cas add replace replace_cas append prepend incr decr delete delete_cas].freeze

      # @api private
      def initialize(client)
        @client = client
        @calls = []
      end

      METHODS.each do |name|
        define_method(name) do |*arguments|
          @calls << @client.start(name, arguments, :hold)
          self
        end
      end

      # @return [Array<Object>]
      # @api private
      def results
        error = nil
        results = @calls.map do |command, call|
          @client.finish(command, call)
        rescue Error => failure
          error ||= failure
          nil
        end
        error ? raise(error) : results
      end

      # @api private
      def keep(command, call)
        @calls << [command, call]
      end

      # Waits for all; what has failed is not reported.
      # @api private
      def settle
        @calls.each do |_, call|
          call.value
        rescue Error, Server::Failed
          nil
        end
      end
    end

    # The client's methods; each returns a promise at once.
    class Async
      METHODS = %i[fetch get_multi get_multi_cas set_multi delete_multi cas cas! fetch_with_lock flush stats version].freeze

      # @api private
      def initialize(client)
        @client = client
      end

      Pipeline::METHODS.each do |name|
        define_method(name) do |*arguments|
          next later { @client.public_send(name, *arguments) } if Fiber.current_scheduler

          command, call = @client.start(name, arguments, :send)
          Deferred.new { @client.finish(command, call) }
        end
      end

      METHODS.each do |name|
        define_method(name) do |*arguments, **keywords, &block|
          later { @client.public_send(name, *arguments, **keywords, &block) }
        end
      end

      private

      def later(&work)
        return Deferred.new(&work) unless Fiber.current_scheduler

        promise = Promise.new
        Fiber.schedule do
          promise.resolve(work.call)
        rescue StandardError => error
          promise.reject(error)
        ensure
          promise.reject(Stop.new("the fiber of a memcached command was stopped")) if promise.pending?
        end
        promise
      end
    end

    # A promise of a thread without a loop: the thread that waits for it reads the reply.
    class Deferred < Promise
      # @api private
      def initialize(&work)
        super()
        @work = work
        @lock = Thread::Mutex.new
      end

      # Waits for the value.
      # @param timeout [Numeric, nil] seconds
      # @return [Object]
      # @raise [Error] what the command failed with
      # @raise [TimeoutError] when there is neither in time
      def wait(timeout: nil)
        return super unless pending? && @lock.try_lock

        begin
          timeout ? Timeout.timeout(timeout, TimeoutError, "no value after #{timeout} s") { take } : take
        ensure
          @lock.unlock
        end
        super
      end

      private

      def take
        resolve(@work.call)
      rescue TimeoutError
        raise
      rescue StandardError => error
        reject(error)
      end
    end
  end
end
