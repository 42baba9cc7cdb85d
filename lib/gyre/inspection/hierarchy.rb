# frozen_string_literal: true

# Gyre.print_hierarchy: every task of the process, and what each is doing. Gyre::Task#print_hierarchy shows a part of that.

require "gyre/run"

module Gyre
  # Prints every call of Gyre.run that is under way, on all threads, with its tasks: what each waits for, how old it is and
  # where it is. May be called from anywhere, also in a trap handler; only the tasks of the calling thread can say which
  # of them holds a mutex.
  #
  # @param out [#puts]
  # @param backtrace [Boolean] prints all of where each task is, without Gyre's own part of it
  # @return [nil]
  def self.print_hierarchy(out = $stderr, backtrace: false)
    Thread.list.each do |thread|
      scheduler = thread.thread_variable_get(:gyre_scheduler) or next
      next if scheduler.closed?

      hierarchy = Task::Hierarchy.new(scheduler, backtrace: backtrace)
      out.puts "thread #{thread.name || (thread == Thread.main ? "main" : thread.inspect)}, #{scheduler.backend}:"
      print = ->(line) { out.puts "  #{line}" }
      scheduler.runs.each { |run| hierarchy.each_line(run.root, &print) }
      hierarchy.each_other_line(&print)
      hierarchy.each_circle_line(&print)
    end
    nil
  end
end
