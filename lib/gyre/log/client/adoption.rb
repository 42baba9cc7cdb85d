# frozen_string_literal: true

# Sends what ended processes of the same service left in their spools, with their own client ids, so that the server knows what it
# has already. Started by a Gyre::Log::Sender when it has a connection; one connection and one spool at a time. What cannot be sent
# now stays for the next time.

require "gyre/log/errors"

module Gyre
  module Log
    # See the head of this file.
    class Adoption
      # The adopted records have no client; nothing is logged here.
      EMPTY_BYTES = 1
      private_constant :EMPTY_BYTES

      # @param settings [Settings]
      # @param implementation [Class] of outboxes
      # @yield when it has ended
      # @return [Adoption]
      def self.start(settings, implementation, &ended)
        new(settings, implementation, ended)
      end

      def initialize(settings, implementation, ended)
        @settings = settings
        @implementation = implementation
        @ended = ended
        @running = true
        @thread = Thread.new { run }
        @thread.name = "gyre log adoption"
      end

      # @return [Boolean]
      def running?
        @running && @thread.alive? # it may be killed before it has begun
      end

      # @return [void]
      def stop
        @stopped = true
        @sender&.close(0)
        @thread.join
      end

      # In a forked child: the thread is the parent's, and so are the spools.
      # @return [void]
      def abandon
        @sender&.abandon
        @spool&.close
      end

      private

      def run
        @settings.each_orphan do |spool|
          @spool = spool
          break if @stopped

          outbox = @implementation.new(@settings.address.service, EMPTY_BYTES, @settings.record_limit, @settings.acknowledged != true)
          @sender = Sender.new(@settings, outbox, spool: spool)
          @sender.close(@stopped ? 0 : Float::INFINITY)
          @sender.run
          break unless @sender.done?
        end
      rescue *FAULTS => error
        @settings.report.call("spools that were left behind cannot be sent: #{error.message}")
      ensure
        @spool&.close
        @running = false
        @ended.call
      end
    end
  end
end
