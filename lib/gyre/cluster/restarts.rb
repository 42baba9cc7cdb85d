# frozen_string_literal: true

# Keeps the supervisor's restarts: the current one, the last result and the next request.

require "gyre/sync/promise"

module Gyre
  module Cluster
    class Restarts
      # A restart that begins after the current one.
      Waiting = Struct.new(:kind, :promise, :block)
      # A restart fails when this number of workers with the new code have ended unexpectedly.
      DEATHS_LIMIT = 3

      attr_reader :last # the last restart: kind:, state: (:running, :done, :failed), error:
      attr_accessor :target # number of the load that the restart brings

      # The block runs after each restart.
      def initialize(log, &over)
        @log = log
        @over = over
      end

      def running? = !@promise.nil?

      # Returns a Promise of nil, or of the reason if the restart fails.
      def begin(kind, promise = Promise.new)
        @last = { kind: kind, state: :running, error: nil }
        @target = nil
        @deaths = 0
        @promise = promise
      end

      # Remembers one further restart, which all requests during the current one share; the
      # current one may have read the code already. A hot restart among the requests takes
      # precedence, because it includes a rolling one. `block` begins the further restart.
      def remember(kind, block)
        @log.info("#{kind.to_s.capitalize} restart: it begins when the present one is over")
        promise = @waiting ? @waiting.promise : Promise.new
        @waiting = Waiting.new(kind, promise, block) unless @waiting&.kind == :hot
        promise
      end

      def take_waiting
        return if running?

        @waiting.tap { @waiting = nil }
      end

      # Counts a worker's unexpected end. `generation`: which load of the app's code it ran.
      def worker_died(generation, reason)
        return unless running? && generation == @target

        @deaths += 1
        finish("workers with the new code end, and the others keep that of before: #{reason}") if @deaths == DEATHS_LIMIT
      end

      # Ends the current restart. `error`: the reason if it failed.
      def finish(error = nil)
        return unless running?

        @last.update(state: error ? :failed : :done, error: error)
        name = @last[:kind].to_s.capitalize
        error ? @log.error("#{name} restart: #{error}") : @log.info("#{name} restart: all workers run the new code")
        promise, @promise = @promise, nil
        @over&.call
        promise.resolve(error)
      end

      # Fails the current restart and the remembered one.
      def give_up(reason)
        finish(reason)
        take_waiting&.promise&.resolve(reason)
      end

      def self.refused(reason) = Promise.new.tap { |promise| promise.resolve(reason) }
    end
  end
end
