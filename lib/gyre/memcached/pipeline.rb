# frozen_string_literal: true

# Sends commands before earlier replies have come: batches (Client#pipeline), promises
# (Client#async). Methods are defined from text, because a Ractor cannot call methods that a block
# defines.

require "gyre/sync/promise"

module Gyre
  module Memcached
    # Has the client's methods for one key. Collects their commands; {Client#pipeline} sends them.
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
      METHODS = [*Pipeline::METHODS, :fetch, :get_multi, :get_multi_cas, :set_multi, :delete_multi, :cas, :cas!, :fetch_with_lock, :flush,
                 :stats, :version].freeze

      def initialize(client)
        @client = client
      end

      METHODS.each do |name|
        class_eval <<~RUBY, __FILE__, __LINE__ + 1
          def #{name}(*arguments, **keywords, &block)                     # def get(*arguments, **keywords, &block)
            arguments = copies(arguments)                                 #   arguments = copies(arguments)
            later { @client.#{name}(*arguments, **keywords, &block) }     #   later { @client.get(*arguments, **keywords, &block) }
          end                                                             # end
        RUBY
      end

      private

      # Copies Strings, because callers may change them before the thread begins.
      def copies(arguments) = arguments.map { |each| each.is_a?(String) ? each.dup : each }

      # Runs `work` in a fiber, or in a thread if no scheduler is set.
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
  end
end
