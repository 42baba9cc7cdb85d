# frozen_string_literal: true

# Gyre.signals: signals as values; Gyre::Signals.handle: handlers for the time of a block.

require "test_helper"
require "support/engines"
require "gyre"

GyreTest::Engines.test_case("SignalsTest") do
  def test_signals_come_as_values_in_their_order
    Gyre.run do |task|
      signals = Gyre.signals("INT", :TERM, "SIGHUP", "USR1", "USR2")
      assert_equal %w[INT TERM HUP USR1 USR2], signals.names
      seen = []
      waiting = task.async { 5.times { seen << signals.wait(timeout: 60) } }
      signals.names.each_with_index do |name, index|
        Process.kill(name, Process.pid)
        eventually { sleep(0.001) && seen.size > index }
      end
      waiting.wait
      assert_equal %w[INT TERM HUP USR1 USR2], seen
      assert_nil signals.wait(timeout: 0.001)
    end
  end

  def test_each_listener_gets_each_signal_and_only_its_own
    Gyre.run do
      Gyre.signals("USR1", "USR2") do |both|
        Gyre.signals("USR1") do |one|
          Process.kill("USR1", Process.pid)
          assert_equal %w[USR1 USR1], [both.wait(timeout: 60), one.wait(timeout: 60)]
          Process.kill("USR2", Process.pid)
          assert_equal ["USR2", nil], [both.wait(timeout: 60), one.wait(timeout: 0)]
        end
        Process.kill("USR1", Process.pid)
        assert_equal "USR1", both.wait(timeout: 60)
      end
    end
  end

  def test_former_handlers_come_back_with_the_block_and_with_the_task
    seen = []
    before = trap("USR2") { seen << :former }
    assert_equal(:value, Gyre.signals("USR2") { :value })
    assert_raises(KeyError) { Gyre.signals("USR2") { raise KeyError } }
    Gyre.run do |task|
      task.async do
        signals = Gyre.signals("USR2")
        Process.kill("USR2", Process.pid)
        assert_equal "USR2", signals.wait(timeout: 60)
      end.wait
      assert_empty seen
      Process.kill("USR2", Process.pid)
      eventually { seen == [:former] }
    end
  ensure
    trap("USR2", before || "DEFAULT")
  end

  def test_a_thread_without_a_scheduler_may_listen
    Gyre.signals("USR1") do |signals|
      seen = []
      thread = Thread.new { 2.times { seen << signals.wait } }
      2.times do |index|
        Process.kill("USR1", Process.pid)
        eventually { seen.size > index }
      end
      thread.join
      assert_equal %w[USR1 USR1], seen
    end
  end

  def test_it_is_a_case_of_select
    Gyre.run do
      signals = Gyre.signals("USR1")
      Process.kill("USR1", Process.pid)
      assert_equal("USR1", Gyre.select(timeout: 60) { |on| on.signal(signals) })
    end
  end

  def test_closing_ends_the_waits
    Gyre.run do |task|
      signals = Gyre.signals("USR1")
      waiting = [task.async { signals.wait }, task.async { signals.each.to_a }]
      assert_same signals, signals.close.close
      assert_equal [nil, []], waiting.map(&:wait)
    end
  end

  def test_a_closed_one_leaves_no_task
    Gyre.run do |task|
      3.times { Gyre.signals("HUP").close }
      Gyre.signals("HUP").tap { |signals| Thread.new { signals.close }.join }
      eventually { task.children.empty? }
    end
  end

  def test_signals_that_cannot_be_trapped_are_refused
    before = trap("USR1", "DEFAULT")
    assert_raises(ArgumentError) { Gyre.signals { nil } }
    assert_raises(RuntimeError) { Gyre.signals("USR1") }
    %w[NOSUCH KILL VTALRM].each { |name| assert_raises(ArgumentError) { Gyre.signals("USR1", name) { nil } } }
    assert_equal "DEFAULT", trap("USR1", before || "DEFAULT")
  end

  def test_a_signal_has_its_former_effect_in_a_forked_child
    Gyre.run do
      Gyre.signals("TERM") do |signals|
        reader, writer = IO.pipe
        pid = fork do
          writer.write("x")
          sleep 100
          exit! 1
        end
        assert_equal "x", reader.read(1)
        Process.kill("TERM", pid)
        assert_equal 15, Process.wait2(pid).last.termsig
        assert_nil signals.wait(timeout: 0)
      ensure
        [reader, writer].each(&:close)
      end
    end
  end

  def test_a_forked_child_may_listen_itself
    code = <<~RUBY
      require "gyre"
      Gyre.signals("USR1") do
        pid = fork do
          Gyre.signals("USR1") { |own| Process.kill("USR1", Process.pid) && puts(own.wait(timeout: 60)) }
          Process.kill("USR1", Process.pid)
          sleep 30
        end
        puts Process.wait2(pid).last.termsig == Signal.list["USR1"]
      end
    RUBY
    run = ruby("-e", code, env: { "GYRE_BACKEND" => backend })
    assert_equal ["USR1\ntrue\n", ""], [run.out, run.err]
  end

  def test_a_handler_for_the_time_of_a_block_sees_them_by_name
    seen = []
    value = Gyre::Signals.handle(%w[USR1 USR2], ->(name) { seen << name }) do
      %w[USR1 USR2].each do |name|
        Process.kill(name, Process.pid)
        eventually { seen.last == name }
      end
      :value
    end
    assert_equal [%w[USR1 USR2], :value], [seen, value]
  end

  def test_after_it_earlier_handlers_come_back_also_after_an_exception
    seen = []
    before = trap("USR2") { seen << :mine }
    assert_raises(RuntimeError) { Gyre::Signals.handle(%w[USR2], ->(_name) {}) { raise "no" } }
    Process.kill("USR2", Process.pid)
    eventually { seen == [:mine] }
  ensure
    trap("USR2", before || "DEFAULT")
  end

  def test_a_loop_may_watch_a_signal_beside_a_listener_and_outlive_it
    seen = []
    before = trap("USR1") { seen << :former }
    Gyre.run do
      signals = Gyre.signals("USR1")
      evloop = Gyre::Loop.new
      evloop.watch_signal(:usr1, "USR1")
      Gyre::Signals.handle(%w[USR1], ->(name) { seen << name }) { signals.close }
      evloop.watch_timer(:late, 60)
      Process.kill("USR1", Process.pid)
      assert_equal :usr1, evloop.next_event
      assert_empty seen
      evloop.close
      Process.kill("USR1", Process.pid)
      eventually { seen == [:former] }
    end
  ensure
    trap("USR1", before || "DEFAULT")
  end

  def test_a_loop_that_is_closed_first_leaves_the_listener_alone
    Gyre.run do
      evloop = Gyre::Loop.new
      evloop.watch_signal(:usr1, "USR1")
      Gyre.signals("USR1") do |signals|
        evloop.close
        Process.kill("USR1", Process.pid)
        assert_equal "USR1", signals.wait(timeout: 60)
      end
    end
  end

  def test_when_one_of_its_signals_cannot_be_handled_the_others_are_as_they_were
    before = trap("USR1", "DEFAULT")
    assert_raises(SystemCallError, ArgumentError) { Gyre::Signals.handle(%w[USR1 KILL], ->(_name) {}) { flunk } }
    assert_equal "DEFAULT", trap("USR1", before || "DEFAULT")
  end

  def test_a_listener_goes_on_in_the_daemon_that_its_process_becomes
    reader, writer = IO.pipe
    code = <<~RUBY
      require "gyre"
      out = IO.for_fd(#{writer.fileno})
      Gyre.run do
        evloop = Gyre::Loop.new # has nothing watched in a daemon
        evloop.watch_signal(:term, "TERM")
        Gyre.signals("TERM") do |signals|
          Process.daemon
          Process.kill("TERM", Process.pid)
          out.write(signals.wait(timeout: 60))
        end
      rescue ThreadError => error
        out.write(error.full_message)
      end
    RUBY
    pid = Process.spawn({ "GYRE_BACKEND" => backend }, RbConfig.ruby, "-w", "-I#{GyreTest::Helpers::LIB}", "-e", code, writer => writer)
    writer.close
    assert_predicate Process.wait2(pid).last, :success?
    assert_equal "TERM", reader.read
  ensure
    [reader, writer].each(&:close)
  end
end
