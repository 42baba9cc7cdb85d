# frozen_string_literal: true

# For tests of what only the portable engine has. Included in test classes.
require "gyre/scheduler"

module GyreTest
  # A thread with the portable scheduler.
  module OnPortable
    # Runs the block in a thread of its own; what it raises is raised here.
    def with_scheduler
      Thread.new do
        scheduler = Gyre::Scheduler.new("select")
        Fiber.set_scheduler(scheduler)
        yield scheduler
      end.tap { |thread| thread.report_on_exception = false }.join
    end
  end
end
