# frozen_string_literal: true

# Sends what ended processes of the same service left in their spools, with their own client ids, so
# that the server drops what it has already. Started by a Gyre::Log::Sender when it has a
# connection; one connection and one spool at a time. What cannot be sent now stays for the next
# time.

require "gyre/clock"
require "gyre/log/errors"

module Gyre
  module Log
    # See the head of this file.
    class Adoption
      # The adopted records have no client; nothing is logged here.
      EMPTY_BYTES = 1
      private_constant :EMPTY_BYTES

      # @param options [ClientOptions]
      # @yield when it has ended
      def initialize(options, &ended)
        @options = options
        @ended = ended
        @thread = nil
      end

      # Begins in a thread of its own, unless that still runs.
      def start
        @next_at = Clock.now + @options.adoption_interval
        return if running?

        @running = true
        @stopped = false
        @thread = Thread.new { run }
        @thread.name = "gyre log adoption"
      end

      # @return [Float] seconds until it is to be started again
      def left = @next_at - Clock.now

      # @return [Boolean]
      def running?
        (@running && @thread&.alive?) || false # it may be killed before it has begun
      end

      def stop
        @stopped = true
        @sender&.close(0)
        @thread&.join
      end

      # In a forked child: the thread is the parent's, and so are the spools.
      def abandon
        @sender&.abandon
        @spool&.close
      end

      private

      def run
        @options.each_orphan do |spool|
          @spool = spool
          break if @stopped

          outbox = Outbox.new(@options.address.service, EMPTY_BYTES, @options.record_limit, @options.acknowledged != true)
          @sender = Sender.new(@options, outbox, spool: spool)
          @sender.close(@stopped ? 0 : Float::INFINITY)
          @sender.run
          break unless @sender.done?
        end
      rescue *FAULTS => error
        @options.report.call("spools that were left behind cannot be sent: #{error.message}")
      ensure
        @spool&.close
        @sender = @spool = nil
        @running = false
        @ended.call
      end
    end
  end
end
