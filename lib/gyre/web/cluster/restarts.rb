# frozen_string_literal: true

# One restart at a time: which is under way, how the last one ended, and the one that was asked for
# meanwhile. The supervisor begins and ends them; it restarts nothing by itself.

require "gyre/sync/promise"

module Gyre
  module Web
    module Cluster
      # See the head of this file.
      class Restarts
        # A restart that begins when the present one is over.
        Waiting = Struct.new(:kind, :promise, :block)
        # So many workers with the new code may end before the restart has failed.
        DEATHS_LIMIT = 3
        private_constant :Waiting, :DEATHS_LIMIT

        # @return [Hash{Symbol => Object}, nil] the last one: kind:, state: (:running, :done,
        #   :failed), error:
        attr_reader :last
        # @return [Integer, nil] which load of the code it is to bring
        attr_accessor :target

        # @param log [#info, #error]
        # @yield when one is over, whether it was done or not
        def initialize(log, &over)
          @log = log
          @over = over
        end

        # @return [Boolean]
        def running? = !@promise.nil?

        # @param kind [Symbol]
        # @param promise [Gyre::Promise]
        # @return [Gyre::Promise] of nil when it is done, or of the reason why it is not
        def begin(kind, promise = Promise.new)
          @last = { kind: kind, state: :running, error: nil }
          @target = nil
          @deaths = 0
          @promise = promise
        end

        # Keeps one that was asked for while another one runs, which may have read the code already.
        # One restart serves all requests for it; a hot one includes a rolling one.
        #
        # @param kind [Symbol]
        # @param block [Proc] begins it
        # @return [Gyre::Promise] as of {#begin}
        def remember(kind, block)
          @log.info("#{kind.to_s.capitalize} restart: it begins when the present one is over")
          promise = @waiting ? @waiting.promise : Promise.new
          @waiting = Waiting.new(kind, promise, block) unless @waiting&.kind == :hot
          promise
        end

        # @return [Waiting, nil] what is to begin now
        def take_waiting
          return if running?

          @waiting.tap { @waiting = nil }
        end

        # A worker has ended that was to go on.
        #
        # @param generation [Integer] which load of the code it had
        # @param reason [String]
        # @return [void]
        def worker_died(generation, reason)
          return unless running? && generation == @target

          @deaths += 1
          finish("workers with the new code end, and the others keep that of before: #{reason}") if @deaths == DEATHS_LIMIT
        end

        # @param error [String, nil] why it was not done
        # @return [void]
        def finish(error = nil)
          return unless running?

          @last.update(state: error ? :failed : :done, error: error)
          name = @last[:kind].to_s.capitalize
          error ? @log.error("#{name} restart: #{error}") : @log.info("#{name} restart: all workers run the new code")
          promise, @promise = @promise, nil
          @over&.call
          promise.resolve(error)
        end

        # Ends the present one and what waits.
        #
        # @param reason [String]
        # @return [void]
        def give_up(reason)
          finish(reason)
          take_waiting&.promise&.resolve(reason)
        end

        # @param reason [String]
        # @return [Gyre::Promise] of one that is not even begun
        def self.refused(reason) = Promise.new.tap { |promise| promise.resolve(reason) }
      end
    end
  end
end
