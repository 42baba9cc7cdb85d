# frozen_string_literal: true

# One restart at a time: the current one, the last one's result, the next request. For the
# supervisor.

require "gyre/sync/promise"

module Gyre
  module Web
    module Cluster
      class Restarts
        # A restart after the current one.
        Waiting = Struct.new(:kind, :promise, :block)
        # Unwanted ends of workers with new code, after which a restart fails.
        DEATHS_LIMIT = 3

        attr_reader :last # the last restart: kind:, state: (:running, :done, :failed), error:
        attr_accessor :target # which load of the code it is to bring

        # The block runs after each restart.
        def initialize(log, &over)
          @log = log
          @over = over
        end

        def running? = !@promise.nil?

        # The Promise has nil or a failure's reason.
        def begin(kind, promise = Promise.new)
          @last = { kind: kind, state: :running, error: nil }
          @target = nil
          @deaths = 0
          @promise = promise
        end

        # All requests during a restart share one further restart, as the current one may have read
        # the code already. A hot restart includes a rolling one.
        # `block` begins it.
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

        # A worker has ended unwanted; `generation`: the load of its code.
        def worker_died(generation, reason)
          return unless running? && generation == @target

          @deaths += 1
          finish("workers with the new code end, and the others keep that of before: #{reason}") if @deaths == DEATHS_LIMIT
        end

        # `error`: a failure's reason.
        def finish(error = nil)
          return unless running?

          @last.update(state: error ? :failed : :done, error: error)
          name = @last[:kind].to_s.capitalize
          error ? @log.error("#{name} restart: #{error}") : @log.info("#{name} restart: all workers run the new code")
          promise, @promise = @promise, nil
          @over&.call
          promise.resolve(error)
        end

        # Ends the current restart and the pending one.
        def give_up(reason)
          finish(reason)
          take_waiting&.promise&.resolve(reason)
        end

        def self.refused(reason) = Promise.new.tap { |promise| promise.resolve(reason) }
      end
    end
  end
end
