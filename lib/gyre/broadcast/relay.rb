# frozen_string_literal: true

# Carries messages between this and other processes for Gyre::Broadcast: as an Array of JSON values
# with process and number, as it may come on several ways and counts once. Knows no subscribers.

require "json"
require "securerandom"

module Gyre
  module Broadcast
    module Relay
      # Longest encoded message.
      BYTES_LIMIT = 16 << 20
      # Other processes with remembered numbers.
      ORIGINS_LIMIT = 1000
      private_constant :ORIGINS_LIMIT

      @lock = Thread::Mutex.new
      @arrivals = Thread::Mutex.new # keeps a publisher's messages in order, whichever way they come
      @carriers = []
      @inherited = [] # those also of forked children
      @numbers = {} # last numbers of other processes

      class << self
        # `carrier` takes encoded messages (`offer`, see Outbox). Forked children inherit it, for
        # use after `start`.
        def attach(carrier, inherited: false)
          @lock.synchronize do
            renew unless @pid == Process.pid
            @inherited += [carrier] if inherited
            @carriers += [carrier]
          end
        end

        # True if messages go to other processes. Called before a process's first message and
        # subscriber; starts the carriers.
        def attached?
          @lock.synchronize { renew unless @pid == Process.pid }
          @inherited.each(&:start)
          @carriers.any?
        end

        # Returns this process and the message's number.
        def send(kind, topic, data, options)
          @lock.synchronize do
            text = @carriers.any? ? JSON.generate([@origin, @number + 1, kind, topic, data, options]) : ""
            raise ArgumentError, "a message of #{text.bytesize} bytes is too long for other processes" if text.bytesize > BYTES_LIMIT

            @number += 1
            @carriers.each { |carrier| carrier.offer(text) }
            [@origin, @number]
          end
        end

        # Takes another process's message, unless it has come before.
        def receive(message)
          origin, number, kind, topic, data, options = message
          @arrivals.synchronize do
            next unless new?(origin, number) && Broadcast.respond_to?(:arrived)

            Broadcast.arrived(kind, topic, data, options.transform_keys(&:to_sym), origin, number)
          end
        end

        private

        # Starts over in a forked child, without the parent's carriers.
        def renew
          @pid = Process.pid
          @origin = SecureRandom.alphanumeric(12)
          @number = 0
          @carriers = @inherited
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
