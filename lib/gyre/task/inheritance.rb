# frozen_string_literal: true

# What a task has from its parent and hands on to its children: values of its own, and deadlines. Part of Gyre::Task;
# the rules of deadlines are in deadline.rb.

module Gyre
  class Task
    # @api private
    module Inheritance
      # A value of this task. Children start with those that their parent has at that moment; what a task sets itself, its
      # parent and its siblings do not see.
      #
      # @param key [Object]
      # @return [Object, nil]
      def [](key)
        values = @context&.values
        values && values[key]
      end

      # @param key [Object]
      # @param value [Object]
      def []=(key, value)
        @context = Context.with_value(@context, key, value)
      end

      # @param key [Object]
      # @return [Boolean] whether it has been set, be it to nil
      def key?(key)
        @context&.values&.key?(key) || false
      end

      # The deadline that passes first of all that the task is under.
      # @return [Deadline, nil]
      def deadline
        nearest = nil
        deadline = @context&.deadline
        while deadline
          nearest = deadline if deadline.binding? && (nearest.nil? || deadline.at <= nearest.at)
          deadline = deadline.outer
        end
        nearest
      end

      # @return [Context, nil]
      # @api private
      attr_accessor :context

      # @param deadline [Deadline]
      # @return [Array<Task>] the children that were started under it
      # @api private
      def children_under(deadline)
        children? ? children.select { |child| child.under?(deadline) } : []
      end

      # @param deadline [Deadline] one that has passed
      # @api private
      def stop_those_under(deadline)
        children_under(deadline).each { |child| child.stop_late(deadline) }
      end

      protected

      def under?(deadline)
        own = @context&.deadline
        own = own.outer until own.nil? || own.equal?(deadline)
        !own.nil?
      end

      private

      def inheritance(transient)
        transient && @context.deadline ? Context.with_deadline(@context, nil) : @context
      end
    end
  end
end
