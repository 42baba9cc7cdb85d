# frozen_string_literal: true

# Gyre.run: where it may be called, what it returns and raises, and that it leaves nothing behind
# however it is left.

require "test_helper"
require "io/wait"
require "timeout"
require "support/engines"
require "gyre"

GyreTest::Engines.test_case("RunTest") do
  def test_it_returns_the_value_of_the_block
    assert_equal(42, Gyre.run { 42 })
  end

  def test_it_raises_the_blocks_exception
    error = RuntimeError.new("from the block")
    raised = assert_raises(RuntimeError) { Gyre.run { raise error } }
    assert_same error, raised
  end

  def test_it_needs_a_block
    assert_raises(ArgumentError) { Gyre.run }
  end

  def test_it_gives_the_root_task_to_the_block_and_names_it
    Gyre.run do |task|
      assert_same Gyre::Task.current, task
      assert_equal "main", task.name
      assert_nil task.parent
    end
    assert_equal("crawler", Gyre.run("crawler", &:name))
  end

  def test_it_uses_the_engine_that_was_asked_for
    assert_equal(backend, Gyre.run { Fiber.scheduler.backend })
  end

  def test_it_leaves_the_thread_without_a_scheduler
    Gyre.run { assert Fiber.scheduler }
    assert_nil Fiber.scheduler
    assert_raises(RuntimeError) { Gyre.run { raise "x" } }
    assert_nil Fiber.scheduler
  end

  def test_an_exception_that_comes_before_its_task_is_there_is_raised_as_it_is
    Gyre::Task.stub(:new, ->(*) { raise Interrupt }) { assert_raises(Interrupt) { Gyre.run { flunk } } }
    assert_nil Fiber.scheduler
    assert_equal :fine, Gyre.run { :fine }
  end

  def test_it_works_again_and_again_on_one_thread
    assert_equal([1, 2, 3], [1, 2, 3].map { |value| Gyre.run { sleep(0.001) && value } })
  end

  def test_it_works_in_a_fresh_thread
    assert_equal :done, Thread.new { Gyre.run { |task| task.sleep(0.001) && :done } }.value
  end

  def test_it_works_in_several_threads_at_once
    running = Thread::Queue.new
    threads = Array.new(4) do
      Thread.new do
        Gyre.run do
          running.push(true)
          sleep 0.001 until running.size == 4
        end
      end
    end
    threads.each { |thread| assert thread.join(60), "each waits for the other" }
  end

  def test_it_nests_as_a_child_of_the_calling_task
    Gyre.run do |outer|
      value = Gyre.run("inner") do |inner|
        assert_same outer, inner.parent
        sleep 0.001
        :inner
      end
      assert_equal :inner, value
      error = assert_raises(KeyError) { Gyre.run { raise KeyError, "inner" } }
      assert_equal "inner", error.message
    end
  end

  def test_a_nested_one_lets_its_siblings_run_meanwhile
    order = []
    Gyre.run do |task|
      queue = Gyre::Queue.new
      task.async { sleep(0.01) && (order << :sibling) && queue.push(true) }
      Gyre.run { queue.pop && order << :nested }
      order << :after
    end
    assert_equal %i[sibling nested after], order
  end

  def test_a_nested_run_out_of_time_ends_before_its_call_returns
    ended = false
    Gyre.run do |task|
      assert_raises(Gyre::TimeoutError) do
        task.with_timeout(0.01) do
          Gyre.run do
            sleep
          ensure
            sleep 0.02
            ended = true
          end
        end
      end
      assert ended
    end
  end

  def test_it_works_in_a_fiber_of_a_scheduler_that_was_there_before
    values = []
    Thread.new do
      Fiber.set_scheduler(Gyre::Scheduler.new)
      2.times do |index|
        Fiber.schedule do
          values << Gyre.run { |task| task.async { sleep(0.01) && index }.wait }
        end
      end
      values << :scheduled
    end.join
    assert_equal [:scheduled, 0, 1], [values.first, *values.drop(1).sort]
  end

  def test_it_raises_into_a_fiber_of_a_scheduler_that_was_there_before
    rescued = nil
    Thread.new do
      Fiber.set_scheduler(Gyre::Scheduler.new)
      Fiber.schedule do
        Gyre.run { sleep(0.01) && raise("inside") }
      rescue RuntimeError => error
        rescued = error
      end
    end.join
    assert_equal "inside", rescued&.message
  end

  def test_it_drives_the_loop_itself_on_the_main_fiber_of_a_thread_with_a_scheduler
    beside = nil
    value = Thread.new do
      Fiber.set_scheduler(Gyre::Scheduler.new)
      queue = Gyre::Queue.new
      Fiber.schedule { sleep(0.01) && (beside = :ran) && queue.push(:first) }
      [Gyre.run { queue.pop }, Gyre.run { sleep(0.001) && :second }]
    end.value
    assert_equal %i[first second], value
    assert_equal :ran, beside
  end

  def test_it_works_inside_an_enumerator
    enumerator = Enumerator.new { |yielder| 2.times { |index| yielder << Gyre.run { sleep(0.001) && index } } }
    assert_equal 0, enumerator.next
    assert_equal 1, enumerator.next
  end

  def test_it_refuses_a_foreign_scheduler
    foreign = Class.new { %i[block unblock kernel_sleep io_wait close fiber fiber_interrupt].each { |name| define_method(name) { |*| nil } } }
    error = Thread.new do
      Fiber.set_scheduler(foreign.new)
      assert_raises(Gyre::Error) { Gyre.run { nil } }
    end.value
    assert_match(/needs a Gyre::Scheduler/, error.message)
  end

  def test_it_waits_for_children_after_a_block_that_ended_well
    ended = []
    value = Gyre.run do |task|
      task.async { |child| child.async { sleep(0.01) && ended << :grandchild } }
      task.async { sleep(0.01) && ended << :child }
      :value
    end
    assert_equal :value, value
    assert_equal %i[child grandchild], ended.sort
  end

  def test_it_stops_the_children_of_a_block_that_raised_and_lets_them_unwind
    unwound = []
    assert_raises(RuntimeError) do
      Gyre.run do |task|
        2.times do |index|
          task.async do
            sleep
          ensure
            sleep 0.01
            unwound << index
          end
        end
        raise "enough"
      end
    end
    assert_equal [0, 1], unwound.sort
  end

  def test_it_waits_for_plain_fibers_too
    ended = false
    Gyre.run { Fiber.schedule { sleep(0.01) && ended = true } }
    assert ended
  end

  def test_a_root_that_is_stopped_gives_nil
    assert_nil(Gyre.run { |task| task.async { task.stop } && sleep })
  end

  def test_exit_in_a_task_leaves_through_it_after_the_others_unwound
    unwound = false
    error = assert_raises(SystemExit) do
      Gyre.run do |task|
        task.async do
          sleep
        ensure
          sleep 0.01
          unwound = true
        end
        task.async { sleep(0.01) && exit(3) }
        sleep
      end
    end
    assert_equal 3, error.status
    assert unwound
  end

  def test_exit_in_an_awaited_task_is_not_lost
    error = assert_raises(SystemExit) { Gyre.run { |task| task.async { exit 5 }.wait && sleep } }
    assert_equal 5, error.status
  end

  def test_exit_in_the_block_leaves_through_it
    assert_equal 6, assert_raises(SystemExit) { Gyre.run { exit 6 } }.status
  end

  def test_exit_in_a_task_on_a_scheduler_that_was_there_before_reaches_the_caller
    error = nil
    Thread.new do
      Fiber.set_scheduler(Gyre::Scheduler.new)
      Fiber.schedule do
        Gyre.run { |task| task.async { sleep(0.01) && exit(7) } && sleep }
      rescue SystemExit => error
        nil
      end
    end.join
    assert_equal 7, error&.status
  end

  def test_break_and_return_out_of_the_block_are_refused
    assert_raises(LocalJumpError) { Gyre.run { break 1 } }
    assert_raises(LocalJumpError) { returning_block }
  end

  def returning_block
    Gyre.run { return 1 }
  end

  def test_throw_out_of_the_block_is_refused
    assert_raises(UncaughtThrowError) { catch(:out) { Gyre.run { throw :out } } }
  end

  def test_killing_the_thread_unwinds_all_tasks
    unwound = unwound_by_a_kill do |started, unwound|
      Gyre.run do |task|
        task.async do
          started << true
          sleep
        ensure
          unwound << :child
        end
        sleep
      ensure
        sleep 0.01
        unwound << :root
      end
      unwound << :never
    end
    assert_equal %i[child root], unwound
  end

  def test_killing_the_thread_while_a_task_computes_unwinds_the_others
    unwound = unwound_by_a_kill do |started, unwound|
      Gyre.run do |task|
        task.async do
          sleep
        ensure
          unwound << :sleeper
        end
        task.async do
          started << true
          nil while true
        ensure
          unwound << :computer
        end
      end
    end
    assert_equal %i[computer sleeper], unwound
  end

  # Runs the block in a thread, which is killed once it has pushed to the first queue. Returns what
  # it has pushed to the second one, in order.
  def unwound_by_a_kill
    started = Thread::Queue.new
    unwound = Thread::Queue.new
    thread = Thread.new { yield started, unwound }
    started.pop
    thread.kill
    assert thread.join(60), "the thread did not end"
    Array.new(unwound.size) { unwound.pop }.sort
  end

  def interrupted(waiting)
    code = <<~RUBY
      require "gyre"
      $stdout.sync = true
      begin
        Gyre.run do |task|
          task.async do
            puts "ready"
            #{waiting}
          ensure
            sleep 0.05
            puts "unwound"
          end
          sleep
        end
      rescue Interrupt
        puts "interrupted"
      end
      puts Fiber.scheduler.inspect
    RUBY
    with_subprocess(*ruby_command("-e", code, env: { "GYRE_BACKEND" => backend })) do |pid, out, err|
      assert_equal "ready\n", out.gets, -> { err.read }
      sleep 0.05
      Process.kill(:INT, pid)
      assert_equal "unwound\ninterrupted\nnil\n", out.read
    end
  end

  def test_an_interrupt_stops_the_tasks_and_is_raised_on
    interrupted("sleep")
  end

  def test_an_interrupt_reaches_a_task_that_computes
    interrupted("nil while true")
  end

  def test_a_second_interrupt_cuts_the_unwinding_short
    code = <<~RUBY
      require "gyre"
      $stdout.sync = true
      begin
        Gyre.run do |task|
          puts "ready"
          sleep
        ensure
          puts "cleaning"
          sleep 60
        end
      rescue Interrupt
        puts "interrupted"
      end
    RUBY
    with_subprocess(*ruby_command("-e", code, env: { "GYRE_BACKEND" => backend })) do |pid, out, err|
      assert_equal "ready\n", out.gets, -> { err.read }
      sleep 0.05
      Process.kill(:INT, pid)
      assert_equal "cleaning\n", out.gets
      sleep 0.05
      Process.kill(:INT, pid)
      assert_equal "interrupted\n", out.read
    end
  end

  # Runs a program, and sends it a signal for each line "ready".
  def signalled(signal, code)
    code = "require %(gyre)\n$stdout.sync = true\n#{code}"
    with_subprocess(*ruby_command("-e", code, env: { "GYRE_BACKEND" => backend })) do |pid, out, err|
      lines = []
      while out.wait_readable(60) && (line = out.gets)
        line == "ready\n" ? sleep(0.02).then { Process.kill(signal, pid) } : lines << line.chomp
      end
      [lines, finish_process(pid), err.read]
    end
  end

  def waiting
    <<~RUBY
      Gyre.run do |task|
        task.async do
          puts "ready"
          sleep
        ensure
          sleep 0.01
          puts "unwound"
        end
        sleep
      end
    RUBY
  end

  def test_a_signal_that_is_not_rescued_ends_the_program_after_ensure
    { INT: /Interrupt/, TERM: // }.each do |signal, said|
      lines, status, err = signalled(signal, waiting)
      assert_equal [%w[unwound], Signal.list[signal.to_s]], [lines, status.termsig], err
      assert_match said, err
    end
  end

  def test_an_interrupt_cuts_an_ensure_that_waits_or_computes
    ["sleep 60", "nil while true"].each do |work|
      lines, status, err = signalled(:INT, <<~RUBY)
        Gyre.run do
          raise IOError
        ensure
          begin
            puts "ready"
            #{work}
          ensure
            puts "cut"
          end
        end
      RUBY
      assert_equal [%w[cut], Signal.list["INT"]], [lines, status.termsig], err
    end
  end

  def test_an_exit_in_a_trap_ends_the_program_after_ensure
    lines, status, err = signalled(:TERM, "trap(:TERM) { exit 7 }\n#{waiting}")
    assert_equal [%w[unwound], 7, ""], [lines, status.exitstatus, err]
  end

  def test_an_exception_in_a_trap_ends_the_program_after_ensure
    lines, status, err = signalled(:USR1, "trap(:USR1) { raise IOError, %(in the trap) }\n#{waiting}")
    assert_equal [%w[unwound], 1], [lines, status.exitstatus], err
    assert_match(/in the trap \(IOError\)/, err)
  end

  def forked(*expected, code)
    run = ruby("-e", <<~RUBY, env: { "GYRE_BACKEND" => backend })
      require "gyre"
      say = ->(text) { $stdout.write("\#{text}\\n") }
      me = :parent
      value = Gyre.run do |task|
        task.async { sleep(0.02) && say.("sibling in the \#{me}") }
        #{code}
      ensure
        say.("ensure in the \#{me}")
      end
      say.("end of the \#{me}: \#{value.inspect}")
    RUBY
    assert_equal ["", expected.sort], [run.err, run.out.lines(chomp: true).sort]
    assert_predicate run.status, :success?
  end

  def test_after_a_fork_in_the_root_only_that_goes_on_in_the_child
    forked("sibling in the parent", "ensure in the parent", "end of the parent: :root",
           "new one in the child", "ensure in the child", "end of the child: :root", <<~RUBY)
             pid = fork and Process.wait(pid)
             me = :child unless pid
             task.async { sleep(0.005) && say.("new one in the child") } unless pid
             sleep 0.001
             :root
           RUBY
  end

  def test_after_a_fork_in_a_task_only_that_goes_on_in_the_child
    forked("sibling in the parent", "ensure in the parent", "end of the parent: :forked", "end of the child: nil", <<~RUBY)
      task.async do |inner|
        inner.async { sleep }.then { |below| (pid = fork) ? Process.wait(pid) && below.stop : me = :child }
        :forked
      end.wait
    RUBY
  end

  def test_an_exception_of_a_leftover_fiber_leaves_no_scheduler_behind
    assert_raises(SystemExit) { Gyre.run { Fiber.schedule { sleep(0.001).then { exit 3 } } } }
    assert_nil Fiber.scheduler
    assert_equal 5, Gyre.run { 5 }
  end

  def test_an_exception_of_another_thread_reaches_the_task_that_computes
    rescued = nil
    Gyre.run do |task|
      thread = Thread.current
      task.async do
        computing = false
        Thread.new do
          Thread.pass until computing
          thread.raise(IOError, "for the one that computes")
        end
        begin
          computing = true
          nil while true
        rescue IOError => rescued
          nil
        end
      end
      assert_equal "for the one that computes", rescued&.message
    end
  end

  def test_an_exception_of_another_thread_that_a_child_lets_out_reaches_the_caller
    assert_struck_while_computing { |task, compute| task.async { compute.call } }
  end

  def test_an_exception_of_another_thread_that_a_grandchild_lets_out_reaches_the_caller
    assert_struck_while_computing { |task, compute| task.async { |child| child.async { compute.call } } }
  end

  def test_an_exception_of_another_thread_that_a_fiber_lets_out_reaches_the_caller
    assert_struck_while_computing { |_, compute| Fiber.schedule(&compute) }
  end

  # The block starts a computation, which the exception strikes while the root waits.
  def assert_struck_while_computing
    ended = []
    thread = Thread.current
    error = assert_raises(IOError) do
      Gyre.run do |task|
        task.async do
          sleep
        ensure
          sleep 0.001
          ended << :sibling
        end
        computing = false
        Thread.new do
          Thread.pass until computing
          thread.raise(IOError, "for the thread")
        end
        compute = lambda do
          computing = true
          nil while true
        end
        yield task, compute
        sleep
      ensure
        ended << :root
      end
    end
    assert_equal ["for the thread", %i[root sibling]], [error.message, ended.sort]
    assert_nil Fiber.scheduler
  end

  def test_a_timeout_around_it_ends_it_while_a_child_computes
    assert_raises(Timeout::Error) { Timeout.timeout(0.01) { Gyre.run { |task| task.async { nil while true }.then { sleep } } } }
    assert_raises(Timeout::Error) { Timeout.timeout(0.01) { Gyre.run { |task| task.async { Gyre.run { nil while true } }.then { sleep } } } }
  end

  def test_an_exception_of_another_thread_keeps_its_arguments
    [[IOError.new("x")], [IOError, "x"], [IOError, "x", ["here:1"]], ["x"]].each do |arguments|
      thread = Thread.current
      error = assert_raises(IOError, RuntimeError) do
        Gyre.run { |task| task.async { Thread.new { thread.raise(*arguments) }.join }.then { sleep } }
      end
      assert_equal [arguments.first.is_a?(String) ? RuntimeError : IOError, "x"], [error.class, error.message]
    end
  end

  def test_an_exception_of_another_thread_keeps_the_cause_that_it_was_given
    skip "Ruby 4.0 brought cause: to Thread#raise" if RUBY_VERSION < "4"
    why = IOError.new("why")
    thread = Thread.current
    error = assert_raises(RuntimeError) do
      Gyre.run do |task|
        raiser = Thread.new do
          raise "present"
        rescue RuntimeError
          thread.raise(RuntimeError, "x", cause: why)
        end
        task.async { raiser.join }.then { sleep }
      end
    end
    assert_equal ["x", why], [error.message, error.cause]
  end

  def test_an_exception_of_another_thread_may_be_frozen
    thread = Thread.current
    given = IOError.new("frozen").freeze
    error = assert_raises(IOError) do
      Gyre.run do |task|
        computing = false
        Thread.new do
          raise "present"
        rescue RuntimeError
          Thread.pass until computing
          thread.raise(given)
        end
        task.async { computing = true while true }
        sleep
      end
    end
    assert_equal "frozen", error.message
  end

  def test_an_exception_of_another_thread_ends_the_run_in_order_while_all_wait
    ended = []
    error = assert_raises(IOError) do
      Gyre.run do |task|
        thread = Thread.current
        task.async do
          sleep
        ensure
          sleep 0.001
          ended << :child
        end
        Thread.new do
          Thread.pass until thread.stop?
          thread.raise(IOError, "for the thread")
        end
        begin
          sleep
        ensure
          ended << :root
        end
      end
    end
    assert_equal ["for the thread", %i[child root]], [error.message, ended.sort]
    assert_nil Fiber.scheduler
  end

  def test_uncaught_exit_ends_the_program_with_its_status
    run = ruby("-e", 'require "gyre"; Gyre.run { |task| task.async { sleep 0.01; exit 9 }; sleep }', env: { "GYRE_BACKEND" => backend })
    assert_equal 9, run.status.exitstatus
    assert_equal "", run.err
  end
end
