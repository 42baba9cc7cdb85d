# frozen_string_literal: true

# Commands without waiting for earlier replies: batches (Client#pipeline) and promises
# (Client#async). A single command's promise holds no thread. Methods are text, as Ractors call none
# defined by blocks.

require "gyre/clock"
require "gyre/sync/promise"

module Gyre
  module Memcached
    # Has the client's methods for one key; sends all commands after the block.
    class Pipeline
      METHODS = %i[get gat touch get_cas get_with_metadata set set_cas add replace replace_cas append prepend incr decr delete delete_cas].freeze

      attr_reader :commands

      def initialize(maker)
        @maker = maker
        @commands = []
      end

      METHODS.each do |name|
        class_eval <<~RUBY, __FILE__, __LINE__ + 1
          def #{name}(...)                          # def get(...)
            @commands << @maker.#{name}(...).keep   #   @commands << @maker.get(...).keep
            self                                    #   self
          end                                       # end
        RUBY
      end
    end

    class Async
      METHODS = %i[fetch get_multi get_multi_cas set_multi delete_multi cas cas! fetch_with_lock flush stats version].freeze

      def initialize(client)
        @client = client
      end

      Pipeline::METHODS.each do |name|
        class_eval <<~RUBY, __FILE__, __LINE__ + 1
          def #{name}(*arguments) = one(:#{name}, arguments)     # def get(*arguments) = one(:get, arguments)
        RUBY
      end

      METHODS.each do |name|
        class_eval <<~RUBY, __FILE__, __LINE__ + 1
          def #{name}(*arguments, **keywords, &block)                     # def fetch(*arguments, **keywords, &block)
            later { @client.#{name}(*arguments, **keywords, &block) }     #   later { @client.fetch(*arguments, **keywords, &block) }
          end                                                             # end
        RUBY
      end

      private

      def one(name, arguments)
        return later { @client.public_send(name, *arguments) } if Fiber.current_scheduler

        command = @client.command(name, *arguments)
        call = @client.start(command, :send)
        Deferred.new(command, call) { |promise| settle(promise) { @client.finish(command, call) } }
      rescue Error => error
        Promise.new.tap { |promise| promise.reject(error) }
      end

      # In a fiber; without a loop in a thread.
      def later(&work)
        promise = Promise.new
        Fiber.current_scheduler ? Fiber.schedule { settle(promise, &work) } : Thread.new { settle(promise, &work) }
        promise
      end

      def settle(promise)
        promise.resolve(yield)
      rescue StandardError => error
        promise.reject(error)
      ensure
        promise.reject(Stop.new("the fiber of a memcached command was stopped")) if promise.pending?
      end
    end

    # One command's promise without a loop: waiting threads read the reply.
    class Deferred < Promise
      def initialize(command, call, &again)
        super()
        @command = command
        @call = call
        @again = [again] # Array#pop is one step for all threads
      end

      # Raises the command's error, or TimeoutError.
      def wait(timeout: nil)
        return super unless pending?

        deadline = timeout && (Clock.now + timeout)
        take if @call.wait(timeout)
        super(timeout: deadline && (deadline - Clock.now))
      end

      private

      # Called by waiting threads; the first result counts. A failed call is repeated in its own
      # thread, which their exceptions cannot stop.
      def take
        resolve(@command.value(@call.value))
      rescue Server::Failed
        Thread.new { @again.pop&.call(self) }
      rescue Error => error
        reject(error)
      end
    end
  end
end
