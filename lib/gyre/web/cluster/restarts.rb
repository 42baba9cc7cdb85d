# frozen_string_literal: true

# One restart at a time: which is under way, how the last one ended, and what waits for its end. The
# supervisor begins and ends them; it restarts nothing by itself.

require "gyre/sync/promise"

module Gyre
  module Web
    module Cluster
      # See the head of this file.
      class Restarts
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
        # @return [Gyre::Promise] of nil when it is done, or of the reason why it is not
        def begin(kind)
          @last = { kind: kind, state: :running, error: nil }
          @target = nil
          @promise = Promise.new
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

        # @param reason [String]
        # @return [Gyre::Promise] of one that is not even begun
        def self.refused(reason) = Promise.new.tap { |promise| promise.resolve(reason) }
      end
    end
  end
end
