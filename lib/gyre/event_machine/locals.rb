# frozen_string_literal: true

# The fiber-locals (Thread.current[:name]) that all callbacks of a reactor share, as in
# EventMachine, where callbacks run in the fiber that called EM.run. Here they run in several
# fibers: before a callback its fiber gets what others have changed, and afterwards its own changes
# are kept.

module Gyre
  module EventMachine
    # @api private
    class Locals
      OWN = %i[gyre_task].freeze # of the fiber itself
      private_constant :OWN

      # Called by the fiber that calls EM.run.
      def initialize
        @fiber = Fiber.current
        @values = present
      end

      # Returns what {leave} compares with.
      def enter
        load unless @fiber.equal?(Fiber.current)
        @values
      end

      # Keeps the changes since `enter`. A callback that has waited overwrites nothing else.
      def leave(before)
        return if before.empty? && Thread.current.keys.size <= OWN.size

        now = present
        gone = before.keys - now.keys
        now.reject! { |key, value| value.equal?(before[key]) }
        return if gone.empty? && now.empty?

        @values = @values.except(*gone).merge(now)
        @fiber = nil unless @fiber.equal?(Fiber.current)
      end

      private

      def present = (Thread.current.keys - OWN).to_h { |key| [key, Thread.current[key]] }

      def load
        (present.keys - @values.keys).each { |key| Thread.current[key] = nil }
        @values.each { |key, value| Thread.current[key] = value }
        @fiber = Fiber.current
      end
    end
  end
end
