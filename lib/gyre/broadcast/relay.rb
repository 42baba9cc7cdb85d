# frozen_string_literal: true

# Carries what is published to other processes, and what they publish to Gyre::Broadcast. A message
# becomes an Array of JSON values with its process and number: it may come on several ways, and
# counts once. A worker attaches the link to its supervisor. Knows no subscribers.

require "json"
require "securerandom"

module Gyre
  module Broadcast
    # @api private
    module Relay
      # Longest encoded message.
      BYTES_LIMIT = 16 << 20
      # Processes whose last numbers are kept.
      ORIGINS_LIMIT = 1000
      private_constant :ORIGINS_LIMIT

      @lock = Thread::Mutex.new
      @carriers = []
      @numbers = {} # last numbers of other processes

      class << self
        # `carrier` takes encoded messages (`offer`, see Outbox), in this process only.
        def attach(carrier)
          @lock.synchronize do
            renew unless @pid == Process.pid
            @carriers |= [carrier]
          end
        end

        # Whether messages go to other processes.
        def attached? = @carriers.any? && @pid == Process.pid

        # Sends a message to all other processes.
        def send(kind, topic, data, options)
          @lock.synchronize do
            text = JSON.generate([@origin, @number + 1, kind, topic, data, options])
            raise ArgumentError, "a message of #{text.bytesize} bytes is too long for other processes" if text.bytesize > BYTES_LIMIT

            @number += 1
            @carriers.each { |carrier| carrier.offer(text) }
          end
        end

        # Takes a decoded message of another process. Drops one that has come before.
        def receive(message)
          origin, number, kind, topic, data, options = message
          return unless @lock.synchronize { new?(origin, number) } && Broadcast.respond_to?(:arrived)

          Broadcast.arrived(kind, topic, data, options.transform_keys(&:to_sym))
        end

        private

        # A forked child is another process, and its parent's carriers are not its own.
        def renew
          @pid = Process.pid
          @origin = SecureRandom.alphanumeric(12)
          @number = 0
          @carriers = []
        end

        def new?(origin, number)
          return false if origin == @origin || number <= (@numbers.delete(origin) || 0).tap { |last| @numbers[origin] = last }

          @numbers[origin] = number
          @numbers.shift if @numbers.size > ORIGINS_LIMIT
          true
        end
      end
    end
  end
end
