# frozen_string_literal: true

# A task's deadlines and values, inherited by children. Immutable, so that a parent and its children
# can share a context. A change makes a new context.

module Gyre
  class Task
    class Context
      attr_reader :run
      attr_reader :deadline
      attr_reader :values

      def initialize(run, deadline = nil, values = {}.freeze)
        @run = run
        @deadline = deadline
        @values = values
      end

      def with_deadline(deadline) = deadline.equal?(@deadline) ? self : Context.new(@run, deadline, @values)

      def with_value(key, value) = Context.new(@run, @deadline, @values.merge(key => value).freeze)

      # Returns all deadlines, the innermost first.
      def deadlines
        list = []
        deadline = @deadline
        while deadline
          list << deadline
          deadline = deadline.outer
        end
        list
      end

      # Of several deadlines with the same end returns the outermost.
      def nearest_deadline = deadlines.select(&:binding?).reverse.min_by(&:at)

      def under?(deadline) = deadlines.any? { |one| one.equal?(deadline) }
    end
  end
end
