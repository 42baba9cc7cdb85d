# frozen_string_literal: true

# Carries messages between this process and others, for Gyre::Broadcast. A message is a JSON Array.
# It begins with the sending process's name and that process's number for the message, by which
# duplicates are recognized. Knows no subscribers.

require "gyre/broadcast/unloaded"
require "json"
require "securerandom"

module Gyre
  module Broadcast
    module Relay
      # Maximum bytes of an encoded message.
      BYTES_LIMIT = 16 << 20
      # Maximum processes whose last message number is remembered.
      ORIGINS_LIMIT = 1000
      private_constant :ORIGINS_LIMIT

      @lock = Thread::Mutex.new
      @arrivals = Thread::Mutex.new # keeps a publisher's messages in order, whichever way they come
      @carriers = []
      @inherited = [] # carriers that forked children use too
      @numbers = {} # name of another process => number of its last message

      class << self
        # Adds a carrier, whose `offer` takes encoded messages (see Outbox). If it is inherited,
        # forked children also use it, after they have called its `start`.
        def attach(carrier, inherited: false)
          @lock.synchronize do
            renew unless @pid == Process.pid
            @inherited += [carrier] if inherited
            @carriers += [carrier]
          end
        end

        # Starts inherited carriers. Returns whether messages go to other processes.
        def attached?
          @lock.synchronize { renew unless @pid == Process.pid }
          @inherited.each(&:start)
          @carriers.any?
        end

        # Sends a message. Returns this process's name and the message's number.
        def send(kind, topic, data, options)
          @lock.synchronize do
            text = @carriers.any? ? JSON.generate([@origin, @number + 1, kind, topic, data, options]) : ""
            raise ArgumentError, "a message of #{text.bytesize} bytes is too long for other processes" if text.bytesize > BYTES_LIMIT

            @number += 1
            @carriers.each { |carrier| carrier.offer(text) }
            [@origin, @number]
          end
        end

        # Passes on another process's message, unless it has come before.
        def receive(message)
          origin, number, kind, topic, data, options = message
          @arrivals.synchronize do
            next unless new?(origin, number) && Broadcast.respond_to?(:arrived)

            Broadcast.arrived(kind, topic, data, options.transform_keys(&:to_sym), origin, number)
          end
        end

        private

        # Starts over in a forked child, with the inherited carriers only.
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
