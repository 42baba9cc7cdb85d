# frozen_string_literal: true

# A program's own subclass of Gyre::Loop: one class, on each backend in turn, in the same process.

require "test_helper"
require "support/engines"
require "gyre"

# Overrides nothing.
class PlainLoop < Gyre::Loop
end

# Takes arguments of its own, and overrides methods.
class CountingLoop < PlainLoop
  attr_reader :calls

  def initialize(backend, calls:)
    super(backend)
    @calls = calls
  end

  def watch_io(key, io, *arguments, **options)
    @calls << :watch_io
    super
  end

  def emit(key)
    @calls << :emit
    super
  end

  def each
    @calls << :each
    super { |key| yield [:mine, key] }
  end

  def close
    @calls << :close
    super
  end
end

# Overrides what its superclass does, too.
class LowestLoop < CountingLoop
  def emit(key)
    @calls << :lowest_emit
    super
  end
end

GyreTest::Engines.test_case("LoopSubclassTest", backends: GyreTest::Engines::ALL) do
  def test_it_is_one_and_has_every_method_of_its_backend
    plain, mine = Gyre::Loop.new, PlainLoop.new
    assert_instance_of PlainLoop, mine
    assert_equal backend, mine.backend
    assert_empty plain.public_methods - mine.public_methods
    reader, writer = IO.pipe
    mine.watch_io(:readable, reader, oneshot: true)
    mine.watch_timer(:late, 0)
    mine.watch_signal(:signal, "USR1")
    writer.write("x")
    Process.kill(:USR1, Process.pid)
    assert_equal %i[late readable signal], Array.new(3) { mine.next_event }.sort
    [reader, writer].each(&:close)
  ensure
    [plain, mine].each(&:close)
    assert_predicate mine, :closed?
  end

  def test_the_backend_may_be_named
    assert_equal(backend, PlainLoop.new(backend.to_sym).then { |loop| loop.backend.tap { loop.close } })
    assert_raises(ArgumentError) { PlainLoop.new(:warp) }
  end

  def test_its_overrides_are_called_and_reach_the_engine_by_super
    loop = LowestLoop.new(backend, calls: [])
    reader, writer = IO.pipe
    loop.watch_io(:writable, writer, write: true, oneshot: true)
    loop.emit(:emitted)
    keys = []
    loop.each { |key| (keys << key).size == 2 && loop.stop }
    loop.close
    assert_equal [%i[mine emitted], %i[mine writable]], keys.sort
    assert_equal %i[watch_io lowest_emit emit each close], loop.calls
  ensure
    [reader, writer].each(&:close)
  end

  def test_loops_of_one_class_leave_nothing_in_it
    2.times { CountingLoop.new(backend, calls: []).close }
    before = CountingLoop.ancestors.size
    5.times { CountingLoop.new(backend, calls: []).close }
    assert_equal before, CountingLoop.ancestors.size
  end

  def test_it_works_on_the_loop_of_a_scheduler
    Gyre.run do |task|
      loop = CountingLoop.new(nil, calls: [])
      task.async { loop.emit(:told) }
      assert_equal :told, loop.next_event
      assert_equal Fiber.scheduler.backend, loop.backend
      loop.close
    end
  end
end

class LoopPortableMethodsTest < Minitest::Test
  # What is a method in C must not be called for a loop of the portable engine.
  def test_the_portable_engine_has_every_method_of_the_native_one
    skip "no extension" unless Gyre::Native.available?
    native = Gyre::Loop.instance_methods(false) | Gyre::Loop.private_instance_methods(false)
    native.select! { |name| Gyre::Loop.instance_method(name).source_location.nil? }
    assert_operator native.size, :>, 12
    portable = Gyre::Loop::PortableKeyed.instance_methods | Gyre::Loop::PortableKeyed.private_instance_methods
    assert_empty native - portable - [:open_native]
  end
end
