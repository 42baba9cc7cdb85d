# frozen_string_literal: true

# The schedulers that bench/scheduler compares, each behind Ruby's plain Fiber::Scheduler interface. Loaded by the
# measured processes (create) and by the command (environment, version). Gems are required only when asked for.

module Bench
  # Schedulers by name.
  module Schedulers
    NAMES = ["gyre", "gyre-select", "async", *("carbon_fiber" if RUBY_VERSION >= "3.4")].freeze

    # Which backend each one is to use.
    ENVIRONMENT = {
      "gyre" => { "GYRE_BACKEND" => "epoll" },
      "gyre-select" => { "GYRE_BACKEND" => "select" },
      "async" => { "IO_EVENT_SELECTOR" => "EPoll" },
      "carbon_fiber" => {}
    }.freeze

    # What is said about each in the report.
    LABELS = {
      "gyre" => "Gyre, epoll",
      "gyre-select" => "Gyre, pure Ruby select",
      "async" => "Async, io-event's epoll",
      "carbon_fiber" => "carbon_fiber, io_uring"
    }.freeze

    module_function

    # @param name [String] one of NAMES
    # @return [Object] a scheduler for Fiber.set_scheduler; made in the thread that will run it
    def create(name)
      case name
      when "gyre", "gyre-select"
        require "gyre"
        Gyre::Scheduler.new
      when "async"
        require "async"
        Async::Scheduler.new
      when "carbon_fiber"
        require "carbon_fiber"
        CarbonFiber::Scheduler.new
      else raise ArgumentError, "unknown scheduler: #{name}; there are: #{NAMES.join(', ')}"
      end
    end
  end
end
