# frozen_string_literal: true

# A task and what is below it as text, one line for each, indented like a tree: what it does, how old it is and where.
#
#   task "main": running [2.0 s old, app.rb:31]
#   ├── task "fetch" (GET /index.html): reading from fd 7 (127.0.0.1:80), 4.8 s left [0.2 s old, app.rb:12]
#   │   └── task at app.rb:17: waiting for a mutex that task "clock" holds [0.1 s old, app.rb:18]
#   └── task "clock": sleeping, 0.3 s left [transient, 2.0 s old, app.rb:24]
#
# Gyre::Task#print_hierarchy and Gyre.print_hierarchy print it. It may be made on another thread than the tasks'; then
# no fiber can be asked whether it holds a mutex. Goes by a list of its own and not by recursion: a fiber's stack is small.

module Gyre
  class Task
    # @api private
    class Hierarchy
      # @param scheduler [Scheduler]
      # @param backtrace [Boolean] whether each line is followed by all of where it is
      def initialize(scheduler, backtrace: false)
        @scheduler = scheduler
        @backtrace = backtrace
        @waits = scheduler.waits
        @tasks = scheduler.tasks
        @by_fiber = {}.compare_by_identity
        @waits.each { |wait| @by_fiber[wait.entered] = @by_fiber[wait.fiber] = wait }
        fibers = @waits.flat_map { |wait| [wait.fiber, wait.entered] } | scheduler.runs.map(&:fiber)
        @owners = Scheduler::Deadlock.owners(scheduler, @waits, fibers)
      end

      # @param task [Task] the topmost one
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

      # The fibers that belong to no task: requests that are served, for example.
      # @yieldparam line [String]
      def each_other_line(&block)
        ours = @scheduler.runs.map(&:fiber)
        @waits.each do |wait|
          next if wait.blocker.nil? || [wait.fiber, wait.entered].any? { |fiber| @tasks.key?(fiber) || ours.include?(fiber) }

          yield "a fiber: #{wait.to_s(holding(wait))}#{" [#{wait.place}]" if wait.place}"
          each_frame(wait.fiber, "    ", &block) if @backtrace
        end
      end

      # Those that wait for each other, if any do.
      # @yieldparam line [String]
      def each_circle_line(&block)
        circle = Scheduler::Deadlock.new(@waits, @owners, @scheduler.runs).circle or return

        yield "a deadlock, each of these waits for the next:"
        @scheduler.describe_circle(circle, @owners, @tasks).each_line(chomp: true, &block)
      end

      private

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
                else wait ? wait.to_s(holding(wait)) : "running"
                end
        task.stopping? ? "stopping, #{doing}" : doing
      end

      def place(task, wait)
        wait ? wait.place : Scheduler::Place.of(task.fiber&.backtrace)
      end

      def holding(wait)
        @scheduler.holding(wait.blocker, @owners, @tasks)
      end

      def each_frame(fiber, indent)
        Scheduler::Place.without_own(fiber&.backtrace).each { |frame| yield "#{indent}#{frame}" }
      end
    end
  end
end
