# frozen_string_literal: true

# Stands where CRuby's test/fiber has its own scheduler.rb: the same classes, made of
# Gyre::Scheduler on the backend that GYRE_BACKEND names. Loaded by CRuby's tests and by the
# programs that they start; see rakelib/conformance.rake.
$LOAD_PATH.unshift(File.expand_path("../../lib", __dir__))
require "io/nonblock"
require "socket"
require "gyre/scheduler"

# CRuby's scheduler lets the exception of a fiber out through the fiber that runs it, and its tests
# count on that: an assertion that fails in a fiber fails the test. Ours reports it and goes on, so
# here reports are kept and raised at the end.
class Scheduler < Gyre::Scheduler
  # CRuby's tests make schedulers without naming a backend; and its scheduler's class takes the
  # fiber to return to.
  def initialize(_fiber = nil)
    super()
    @reported = []
  end

  def report(error, _fiber)
    @reported << error
  end

  def run
    super
    raise_reported
  end

  def scheduler_close
    super
    raise_reported
  end
  alias close scheduler_close

  # What CRuby's scheduler offers beside the hooks, as far as its tests use it: which fibers wait,
  # and leaving the present fiber.

  def waiting
    Array.new(stats[:tasks])
  end

  def transfer
    self.yield
  end

  private

  def raise_reported
    error = @reported.shift
    raise error if error
  end
end

# Reads and writes by io_read and io_write: all of ours do, where Ruby has sound hooks.
class IOBufferScheduler < Scheduler
end

# Notes what is written.
class IOScheduler < Scheduler
  def operations
    @operations ||= []
  end

  def io_write(io, buffer, _length, offset)
    operations << [:io_write, io.fileno, buffer.get_string]
    Fiber.blocking { buffer.write(io, 0, offset) }
  end
end

# Every read and write fails.
class IOErrorScheduler < Scheduler
  def io_read(*)
    -Errno::EBADF::Errno
  end

  def io_write(*)
    -Errno::EINVAL::Errno
  end
end

# Its unblock works, and raises.
class BrokenUnblockScheduler < Scheduler
  def unblock(blocker, fiber)
    super
    raise "Broken unblock!"
  end
end

# Its unblock works, and sleeps in whatever thread calls it.
class SleepingUnblockScheduler < Scheduler
  def unblock(blocker, fiber)
    super
    sleep(0.1)
  end
end

# Its sleep blocks the thread for a moment before the fiber waits.
class SleepingBlockingScheduler < Scheduler
  def kernel_sleep(duration = nil)
    Fiber.blocking { sleep 0.0001 }
    block(:sleep, duration)
    true
  end
end
