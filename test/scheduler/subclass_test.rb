# frozen_string_literal: true

# A program's own subclass of Gyre::Scheduler: one class, on each backend in turn, in the same
# process.

require "test_helper"
require "support/engines"
require "socket"
require "gyre"

# Overrides nothing.
class PlainSubclass < Gyre::Scheduler
end

# Takes arguments of its own, and overrides hooks.
class CountingSubclass < PlainSubclass
  attr_reader :calls, :reported

  def initialize(backend, calls:)
    super(backend)
    @calls = calls
    @reported = []
  end

  def report(error, _fiber)
    @reported << error.message
  end

  def block(blocker, timeout = nil)
    @calls << :block
    super
  end

  def io_wait(io, events, timeout = nil)
    @calls << :io_wait
    super
  end

  def io_read(*)
    @calls << :io_read
    super
  end

  def kernel_sleep(duration = nil)
    @calls << :kernel_sleep
    super
  end

  def run
    @calls << :run
    super
  end

  def blocking_operation_wait(work)
    @calls << :blocking_operation_wait
    super
  end
end

# Overrides what its superclass does, too.
class LowestSubclass < CountingSubclass
  def block(blocker, timeout = nil)
    @calls << :lowest_block
    super
  end
end

GyreTest::Engines.test_case("SchedulerSubclassTest", backends: GyreTest::Engines::ALL) do
  def in_thread
    Thread.new do
      yield
    ensure
      Fiber.set_scheduler(nil)
    end.tap { |thread| thread.report_on_exception = false }.value
  end

  def counting(of: CountingSubclass)
    in_thread do
      scheduler = of.new(backend, calls: [])
      Fiber.set_scheduler(scheduler)
      yield scheduler
      scheduler.run
      scheduler
    end
  end

  def test_it_is_one_and_has_every_hook_of_its_backend
    in_thread do
      plain = Gyre::Scheduler.new
      mine = PlainSubclass.new
      assert_instance_of PlainSubclass, mine
      assert_equal backend, mine.backend
      assert_empty plain.public_methods - mine.public_methods
      Fiber.set_scheduler(mine)
      woken = []
      reader, writer = IO.pipe
      Fiber.schedule { (woken << reader.gets) && reader.close }
      Fiber.schedule { sleep(0.001) && writer.write("line\n") && writer.close }
      Fiber.schedule { Thread.new { woken << :thread }.join }
      assert_same mine, Fiber.scheduler
      mine.run
      assert_equal ["line\n", :thread], woken.sort_by(&:to_s)
      [plain, mine].each(&:close)
      assert_predicate mine, :closed?
    end
  end

  def test_the_backend_may_be_named
    assert_equal(backend, in_thread { PlainSubclass.new(backend.to_sym).then { |scheduler| scheduler.backend.tap { scheduler.close } } })
    assert_raises(ArgumentError) { PlainSubclass.new(:warp) }
  end

  def test_its_overrides_are_called_and_reach_the_engine_by_super
    scheduler = counting do |own|
      Fiber.schedule { sleep(0.001) }
      Fiber.schedule { Thread::Queue.new.tap { |queue| Thread.new { queue << 1 } }.pop }
      Fiber.schedule { UNIXSocket.pair.then { |one, other| other.wait_readable(0.001) || [one, other].each(&:close) } }
      own.spawn { raise "reported" }
    end
    assert_equal ["reported"], scheduler.reported
    assert_equal %i[block io_wait kernel_sleep run], scheduler.calls.uniq.sort - %i[io_read blocking_operation_wait]
  end

  def test_schedulers_of_one_class_leave_nothing_in_it
    2.times { counting { nil } }
    before = CountingSubclass.ancestors.size
    5.times { counting { nil } }
    assert_equal before, CountingSubclass.ancestors.size
  end

  def test_super_goes_through_every_class_between
    scheduler = counting(of: LowestSubclass) { Fiber.schedule { Thread::Queue.new.tap { |queue| Thread.new { queue << 1 } }.pop } }
    assert_equal %i[lowest_block block], (scheduler.calls & %i[lowest_block block])
  end

  def test_reads_through_an_overridden_hook_wait_as_they_do_without
    lines = []
    scheduler = counting do
      reader, writer = UNIXSocket.pair
      Fiber.schedule { 2.times { lines << reader.sysread(10) } && reader.close }
      Fiber.schedule { %w[a b].each { |text| sleep(0.001) && writer.write(text) } && writer.close }
      other, kept = IO.pipe
      Fiber.schedule { (lines << other.read_nonblock(10, exception: false)) && [other, kept].each(&:close) }
    end
    assert_empty scheduler.reported
    assert_equal [:wait_readable, "a", "b"], lines
  end

  def test_tasks_run_on_it
    scheduler = in_thread do
      own = CountingSubclass.new(backend, calls: [])
      Fiber.set_scheduler(own)
      value = Gyre.run { |task| task.async { sleep(0.001) && 7 }.wait }
      assert_equal 7, value
      own
    end
    assert_includes scheduler.calls, :kernel_sleep
  end
end

class SchedulerPortableHooksTest < Minitest::Test
  # What is a method in C must not be called for a scheduler of the portable engine.
  def test_the_portable_engine_has_or_refuses_every_method_of_the_native_one
    skip "no extension" unless Gyre::Native.available?
    native = Gyre::Scheduler.instance_methods(false).select { |name| Gyre::Scheduler.instance_method(name).source_location.nil? }
    assert_operator native.size, :>, 30
    portable = Gyre::Scheduler.new("select").tap(&:close)
    left = native.select { |name| portable.respond_to?(name) && !Gyre::Scheduler::Portable.method_defined?(name) }
    assert_empty left - %i[runs watchdog]
  end
end
