# frozen_string_literal: true

# Gyre.print_hierarchy: everything that runs, on all threads, also for callers outside of it.

require "test_helper"
require "support/engines"
require "stringio"
require "gyre"

GyreTest::Engines.test_case("HierarchyTest") do
  def printed(**options)
    out = StringIO.new
    assert_nil Gyre.print_hierarchy(out, **options)
    out.string.lines(chomp: true)
  end

  def test_without_any_run_there_is_nothing_to_print
    assert_empty printed
    Gyre.run { nil }
    assert_empty printed
  end

  def test_it_shows_the_runs_of_all_threads
    shown = nil
    Gyre.run("here") do |here|
      queue = Thread::Queue.new
      thread = Thread.new do
        Gyre.run("there") { queue.pop }
      end
      thread.name = "second"
      here.yield until queue.num_waiting == 1 && thread.stop?
      shown = printed
      queue.push(nil)
      thread.join
    end
    assert_equal [%(thread main, #{backend}:), %(thread second, #{backend}:)], shown.grep(/\Athread/).sort
    assert_match(/\A  task "there": waiting for a queue to be filled \[/, shown[shown.index { |line| line.start_with?("thread second") } + 1])
  end

  def test_a_trap_handler_may_print_it_while_the_loop_sleeps
    shown = nil
    before = trap("USR1") { shown = printed }
    Gyre.run do |task|
      task.async("a") { sleep }
      Process.kill(:USR1, Process.pid)
      sleep 0.001 until shown
      task.children.first.stop
    end
    assert_match(/task "a": sleeping/, shown.grep(/task/).last)
  ensure
    trap("USR1", before)
  end

  def test_fibers_without_a_task_come_last
    Gyre.run do |task|
      queue = Thread::Queue.new
      Fiber.schedule { queue.pop }
      shown = printed(backtrace: true)
      at = shown.index { |line| line.match?(/\A  a fiber: waiting for a queue to be filled \[.*hierarchy_test.rb:\d+\]\z/) }
      assert_match(/\A      \S*hierarchy_test.rb:\d+:in/, shown.fetch(at + 1))
      queue.push(nil)
      task.yield
    end
  end

  def test_a_fork_shows_only_its_own_tasks
    reader, writer = IO.pipe
    Gyre.run do |task|
      task.async("left behind") { sleep }
      pid = fork do
        writer.puts printed.grep(/thread|left/).map(&:strip)
        exit!(0)
      end
      Process.wait(pid)
      writer.close
      assert_match(/\Athread main, \w+:\n/, reader.read)
      task.children.each(&:stop)
    end
  ensure
    [reader, writer].each(&:close)
  end
end
