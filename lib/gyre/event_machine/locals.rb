# frozen_string_literal: true

# The fiber-locals (Thread.current[:name]) that all callbacks of a reactor share, as in
# EventMachine, where callbacks run in the fiber that called EM.run. Here they run in several
# fibers: before a callback its fiber gets what others have changed, and afterwards its own changes
# are kept.

module Gyre
  module EventMachine
    # @api private
    class Locals
      # The fiber-local that holds the values which its fiber has got.
      LOADED = :gyre_reactor_locals
      OWN = [:gyre_task, LOADED].freeze # of the fiber itself
      private_constant :LOADED, :OWN

      # Called by the fiber that calls EM.run.
      def initialize
        @values = Thread.current[LOADED] = present
      end

      # Returns what {leave} compares with.
      def enter
        load unless @values.equal?(Thread.current[LOADED])
        @values
      end

      # Keeps the changes since `enter`. A callback that has waited overwrites nothing else.
      def leave(before)
        return if before.empty? && Thread.current.keys.size <= OWN.size

        now = present
        gone = before.keys - now.keys
        now.reject! { |key, value| value.equal?(before[key]) }
        return if gone.empty? && now.empty?

        alone = @values.equal?(before)
        @values = @values.except(*gone).merge(now)
        Thread.current[LOADED] = @values if alone
      end

      # Called by the fiber that called EM.run.
      def finish
        load
        Thread.current[LOADED] = nil
      end

      private

      def present = (Thread.current.keys - OWN).to_h { |key| [key, Thread.current[key]] }

      def load
        (present.keys - @values.keys).each { |key| Thread.current[key] = nil }
        @values.each { |key, value| Thread.current[key] = value }
        Thread.current[LOADED] = @values
      end
    end
  end
end
