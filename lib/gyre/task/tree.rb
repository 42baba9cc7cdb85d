# frozen_string_literal: true

# How tasks hang together: each knows its parent, its newest child, and the siblings next to it, so that starting and
# ending a child allocates nothing.
#
#   parent ──@newest_child──► c3 ──@older──► c2 ──@older──► c1
#                             c3 ◄──@newer── c2 ◄──@newer── c1
#
# Part of Gyre::Task; knows nothing of fibers.

module Gyre
  class Task
    # @api private
    module Tree
      # @return [Array<Task>] the children that are not over yet, the oldest first
      def children
        list = []
        child = newest_child
        while child
          list << child
          child = child.older
        end
        list.reverse!
      end

      # @return [Array<Task>] this task and all below it; children come before their parents, younger before older ones
      def family(spare_deferring: false)
        list = [self]
        index = 0
        while (task = list[index])
          list.concat(task.children) if task.children? && !(spare_deferring && task.deferring?)
          index += 1
        end
        list.reverse!
      end

      protected

      attr_reader :newest_child, :older
      attr_writer :newer, :older

      def plant
        @newest_child = @newer = @older = nil
        @needed_count = 0 # children that are not transient
      end

      def adopt(child)
        child.older = @newest_child
        @newest_child.newer = child if @newest_child
        @newest_child = child
        @needed_count += 1 unless child.transient?
      end

      def disown(child)
        child.unlink(self)
        @needed_count -= 1 unless child.transient?
      end

      # When an exception may have kept it from being counted right.
      def count_children
        @needed_count = children.count { |child| !child.transient? }
      end

      def unlink(parent)
        @older.newer = @newer if @older
        @newer ? @newer.older = @older : parent.newest_child_gone(@older)
        @newer = @older = nil
      end

      def newest_child_gone(older)
        @newest_child = older
      end

      def children?
        !@newest_child.nil?
      end

      def needed_children?
        @needed_count.positive?
      end
    end
  end
end
