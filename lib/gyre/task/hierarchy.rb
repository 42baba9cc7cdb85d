# frozen_string_literal: true

# A task and what is below it as text, one line for each, indented like a tree:
#
#   main: running
#   ├── fetch: running (GET /index.html)
#   │   └── task at crawler.rb:12: running
#   └── clock: running, transient
#
# Gyre::Task#print_hierarchy prints it. Goes by a list of its own and not by recursion: a fiber's stack is small.

module Gyre
  class Task
    # @api private
    class Hierarchy
      # @param task [Task] the topmost one
      def initialize(task)
        @task = task
      end

      # @yieldparam line [String]
      def each_line
        pending = [[@task, "", ""]]
        until pending.empty?
          task, indent, indent_below = pending.pop
          yield "#{indent}#{describe(task)}"
          children = task.children
          last = children.last
          pending.concat(children.reverse.map do |child|
            branch, below = child.equal?(last) ? ["└── ", "    "] : ["├── ", "│   "]
            [child, indent_below + branch, indent_below + below]
          end)
        end
      end

      private

      def describe(task)
        line = "#{task.label}: #{task.status}"
        line << ", transient" if task.transient?
        line << " (#{task.annotation})" if task.annotation
        line
      end
    end
  end
end
