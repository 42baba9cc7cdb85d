# frozen_string_literal: true

# Sends the spools of ended processes, one at a time, under their client ids, so that the server
# skips records that it already has. Started by Gyre::Log::Delivery after it has connected.

require "gyre/log/errors"
require "gyre/sync/waiters"

module Gyre
  module Log
    class Adoption
      # Capacity of an outbox that stays empty, because adoption logs nothing.
      EMPTY_BYTES = 1

      def initialize(options, &ended)
        @options = options
        @ended = ended
        @thread = nil
      end

      def start
        @next_at = Clock.now + @options.adoption_interval
        return if running?

        @running = true
        @stopped = false
        @thread = Thread.new { run }
        @thread.name = "gyre log adoption"
      end

      def left = @next_at - Clock.now

      def running? = (@running && @thread&.alive?) || false # the thread may be killed before it has begun

      def stop
        @stopped = true
        @delivery&.wake
        @thread&.join
      end

      # Called in a forked child. Leaves thread and spools to the parent.
      def abandon
        @delivery&.abandon
        @spool&.close
      end

      private

      def run
        @options.each_orphan do |spool|
          @spool = spool
          break if @stopped

          outbox = Outbox.new(@options.address.service, EMPTY_BYTES, @options.record_limit, @options.acknowledged != true)
          @delivery = Delivery.new(@options, outbox, Waiters.new, Identity.of(spool.note), spool: spool, adopted: true) do
            @stopped ? 0 : Float::INFINITY
          end
          @delivery.deliver
          break unless @delivery.standing.done
        end
      rescue *FAULTS => error
        @options.report.call("left spools cannot be sent: #{error.message}")
      ensure
        @spool&.close
        @delivery = @spool = nil
        @running = false
        @ended.call
      end
    end
  end
end
