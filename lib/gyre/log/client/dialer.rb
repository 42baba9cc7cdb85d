# frozen_string_literal: true

# Connects a log client, and reconnects with growing pauses. Each attempt runs in a thread, because
# name resolution and handshakes block. Belongs to one Gyre::Log::Delivery.

require "gyre/net/backoff"
require "gyre/log/client/server_connection"

module Gyre
  module Log
    class Dialer
      # Seconds to wait for the server before records go to disk.
      GRACE_S = 0.25
      # Maximum seconds that an attempt may delay the exit.
      ATTEMPT_END_S = 1.0

      attr_reader :reconnects # connections after the first
      attr_reader :connected_at
      attr_reader :retry_at # when the next attempt begins

      # Calls the block after each attempt, in the attempt's thread.
      def initialize(options, adopted, &ended)
        @options = options
        @adopted = adopted
        @ended = ended
        @results = Thread::Queue.new
        @reconnects = 0
        @attempt = @connected_at = nil
        @backoff = Backoff.new(*options.retry_interval.minmax, jitter: 0.25)
        restart
      end

      def failures = @backoff.failures

      def adopted? = @adopted

      def restart
        @backoff.succeeded
        @refused = false
        @retry_at = Clock.now
        @graceful_until = @retry_at + GRACE_S
      end

      # Makes the next attempt start at once. Any thread may call this method.
      def hurry = @hurry = true

      # Starts an attempt when due. Returns a new connection or nil; raises an attempt's error.
      def connection(identity)
        if @results.empty?
          attempt(identity) if @attempt.nil? && (@hurry || Clock.now >= @retry_at)
          return
        end
        @attempt = nil
        result = @results.pop(true)
        raise result if result.is_a?(Exception)

        @reconnects += 1 if @connected_at
        @connected_at = Clock.now
        result
      end

      def succeeded = @backoff.succeeded

      # Handles a lost connection or a failed attempt. `at_once` permits a retry without a pause.
      def failed(refused:, at_once:)
        now = Clock.now
        lasted = failures.zero? && @connected_at && now - @connected_at > GRACE_S
        @refused = refused
        @graceful_until = now + GRACE_S
        @retry_at = now + (lasted && at_once ? 0 : pause_s)
        @backoff.failed
      end

      # Seconds to pause: doubled after each failure, near the maximum after a refusal. Partly
      # random, so that the clients of a server do not all try at once.
      def pause_s = @refused ? @options.retry_interval.max * (0.75 + (rand / 4)) : @backoff.pause_s

      # Seconds until an attempt is due; nil while an attempt runs.
      def left = (@retry_at - Clock.now unless @attempt)

      # Seconds that records may still stay in memory. If 0 or less, they go to disk.
      def grace_left = failures.zero? ? @graceful_until - Clock.now : 0

      # Ends the attempt. A running name resolution ends later, because it cannot be interrupted.
      def stop
        @attempt&.kill&.join(ATTEMPT_END_S)
        @attempt = nil
        @results.pop.then { |result| result.close if result.is_a?(ServerConnection) } until @results.empty?
      end

      private

      def attempt(identity)
        @hurry = false
        @attempt = Thread.new(@results) do |results|
          results << Thread.handle_interrupt(Object => :immediate) do
            ServerConnection.open(@options.address, identity, old: @options.acknowledged != true, adopted: @adopted)
          end
        rescue *FAULTS => error
          results << error
        ensure
          @ended.call
        end
        @attempt.name = "gyre log connect"
      rescue ThreadError
        raise if Thread.main.alive?

        @retry_at = Clock.now + 60 # the process ends, and cannot make threads any more
      end
    end
  end
end
