# frozen_string_literal: true

# Prints a task and the tasks below it as an indented tree, with activity, age and place:
#
#   task "main": running [2.0 s old, app.rb:31]
#   ├── task "fetch" (GET /index.html): reading from fd 7 (127.0.0.1:80), 4.8 s left [0.2 s old, app.rb:12]
#   │   └── task at app.rb:17: waiting for a mutex that task "clock" holds [0.1 s old, app.rb:18]
#   └── task "clock": sleeping, 0.3 s left [transient, 2.0 s old, app.rb:24]
#
# Gyre.print_hierarchy also prints where the time has gone (Gyre::Loop.usage), the most CPU first.
#
# Called by Gyre::Task#print_hierarchy and Gyre.print_hierarchy. Only the tasks' own thread can find
# the mutexes' holders. Uses a list instead of recursion, as fibers' stacks are small.

require "gyre/inspection"

module Gyre
  # Prints all calls of Gyre.run on all threads, with their tasks' waits, ages and places. Works
  # anywhere, even in a trap handler. Shows the holders of mutexes only for the calling thread.
  # @param out [#puts]
  # @param backtrace [Boolean] prints backtraces, without Gyre's own lines
  # @return [nil]
  def self.print_hierarchy(out = $stderr, backtrace: false)
    Thread.list.each do |thread|
      scheduler = thread.thread_variable_get(:gyre_scheduler) or next
      next if scheduler.closed?

      out.puts "thread #{thread.name || (thread == Thread.main ? "main" : thread.inspect)}, #{scheduler.backend}:"
      Inspection::Hierarchy.new(scheduler, backtrace: backtrace).print_all(out)
    end
    nil
  end

  class Inspection
    # @api private
    class Hierarchy
      # @param scheduler [Scheduler]
      # @param backtrace [Boolean]
      def initialize(scheduler, backtrace: false)
        @backtrace = backtrace
        @scheduler = scheduler
        @inspection = Inspection.new(scheduler)
        @by_fiber = {}.compare_by_identity
        @inspection.waits.each { |wait| @by_fiber[wait.entered] = @by_fiber[wait.fiber] = wait }
      end

      # @param task [Task] the topmost
      # @param out [#puts]
      # @return [nil]
      def print(task, out)
        each_line(task) { |line| out.puts line }
        each_circle_line { |line| out.puts line }
        nil
      end

      # @param out [#puts]
      def print_all(out)
        print = ->(line) { out.puts "  #{line}" }
        @inspection.runs.each { |run| each_line(run.root, &print) }
        each_other_line(&print)
        each_circle_line(&print)
        each_usage_line(&print)
      end

      private

      # @yieldparam line [String]
      def each_line(task, &block)
        pending = [[task, "", ""]]
        until pending.empty?
          task, indent, indent_below = pending.pop
          children = task.children
          yield "#{indent}#{describe(task)}"
          each_frame(task.fiber, "#{indent_below}#{children.empty? ? "    " : "│   "}", &block) if @backtrace
          last = children.last
          pending.concat(children.reverse.map do |child|
            branch, below = child.equal?(last) ? ["└── ", "    "] : ["├── ", "│   "]
            [child, indent_below + branch, indent_below + below]
          end)
        end
      end

      # Yields a line for each waiting fiber without a task, such as a request's fiber.
      def each_other_line(&block)
        tasks = @inspection.tasks
        callers = @inspection.runs.map(&:fiber)
        @inspection.waits.each do |wait|
          next if wait.blocker.nil? || [wait.fiber, wait.entered].any? { |fiber| tasks.key?(fiber) || callers.include?(fiber) }

          yield "a fiber: #{@inspection.describe(wait)}#{" [#{wait.place}]" if wait.place}"
          each_frame(wait.fiber, "    ", &block) if @backtrace
        end
      end

      # Omits rows of less than ten milliseconds.
      def each_usage_line
        rows = @scheduler.usage.select { |_, row| row[:cpu_s] + row[:blocked_s] >= 0.01 }
        rows.sort_by { |_, row| -row[:cpu_s] }.each do |label, row|
          yield format("%.3f s of CPU, %.3f s blocked, at most %.3f s at a time, %d objects: %s",
            *row.values_at(:cpu_s, :blocked_s, :longest_s, :allocations), label)
        end
      end

      def each_circle_line(&block)
        circle = Deadlock.new(@inspection).circle or return

        yield "a deadlock, each of these waits for the next:"
        @inspection.describe_circle(circle).each_line(chomp: true, &block)
      end

      def describe(task)
        wait = @by_fiber[task.fiber] if task.fiber
        facts = [("transient" if task.transient?), format("%.1f s old", task.age_s), place(task, wait)].compact
        text = +task.label
        text << " (#{task.annotation})" if task.annotation
        text << ": #{state(task, wait)}"
        text << " [#{facts.join(", ")}]" unless task.finished?
        text
      end

      def state(task, wait)
        return task.status.to_s if task.finished?

        doing = if task.unstarted? then "starting"
                elsif task.fiber.nil? then "waiting for its children"
                else wait ? @inspection.describe(wait) : "running"
                end
        task.stopping? ? "stopping, #{doing}" : doing
      end

      def place(task, wait) = wait ? wait.place : Place.of(task.fiber&.backtrace)

      def each_frame(fiber, indent) = Place.without_own(fiber&.backtrace).each { |frame| yield "#{indent}#{frame}" }
    end
  end
end
