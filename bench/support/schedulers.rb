# frozen_string_literal: true

# The schedulers that bench/scheduler compares, each behind Ruby's plain Fiber::Scheduler interface.
# Loaded by the measured processes (create) and by the command (environment, version). Gems are
# required only when asked for.

module Bench
  # Schedulers by name.
  module Schedulers
    NAMES = ["gyre", "gyre-uring", "gyre-select", "async", "async-uring", *("carbon_fiber" if RUBY_VERSION >= "3.4")].freeze
    # Those that Gyre is compared with.
    OTHERS = NAMES.grep_v(/\Agyre/).freeze

    # Which backend each one is to use.
    ENVIRONMENT = {
      "gyre" => { "GYRE_BACKEND" => "epoll" },
      "gyre-uring" => { "GYRE_BACKEND" => "io_uring" },
      "gyre-select" => { "GYRE_BACKEND" => "select" },
      "async" => { "IO_EVENT_SELECTOR" => "EPoll" },
      "async-uring" => { "IO_EVENT_SELECTOR" => "URing" },
      "carbon_fiber" => {}
    }.freeze

    # What the report has about each.
    LABELS = {
      "gyre" => "Gyre, epoll",
      "gyre-uring" => "Gyre, io_uring",
      "gyre-select" => "Gyre, pure Ruby select",
      "async" => "Async, io-event's epoll",
      "async-uring" => "Async, io-event's io_uring",
      "carbon_fiber" => "carbon_fiber, io_uring"
    }.freeze

    module_function

    def environment(name)
      Setup.gem_environment.merge(Setup.yjit_environment, ENVIRONMENT.fetch(name))
    end

    # Returns a scheduler for Fiber.set_scheduler; made in the thread that will run it.
    def create(name)
      case name
      when "gyre", "gyre-uring", "gyre-select"
        require "gyre"
        Gyre::Scheduler.new
      when "async", "async-uring"
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
