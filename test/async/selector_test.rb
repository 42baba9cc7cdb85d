# frozen_string_literal: true

# Gyre::Async::Selector by itself, on each native backend and without any gem: the interface that
# Async expects of a selector, as io-event's own suite and documentation tell it, and what that
# suite does not ask.

require "test_helper"
require "support/engines"
require "socket"
require "tempfile"
require "timeout"
require "gyre/async/selector" if Gyre::Loop.native?

GyreTest::Engines.test_case("AsyncSelectorTest", backends: GyreTest::Engines::ALL - [Gyre::Loop::PORTABLE]) do
  def setup
    @selector = Gyre::Async::Selector.new(Fiber.current)
    @steps = []
    @near, @far = UNIXSocket.pair
  end

  def teardown
    @selector.close
    [@near, @far].each(&:close)
  end

  # A fiber that runs up to its first wait.
  def start(&block)
    Fiber.new(&block).tap(&:transfer)
  end

  def wait_for(io, events = IO::READABLE)
    @selector.io_wait(Fiber.current, io, events)
  end

  def read(io, buffer, least, *offset)
    @selector.io_read(Fiber.current, io, buffer, least, *offset)
  end

  # What the method gives, run in a fiber while the selector is asked.
  def run_in_fiber
    result = nil
    fiber = start { result = yield }
    @selector.select(60) while fiber.alive?
    result
  end

  def buffer(size)
    before = Warning[:experimental]
    Warning[:experimental] = false
    IO::Buffer.new(size)
  ensure
    Warning[:experimental] = before
  end

  # A signal may end a sleep early, and so may what the kernel does for an io_uring that another
  # test closed.
  def sleeps_through?(seconds)
    eventually { duration_s { assert_equal 0, @selector.select(seconds) } >= seconds - 0.001 }
  end

  # --- the backend ---

  def test_it_runs_on_the_backend_that_is_asked_for
    assert_equal backend, @selector.backend
    assert_same Fiber.current, @selector.loop
    ENV["GYRE_BACKEND"] = nil
    named = Gyre::Async::Selector.new(Fiber.current, backend.to_sym)
    assert_equal backend, named.backend
  ensure
    named&.close
  end

  def test_the_portable_backend_and_unknown_ones_are_refused
    assert_match(/no native backend/, assert_raises(RuntimeError) { Gyre::Async::Selector.new(Fiber.current, "select") }.message)
    assert_raises(ArgumentError) { Gyre::Async::Selector.new(Fiber.current, "nonsense") }
  end

  # --- ends ---

  def test_a_half_closed_peer_that_does_not_read_is_waited_for_asleep
    start { @steps << wait_for(@near, IO::READABLE) }
    @far.close_write
    @selector.select(60) while @steps.empty?
    nil until @near.write_nonblock("x" * 65_536, exception: false) == :wait_writable
    start { @steps << wait_for(@near, IO::WRITABLE) }
    3.times { @selector.select(0) }
    assert sleeps_through?(0.02)
    assert_equal [IO::READABLE], @steps
    @far.read_nonblock(65_536) while @far.wait_readable(0)
    @selector.select(60) while @steps.size < 2
    assert_equal [IO::READABLE, IO::WRITABLE], @steps
  end

  # --- moving between fibers ---

  def test_a_queued_fiber_is_entered_by_the_next_select
    @selector.push(Fiber.new { @steps << :ran })
    assert_predicate @selector, :ready?
    assert_empty @steps
    assert_equal 0, @selector.select(0)
    assert_equal [:ran], @steps
    refute_predicate @selector, :ready?
  end

  def test_what_is_queued_meanwhile_waits_for_the_next_round
    @selector.push(Fiber.new do
      @steps << :first
      @selector.push(Fiber.new { @steps << :second })
      @selector.yield
      @steps << :first_again
    end)
    @selector.select(0)
    assert_equal [:first], @steps
    @selector.select(0)
    assert_equal %i[first second first_again], @steps
  end

  # io-event 1.22.1 fixed this one: the round's last entry is taken out of the queue while another
  # always queues itself.
  def test_a_round_ends_though_its_last_fiber_is_entered_out_of_turn_and_another_always_queues_itself
    last = nil
    spinning = Fiber.new { last.transfer.then { loop { @selector.yield } } }
    @selector.push(spinning)
    last = start { @selector.yield.then { spinning.transfer } }
    Timeout.timeout(60) { 5.times { @selector.select(0) } }
    assert_predicate @selector, :ready?
  end

  def test_descriptors_are_looked_at_though_fibers_are_always_ready
    @selector.push(Fiber.new { loop { @selector.yield } })
    start { @steps << wait_for(@near) }
    @far.write("x")
    100.times { @selector.select(0) }
    assert_equal [IO::READABLE], @steps
  end

  def test_transfer_goes_to_the_loop_and_queues_no_fiber
    @selector.push(fiber = Fiber.new { loop { @steps << @selector.transfer } })
    2.times { @selector.select(0) }
    assert_empty @steps
    fiber.transfer(:given)
    assert_equal [:given], @steps
    assert_nil @selector.transfer, "from the loop's own fiber there is nowhere to go"
  end

  def test_resume_hands_arguments_over_and_queues_the_one_that_resumes
    child = Fiber.new { |argument| @steps << argument }
    parent = Fiber.new do |argument|
      @steps << argument
      @selector.resume(child, :child)
      @steps << :parent_again
    end
    @selector.resume(parent, :parent)
    @steps << :select
    @selector.select(0)
    assert_equal %i[parent child select parent_again], @steps
  end

  def test_yield_works_below_a_fiber_that_was_resumed
    inner = Fiber.new { @selector.yield.then { @steps << :inner } }
    @selector.resume(Fiber.new { inner.resume })
    @selector.select(0)
    assert_equal [:inner], @steps
  end

  def test_a_queued_fiber_that_was_entered_meanwhile_is_not_entered_twice
    waiting = start { @selector.yield.then { @steps << :once } }
    waiting.transfer
    @selector.select(0)
    assert_equal [:once], @steps
  end

  def test_what_looks_like_a_fiber_can_be_queued_and_the_dead_are_passed_over
    object = Struct.new(:alive?, :count) { def transfer = self.count += 1 }
    living, dead = object.new(true, 0), object.new(false, 0)
    @selector.push(living)
    @selector.push(dead)
    @selector.push(Fiber.new { nil }.tap(&:resume))
    @selector.select(0)
    assert_equal [1, 0], [living.count, dead.count]
  end

  def test_raise_ends_a_wait_with_an_exception_as_fiber_raise_makes_it
    fiber = start { assert_raises(KeyError) { @selector.yield }.then { |error| @steps << error.message << error.receiver } }
    @selector.raise(fiber, KeyError.new("gone", receiver: @steps, key: 1))
    assert_equal ["gone", @steps], @steps
    fiber = start { assert_raises(KeyError) { wait_for(@near) }.then { |error| @steps << error.message } }
    @selector.raise(fiber, KeyError, "by class")
    assert_equal "by class", @steps.last
    @far.write("x")
    assert_equal 0, @selector.select(0), "the wait has ended"
  end

  def test_an_exception_leaves_through_select_and_no_other_fiber_is_lost
    2.times { |index| @selector.push(Fiber.new { index.zero? ? raise("boom") : @steps << :queued }) }
    start { wait_for(@near) and raise "boom too" }
    start { @steps << wait_for(@near) }
    @far.write("x")
    assert_equal "boom", assert_raises(RuntimeError) { @selector.select(0) }.message
    assert_equal "boom too", assert_raises(RuntimeError) { 3.times { @selector.select(0) } }.message
    3.times { @selector.select(0) }
    assert_equal [:queued, IO::READABLE], @steps
  end

  # --- select ---

  def test_select_waits_for_so_long_and_returns_how_long_it_slept
    assert sleeps_through?(0.02)
    assert_operator @selector.idle_duration, :>=, 0.019
    @selector.select(0)
    assert_equal 0.0, @selector.idle_duration
  end

  def test_durations_that_make_no_sense_are_refused
    assert_raises(TypeError) { @selector.select("soon") }
    assert_raises(ArgumentError) { @selector.select(-1) }
  end

  def test_another_thread_wakes_a_select_that_waits
    2.times do # Ruby may interrupt a select before it waits: it returns, and is called again
      waited = false
      thread = Thread.new { Thread.pass until (waited = @selector.wakeup) }
      assert_operator duration_s { @selector.select(100) until waited }, :<, 90
      thread.join
    end
  end

  def test_a_wakeup_before_select_is_not_lost
    assert_equal false, @selector.wakeup
    assert_operator duration_s { @selector.select(100) }, :<, 90
    assert sleeps_through?(0.02), "it counts once"
  end

  # A fiber of another thread cannot be entered here; what looks like one can.
  def test_pushes_from_other_threads_all_arrive
    ran = 0
    counter = Object.new
    counter.define_singleton_method(:alive?) { true }
    counter.define_singleton_method(:transfer) { ran += 1 }
    threads = Array.new(4) { Thread.new { 250.times { @selector.push(counter) || @selector.wakeup } } }
    @selector.select(60) until ran == 1000
    threads.each(&:join)
    refute_predicate @selector, :ready?
  end

  def test_a_trap_handler_wakes_it
    before = trap("USR1") { @selector.wakeup }
    loop_thread = Thread.current
    thread = Thread.new do
      Thread.pass until loop_thread.status == "sleep"
      Process.kill(:USR1, Process.pid)
    end
    assert_operator duration_s { @selector.select(100) }, :<, 90
    thread.join
  ensure
    trap("USR1", before || "DEFAULT")
  end

  # As Async runs it: what is masked must end the wait all the same. So may a process that is
  # stopped and continued.
  def test_a_masked_interrupt_ends_the_wait_and_is_raised_later
    result = nil
    thread = Thread.new do
      Thread.current.report_on_exception = false
      selector = Gyre::Async::Selector.new(Fiber.current)
      Thread.handle_interrupt(SignalException => :never) { result = selector.select(nil) until Thread.pending_interrupt? }
    ensure
      selector.close
    end
    eventually { thread.status == "sleep" }
    thread.raise(Interrupt)
    assert_raises(Interrupt) { thread.join }
    assert_equal 0, result
  end

  def test_an_interrupt_that_is_pending_already_keeps_it_from_waiting
    result = nil
    assert_raises(Interrupt) do
      Thread.handle_interrupt(SignalException => :never) do
        Thread.current.raise(Interrupt)
        result = @selector.select(100)
      end
    end
    assert_equal 0, result
  end

  def test_thread_raise_and_timeout_reach_a_select_that_waits
    assert_raises(Timeout::Error) { Timeout.timeout(0.05) { loop { @selector.select(10) } } }
    thread = Thread.new do
      Thread.current.report_on_exception = false
      selector = Gyre::Async::Selector.new(Fiber.current)
      selector.select(nil)
    ensure
      selector.close
    end
    eventually { thread.status == "sleep" }
    thread.kill
    assert thread.join(60)
  end

  def test_another_thread_does_not_close_it_before_its_own_has_ended
    error = assert_raises(ThreadError) { Thread.new { @selector.close }.tap { |thread| thread.report_on_exception = false }.join }
    assert_equal "this selector belongs to another thread, which may be waiting on it", error.message
    refute @selector.closed?
    Thread.new { Gyre::Async::Selector.new(Fiber.current) }.value.close
  end

  # --- descriptors ---

  def test_a_fiber_waits_until_its_io_is_ready
    start { @steps << wait_for(@near) }
    start { @steps << wait_for(@near, IO::READABLE | IO::WRITABLE) }
    assert_equal 1, @selector.select(60)
    assert_equal [IO::WRITABLE], @steps
    @far.write("x")
    assert_equal 1, @selector.select(60)
    assert_equal [IO::WRITABLE, IO::READABLE], @steps
  end

  def test_two_fibers_wait_for_the_same_io
    2.times { |index| start { @steps << [index, wait_for(@near)] } }
    @far.write("x")
    @selector.select(60)
    assert_equal [[0, IO::READABLE], [1, IO::READABLE]], @steps.sort
  end

  def test_readiness_that_stays_is_reported_again
    3.times do
      @far.write("x")
      assert_equal IO::READABLE, run_in_fiber { wait_for(@near) }
    end
    assert_equal "xxx", @near.readpartial(10)
  end

  def test_the_end_of_a_pipe_is_readable
    reader, writer = IO.pipe
    start { @steps << wait_for(reader) }
    @selector.select(0)
    writer.close
    @selector.select(60)
    assert_equal [IO::READABLE], @steps
  ensure
    [reader, writer].each(&:close)
  end

  def test_a_file_is_always_ready
    Tempfile.create { |file| assert_equal IO::WRITABLE, run_in_fiber { wait_for(file, IO::WRITABLE) } }
  end

  def test_a_wait_that_is_entered_for_another_reason_gets_false
    fiber = start { @steps << wait_for(@near) }
    fiber.transfer
    assert_equal [false], @steps
    @far.write("x")
    assert_equal 0, @selector.select(0)
  end

  def test_a_report_does_not_outlive_its_wait
    second = nil
    waiter = lambda do |other|
      wait_for(@near)
      other.call.raise("ended by the other") if other.call.alive?
    rescue RuntimeError
      @steps << :ended
      @selector.transfer
    end
    first = start { waiter.call(-> { second }) }
    second = start { waiter.call(-> { first }) }
    @far.write("x")
    3.times { @selector.select(0) }
    assert_equal [:ended], @steps
  end

  def test_a_number_that_means_another_io_now_is_watched_again
    run_in_fiber do
      @far.write("x")
      wait_for(@near)
      [@near, @far].each(&:close)
      @near, @far = UNIXSocket.pair
    end
    start { @steps << wait_for(@near) }
    start { @steps << wait_for(@far) }
    @far.write("y")
    @near.write("z")
    @selector.select(60)
    @selector.select(0)
    assert_equal [IO::READABLE, IO::READABLE], @steps
  end

  def test_a_wait_for_an_io_ends_when_it_is_closed
    fiber = start { @steps << assert_raises(IOError) { wait_for(@near) }.class }
    @near.close
    eventually { @selector.select(1).then { !fiber.alive? } }
    assert_equal [IOError], @steps
  end

  def test_a_closed_io_cannot_be_waited_for
    @near.close
    assert_raises(IOError) { run_in_fiber { wait_for(@near) } }
  end

  # --- reads and writes ---

  def test_a_read_gives_what_there_is_or_would_block
    bytes = buffer(64)
    assert_equal(-Errno::EAGAIN::Errno, read(@near, bytes, 0))
    @far.write("hello")
    assert_equal 5, read(@near, bytes, 0)
    assert_equal "hello", bytes.get_string(0, 5)
    @far.close
    assert_equal 0, read(@near, bytes, 0)
  end

  def test_a_read_of_at_least_so_much_waits_for_all_of_it
    bytes = buffer(64)
    start { @steps << read(@near, bytes, 10, 2) }
    @far.write("hello")
    @selector.select(60)
    assert_empty @steps
    @far.write("world")
    @selector.select(60)
    assert_equal [10], @steps
    assert_equal "helloworld", bytes.get_string(2, 10)
  end

  def test_a_buffer_that_is_freed_during_the_wait_is_not_written_to
    bytes = buffer(64)
    start { @steps << (read(@near, bytes, 10) rescue $!.class) }
    bytes.free
    @far.write("hello")
    @selector.select(60)
    refute_empty @steps
    refute_includes @steps, 5
  end

  def test_an_io_that_is_closed_during_a_read_ends_it
    bytes = buffer(64)
    fiber = start { @steps << (read(@near, bytes, 10) rescue $!.class) }
    @near.close
    eventually { @selector.select(1).then { !fiber.alive? } }
    assert_equal [IOError], @steps
  end

  def test_an_end_in_the_midst_gives_what_there_was
    bytes = buffer(64)
    start { @steps << read(@near, bytes, 10) }
    @far.write("hello")
    @selector.select(60)
    @far.close
    @selector.select(60)
    assert_equal [5], @steps
  end

  def test_a_write_waits_for_room
    bytes = buffer(4 * 1024 * 1024)
    start { @steps << @selector.io_write(Fiber.current, @near, bytes, bytes.size) }
    assert_empty @steps
    got = 0
    start { got += @far.read_nonblock(65_536).bytesize while got < bytes.size && wait_for(@far) }
    @selector.select(60) while got < bytes.size
    assert_equal [bytes.size], @steps
  end

  def test_offsets_beyond_the_buffer_are_refused_and_nothing_is_no_work
    bytes = buffer(8)
    assert_equal(-Errno::EINVAL::Errno, read(@near, bytes, 0, 9))
    assert_equal 0, read(@near, bytes, 0, 8)
    assert_raises(ArgumentError) { read(@near, bytes, 9) }
  end

  def test_files_are_read_and_written
    Tempfile.create do |file|
      bytes = buffer(16)
      bytes.set_string("0123456789abcdef") if bytes.respond_to?(:set_string)
      assert_equal 16, run_in_fiber { @selector.io_write(Fiber.current, file, bytes, 16) }
      file.rewind
      assert_equal 16, run_in_fiber { read(file, bytes, 0) }
      assert_equal 0, run_in_fiber { read(file, bytes, 0) }
    end
  end

  def test_reads_and_waits_are_cancelled_again_and_again
    reader, writer = IO.pipe
    bytes = buffer(8)
    fiber = start do
      10.times do
        assert_raises(Interrupt) { read(reader, bytes, 1) }
        assert_raises(Interrupt) { wait_for(reader) }
        @steps << read(reader, bytes, 1)
      end
    end
    while fiber.alive?
      2.times { fiber.raise(Interrupt) }
      writer.write(".")
      @selector.select(60)
    end
    assert_equal [1] * 10, @steps
  ensure
    [reader, writer].each(&:close)
  end

  # --- child processes ---

  def test_a_child_is_waited_for_whether_it_runs_or_has_ended
    pid = spawn("exit 3")
    assert_equal 3, run_in_fiber { @selector.process_wait(Fiber.current, pid, 0) }.exitstatus
    pid = spawn("sleep 60")
    start { @steps << @selector.process_wait(Fiber.current, pid, 0) }
    @selector.select(0)
    assert_empty @steps
    Process.kill(:KILL, pid)
    eventually { @selector.select(1) && @steps.any? }
    assert_equal Signal.list["KILL"], @steps.first.termsig
  end

  def test_without_hanging_it_reports_that_a_child_still_runs
    pid = spawn("sleep 60")
    assert_nil run_in_fiber { @selector.process_wait(Fiber.current, pid, Process::WNOHANG) }
  ensure
    Process.kill(:KILL, pid)
    Process.wait(pid)
  end

  def test_any_child_and_none
    pids = Array.new(2) { spawn("true") }
    assert_equal pids.sort, Array.new(2) { run_in_fiber { @selector.process_wait(Fiber.current, -1, 0) }.pid }.sort
    status = run_in_fiber { @selector.process_wait(Fiber.current, pids.first, 0) }
    assert_equal(-1, status.pid)
  end

  def test_a_wait_for_a_child_that_is_entered_gets_false
    pid = spawn("sleep 60")
    fiber = start { @steps << @selector.process_wait(Fiber.current, pid, 0) }
    fiber.transfer
    assert_equal [false], @steps
  ensure
    Process.kill(:KILL, pid)
    Process.wait(pid)
  end

  # --- the end ---

  def test_closing_abandons_the_waits
    fiber = start { @steps << wait_for(@near) }
    queued = Fiber.new { @steps << :never }
    @selector.push(queued)
    2.times { @selector.close }
    assert_predicate @selector, :closed?
    fiber.transfer
    assert_equal [false], @steps
    [-> { @selector.select(0) }, -> { @selector.push(queued) }, -> { wait_for(@far) }].each do |call|
      assert_equal "the selector is closed", assert_raises(RuntimeError, &call).message
    end
    assert_equal false, @selector.wakeup
  end

  def test_a_forked_child_takes_no_report_from_its_parent
    start { @steps << wait_for(@near) }
    @selector.select(0)
    @far.write("x")
    pid = fork do
      errors = [-> { @selector.select(0) }, -> { wait_for(@near) }, -> { @selector.yield }].map do |call|
        call.call.then { nil }
      rescue RuntimeError => error
        error.message[/belongs to the process/]
      end
      exit! errors.all? ? 0 : 1
    end
    assert_predicate Process.wait2(pid).last, :success?
    @selector.select(60) while @steps.empty?
    assert_equal [IO::READABLE], @steps
  end

  def test_a_forked_child_sees_it_closed_and_leaves_the_parents_alone
    start { @steps << wait_for(@near) }
    pid = fork do
      ok = @selector.closed?
      @selector.close
      fresh = Gyre::Async::Selector.new(Fiber.current)
      fresh.select(0)
      exit!(ok ? 0 : 1)
    end
    assert_predicate Process.wait2(pid).last, :success?
    @far.write("x")
    @selector.select(60)
    assert_equal [IO::READABLE], @steps
  end

  def test_fibers_without_another_reference_survive_the_collector
    20.times { start { @steps << wait_for(@near) } }
    20.times { @selector.push(Fiber.new { @steps << :queued }) }
    3.times { GC.start }
    GC.compact if compacts?
    @far.write("x")
    2.times { @selector.select(0) }
    assert_equal({ IO::READABLE => 20, queued: 20 }, @steps.tally)
  end

  def test_everything_survives_a_collection_at_every_allocation
    run = ruby("-e", <<~'RUBY', env: { "GYRE_BACKEND" => backend })
      require "gyre/async/selector"
      selector = Gyre::Async::Selector.new(Fiber.current)
      reader, writer = IO.pipe
      steps = []
      GC.stress = true
      5.times do
        Fiber.new { steps << selector.io_wait(Fiber.current, reader, IO::READABLE) }.transfer
        Fiber.new { selector.yield && steps << :yielded }.transfer
        selector.push(Fiber.new { selector.resume(Fiber.new { steps << :resumed }) })
      end
      raised = Fiber.new { begin; selector.yield; rescue KeyError; steps << :raised; end }
      raised.transfer
      selector.raise(raised, KeyError, "x")
      writer.write("x")
      4.times { selector.select(0) }
      GC.stress = false
      print steps.tally.sort_by { |step, _| step.to_s }.inspect
    RUBY
    assert_equal ["[[1, 5], [:raised, 1], [:resumed, 5]]", ""], [run.out, run.err]
  end

  def test_selectors_that_were_not_closed_are_collected
    run = ruby("-e", <<~'RUBY', env: { "GYRE_BACKEND" => backend })
      require "gyre/async/selector"
      reader, = IO.pipe
      make = lambda do
        selector = Gyre::Async::Selector.new(Fiber.current)
        Fiber.new { selector.io_wait(Fiber.current, reader, IO::READABLE) }.transfer
        Fiber.new { selector.yield }.transfer
        selector.push(Fiber.new { nil })
      end
      100.times { Thread.new(&make).join }
      3.times { GC.start }
      left = ObjectSpace.each_object(Gyre::Async::Selector).count
      print left < 50 ? "collected" : left
    RUBY
    assert_equal ["collected", ""], [run.out, run.err]
  end
end
