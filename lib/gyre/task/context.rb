# frozen_string_literal: true

# What a task hands on to the children that it starts: its deadlines and its values. Never changed:
# setting something makes a new one, so parent and children share one until they differ.

module Gyre
  class Task
    class Context
      # @return [Deadline, nil] the innermost one
      attr_reader :deadline
      # @return [Hash] frozen
      attr_reader :values

      # @param deadline [Deadline, nil]
      # @param values [Hash] frozen
      def initialize(deadline, values)
        @deadline = deadline
        @values = values
      end

      # @param deadline [Deadline, nil]
      # @return [Context] the same values with another deadline
      def with_deadline(deadline)
        deadline.equal?(@deadline) ? self : Context.new(deadline, @values)
      end

      # @return [Context] the same deadline, and one value more or another one
      def with_value(key, value)
        Context.new(@deadline, @values.merge(key => value).freeze)
      end

      # @return [Array<Deadline>] the innermost first
      def deadlines
        list = []
        deadline = @deadline
        while deadline
          list << deadline
          deadline = deadline.outer
        end
        list
      end

      # @return [Deadline, nil] the one that passes first; of several, the outermost
      def nearest_deadline
        deadlines.select(&:binding?).reverse.min_by(&:at)
      end

      # @param deadline [Deadline]
      # @return [Boolean] whether it is one of these
      def under?(deadline)
        deadlines.any? { |one| one.equal?(deadline) }
      end

      # Of a task that has neither.
      NONE = new(nil, {}.freeze).freeze
    end
  end
end
