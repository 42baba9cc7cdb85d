# frozen_string_literal: true

# Connects a log client to its server, and connects again: each attempt has a thread of its own,
# since names and handshakes may take long, and the pause between attempts grows while they fail.
# Belongs to one Gyre::Log::Sender and its thread.

require "gyre/clock"
require "gyre/log/client/server_connection"

module Gyre
  module Log
    # See the head of this file.
    class Dialer
      # How long the server may take to answer before records go to the disk.
      GRACE_S = 0.25
      # How long an attempt to connect may delay the end.
      ATTEMPT_END_S = 1.0
      private_constant :GRACE_S, :ATTEMPT_END_S

      # @return [Integer] attempts that failed, one after the other
      attr_reader :failures
      # @return [Integer] connections behind the first one
      attr_reader :reconnects
      # @return [Float, nil] when the last connection was made (Clock.now)
      attr_reader :connected_at
      # @return [Float] when the next attempt begins
      attr_reader :retry_at

      # @param options [ClientOptions]
      # @param adopted [Boolean] whether the records are another process's
      # @yield in another thread, when an attempt has ended
      def initialize(options, adopted, &ended)
        @options = options
        @adopted = adopted
        @ended = ended
        @results = Thread::Queue.new
        @reconnects = 0
        @attempt = @connected_at = nil
        restart
      end

      # Forgets what has failed.
      def restart
        @failures = 0
        @refused = false
        @retry_at = Clock.now
        @graceful_until = @retry_at + GRACE_S
      end

      # Begins the next attempt at once; for any thread.
      def hurry
        @hurry = true
      end

      # Begins an attempt when it is time.
      #
      # @param identity [Identity, nil] nil for the old protocol
      # @return [ServerConnection, nil] a new connection; nil while there is none
      # @raise [StandardError] what the last attempt failed with
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

      # The connection has shown that it is good.
      def succeeded
        @failures = 0
      end

      # A connection was lost or could not be made.
      # @param refused [Boolean] by the server, which will hardly change its mind soon
      # @param at_once [Boolean] whether a good connection is replaced without a pause
      def failed(refused:, at_once:)
        now = Clock.now
        lasted = @failures.zero? && @connected_at && now - @connected_at > GRACE_S
        @refused = refused
        @graceful_until = now + GRACE_S
        @retry_at = now + (lasted && at_once ? 0 : pause_s)
        @failures += 1
      end

      # Twice as long each time, and never the same for all clients of a server.
      # @return [Float] seconds
      def pause_s
        shortest, longest = @options.retry_interval.minmax
        return longest * (0.75 + (rand / 4)) if @refused

        ([shortest * (2**[@failures, 16].min), longest].min * (0.75 + (rand / 2))).clamp(shortest, longest)
      end

      # @return [Float, nil] seconds until an attempt is due; nil while one runs
      def left
        @retry_at - Clock.now unless @attempt
      end

      # @return [Float] seconds in which records may stay in memory; 0 or less when they are over
      def grace_left = @failures.zero? ? @graceful_until - Clock.now : 0

      # Ends the present attempt. One that nothing interrupts (a name that is looked up) ends by
      # itself, later.
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

        @retry_at = Clock.now + 60 # the process ends, and makes no threads any more
      end
    end
  end
end
