# frozen_string_literal: true

# What every engine's scheduler has to do, whatever it is made of. test/scheduler_test.rb runs these
# modules over every engine that this build has. Nearly everything goes through plain Ruby: what
# Ruby's own blocking calls do is the contract.
require "gyre/scheduler"
require "support/portable_simulation" # for a clock that jumps

# The ways into a scheduler that all of its parts use. A class that includes it offers `backend`.
module SchedulerContract
  # After how long a test that does not end has failed.
  HANG_S = Float(ENV.fetch("GYRE_TEST_LIMIT_S", "120")) / 4 # longer under the slow tools

  # Runs the block in a thread that has a scheduler, and then what the block left on the scheduler.
  def with_scheduler(reports: nil, &block)
    reported = reports || []
    thread = Thread.new { run_scheduler(reported, &block) }
    thread.report_on_exception = false
    thread.join(HANG_S) or flunk "the scheduler hangs:\n#{thread.backtrace.join("\n")}"
    value = thread.value
    raise reported.first if reports.nil? && reported.any?

    value
  ensure
    thread&.kill
  end

  # In the present thread: makes a scheduler, sets it, and runs it to its end.
  def run_scheduler(reported = [])
    scheduler = collecting_scheduler(reported)
    Fiber.set_scheduler(scheduler)
    yield(scheduler).tap { scheduler.run unless scheduler.closed? }
  ensure
    Fiber.set_scheduler(nil)
  end

  def collecting_scheduler(reported)
    scheduler = Gyre::Scheduler.new(backend)
    scheduler.define_singleton_method(:report) { |error, _fiber| reported << error }
    scheduler
  end

  # Runs the block as a fiber, and the scheduler until nothing is left.
  def in_fiber(**options)
    with_scheduler(**options) do |scheduler|
      value = nil
      scheduler.spawn { value = yield(scheduler) }
      scheduler.run
      value
    end
  end

  # From now on sleeps and timeouts on the scheduler of this thread take no time, and come in the
  # order of their times however busy the machine is.
  def simulate(scheduler)
    Gyre::Testing::Simulation.current = Gyre::Testing::Simulation.new(scheduler, Minitest.seed)
  end

  # The hook was added to Ruby with a certain version.
  def since_ruby(version)
    skip "Ruby #{version} brought it" if Gem::Version.new(RUBY_VERSION) < Gem::Version.new(version)
  end

  # Pipe or socket ends that are closed after the block, whatever it did with them.
  def with_open(*ios)
    yield(*ios)
  ensure
    ios.each(&:close)
  end

  def with_pipe(&block)
    with_open(*IO.pipe, &block)
  end

  # Yields the scheduler and what fibers can wait for without an end: a pipe's reader, a mutex that
  # is held, a thread, the id of a child process.
  def with_endless_waits
    with_pipe do |reader, _|
      held = Thread::Mutex.new
      with_scheduler do |scheduler|
        over = Thread::Queue.new
        scheduler.spawn { held.synchronize { over.pop } }
        thread = Thread.new { over.pop }
        child = Process.spawn("exec sleep 100")
        yield scheduler, reader, held, thread, child
        over.close
      ensure
        Process.kill(:KILL, child)
        Process.wait(child)
      end
    end
  end

  # A program of its own, which can use the contract's files, prints this.
  def assert_program(expected, code)
    output = ruby("--disable-gems", "-I#{File.expand_path("..", __dir__)}", "-rgyre/scheduler", "-e", code)
    assert_equal expected, output.out, output.err
  end

  def now
    Process.clock_gettime(Process::CLOCK_MONOTONIC)
  end
end

Dir[File.join(__dir__, "scheduler", "*.rb")].sort.each { |path| require path }
