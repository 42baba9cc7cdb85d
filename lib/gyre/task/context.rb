# frozen_string_literal: true

# What a task hands on to the children that it starts: its deadline and its values. Never changed: setting
# something makes a new one, so parent and children share one until they differ, and a task without any of it has none.

module Gyre
  class Task
    # @api private
    class Context
      # @return [Deadline, nil] the innermost one
      attr_reader :deadline
      # @return [Hash, nil] frozen
      attr_reader :values

      # @param deadline [Deadline, nil]
      # @param values [Hash, nil]
      def initialize(deadline, values)
        @deadline = deadline
        @values = values
      end

      # @param context [Context, nil]
      # @param deadline [Deadline, nil]
      # @return [Context, nil] the same values with another deadline
      def self.with_deadline(context, deadline)
        values = context&.values
        new(deadline, values) if deadline || values
      end

      # @param context [Context, nil]
      # @return [Context] the same deadline, and one value more or another one
      def self.with_value(context, key, value)
        new(context&.deadline, (context&.values || {}).merge(key => value).freeze)
      end
    end
  end
end
