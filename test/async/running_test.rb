# frozen_string_literal: true

# Async itself on Gyre's selector, on each native backend: what its users rely on and a selector can
# spoil. Each case is a program of its own.

require "test_helper"
require "support/engines"
require "support/async_gems"

GyreTest::Engines.test_case("AsyncRunningTest", backends: GyreTest::Engines::ALL - [Gyre::Loop::PORTABLE]) do
  include GyreTest::AsyncGems

  def setup
    need_async
  end

  # Runs the program; its output has to be what is given.
  def assert_prints(expected, code)
    run = async_ruby("-e", "require 'gyre/async'; require 'async'\n#{code}")
    assert_equal [expected, ""], [run.out, run.err]
    assert_predicate run.status, :success?
  end

  def test_tasks_wait_for_each_other_sockets_and_time
    assert_prints "ping pong 3 timeout\n", <<~RUBY
      require "socket"
      near, far = UNIXSocket.pair
      Async do |task|
        task.async { far.write(far.readpartial(9).tr("i", "o")) }
        near.write("ping")
        words = ["ping", near.readpartial(9), task.async { sleep(0.01) and 3 }.wait]
        words << (task.with_timeout(0.05) { near.read(1) } rescue $!.is_a?(Async::TimeoutError) && "timeout")
        puts words.join(" ")
      end
    RUBY
  end

  def test_a_stopped_task_cleans_up_wherever_it_waits
    assert_prints "process queue read sleep thread\n", <<~RUBY
      reader, = IO.pipe
      ended = []
      pid = spawn("sleep 60")
      thread = Thread.new { sleep }
      waits = { read: -> { reader.read(1) }, sleep: -> { sleep }, queue: -> { Thread::Queue.new.pop },
                process: -> { Process.wait(pid) }, thread: -> { thread.join } }
      Async do |task|
        tasks = waits.map do |name, wait|
          task.async do
            wait.call
          ensure
            ended << name
          end
        end
        sleep 0.01
        tasks.each(&:stop)
      end
      Process.kill(:KILL, pid)
      Process.wait(pid)
      puts ended.sort.join(" ")
    RUBY
  end

  def test_an_exception_of_a_task_reaches_its_waiter_and_the_rest_goes_on
    assert_prints "caught boom, the other: 7\n", <<~RUBY
      Async do |task|
        other = task.async { sleep(0.02) and 7 }
        failing = task.async { sleep(0.01) and raise("boom") }
        caught = failing.wait rescue $!.message
        puts "caught \#{caught}, the other: \#{other.wait}"
      end
    RUBY
  end

  def test_an_io_that_is_closed_while_a_task_waits_for_it
    assert_prints "IOError\n", <<~RUBY
      reader, = IO.pipe
      Async do |task|
        waiting = task.async { reader.read(1) rescue puts $!.class }
        sleep 0.01
        reader.close
        waiting.wait
      end
    RUBY
  end

  def test_threads_and_trap_handlers_wake_it
    assert_prints "2000 from threads, USR1\n", <<~RUBY
      signals = Thread::Queue.new
      trap("USR1") { signals << "USR1" }
      Async do |task|
        queue = Thread::Queue.new
        threads = Array.new(4) { Thread.new { 500.times { |number| queue << number; Thread.pass if number % 50 == 0 } } }
        got = Array.new(2000) { queue.pop }
        threads.each(&:join)
        task.async { Process.kill(:USR1, Process.pid) }
        puts "\#{got.size} from threads, \#{signals.pop}"
      end
    RUBY
  end

  def test_interrupt_of_another_thread_ends_the_loop
    assert_prints "100 loops ended\n", <<~RUBY
      ended = 0
      100.times do
        reactor = nil
        ready = Thread::Queue.new
        thread = Thread.new do
          reactor = Async::Scheduler.new
          Fiber.set_scheduler(reactor)
          reactor.async { sleep }
          ready << true
          reactor.run
          ended += 1
          reactor.close
          Fiber.set_scheduler(nil) rescue nil # it is closed
        end
        ready.pop
        reactor.interrupt
        thread.join(50) or abort "an interrupt was lost"
      end
      puts "\#{ended} loops ended"
    RUBY
  end

  def test_ctrl_c_stops_the_tasks_and_ends_the_program
    code = <<~RUBY
      $stdout.sync = true
      Async do |task|
        task.async do
          sleep
        ensure
          puts "child cleans up"
        end
        puts "runs"
        sleep
      ensure
        puts "parent cleans up"
      end
    RUBY
    with_subprocess(*async_command("-e", "require 'gyre/async'; require 'async'\n#{code}", env: { "GYRE_BACKEND" => backend })) do |pid, out, _|
      assert_equal "runs\n", out.gets
      Process.kill(:INT, pid)
      status = Process.wait2(pid).last
      assert_equal [Signal.list["INT"], ["child cleans up\n", "parent cleans up\n"]], [status.termsig, out.read.lines.sort]
    end
  end

  def test_thread_raise_and_kill_reach_a_thread_that_runs_it
    assert_prints "raised: enough; killed\n", <<~RUBY
      raised = Thread.new { Thread.current.report_on_exception = false; Async { sleep }.wait }
      killed = Thread.new { Async { sleep } }
      sleep 0.01 until [raised, killed].all?(&:stop?)
      raised.raise("enough")
      message = raised.join rescue $!.message
      killed.kill
      killed.join(50) or abort "the thread lives"
      puts "raised: \#{message}; killed"
    RUBY
  end

  def test_a_forked_child_has_a_loop_of_its_own
    assert_prints "child 1\nparent 2 true\n", <<~RUBY
      Async do |task|
        ticking = task.async { 20.times { sleep 0.005 } }
        pid = fork { Thread.new { Async { |child| puts "child \#{child.async { sleep(0.01) and 1 }.wait}" } }.join }
        ok = Process.wait2(pid).last.success?
        ticking.wait
        puts "parent 2 \#{ok}"
      end
    RUBY
  end
end
