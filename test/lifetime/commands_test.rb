# frozen_string_literal: true

# What a server is told while it is busy, from threads and signal handlers: Lifetime::Commands.

require "test_helper"
require "pty"
require "gyre"
require "gyre/signals"
require "gyre/lifetime/commands"

class LifetimeCommandsTest < Minitest::Test
  def setup
    @commands = commands(0.05)
    @events = Thread::Queue.new
  end

  def test_messages_come_in_their_order_to_a_fiber_that_waits
    taking do |task|
      told = task.async { Array.new(3) { @commands.take } }
      Thread.new { %i[two one two].each { |message| @commands.post(message) } }.join
      assert_equal %i[two one two], told.wait
    end
  end

  def test_a_signal_handler_wakes_a_waiting_task
    taking do
      Gyre::Signals.handle(%w[USR2], ->(_name) { @commands.post(:one) }) do
        Process.kill("USR2", Process.pid)
        assert_equal :one, @commands.take
      end
    end
  ensure
    trap("USR2", "DEFAULT")
  end

  def test_it_takes_nothing_after_its_stop
    taking { nil }
    Gyre.run do
      @commands.post(:one)
      sleep(0)
      assert_predicate @commands.instance_variable_get(:@taken), :empty?
    end
  end

  # A hook at a server's end may wait for what it likes.
  def test_a_loop_that_runs_is_left_alone_although_nothing_takes_messages
    @commands = commands(60)
    taking do
      @commands.watch(Thread.current, 0) { |event| @events << event }
      eventually { @commands.instance_variable_get(:@watches).none?(&:alive?) }
    end
    assert_empty @events
  end

  def test_what_a_loop_computes_that_does_not_answer_is_stopped
    Thread.new do
      taking do
        @commands.watch(Thread.current, 0) { |event| @events << event }
        loop { nil }
      rescue Gyre::Stop
        @events << :stopped
        raise
      end
    end.join
    assert_equal %i[stuck stopped], Array.new(@events.size) { @events.pop } - [:still] # the end may take longer
  end

  def test_it_reports_when_that_did_not_help
    thread = Thread.new { Thread.handle_interrupt(Gyre::Stop => :never) { sleep } }
    @commands.watch(thread, 0) { |event| @events << event }
    assert_equal %i[stuck still], [@events.pop, @events.pop]
  ensure
    @commands.stop
    thread.kill.join
  end

  def test_a_terminal_whose_stream_the_program_has_closed_has_not_ended
    program = 'require "gyre/lifetime/commands"; terminal = Gyre::Lifetime::Terminal.new; $stdin.close; puts "ended: #{terminal.ended?}"'
    master, terminal = PTY.open
    told, out = IO.pipe
    pid = spawn("setsid", "--ctty", "--wait", RbConfig.ruby, "-I#{File.join(ROOT, "lib")}", "-e", program, in: terminal, out: out)
    out.close
    assert_equal "ended: false\n", told.read
  ensure
    Process.wait(pid) if pid
    [master, terminal, told].each { |io| io&.close }
  end

  private

  def commands(answer_s) = Gyre::Lifetime::Commands.new(answer_s: answer_s)

  # Inside of Gyre.run, while messages are taken.
  def taking
    Gyre.run do |task|
      @commands.start
      yield task
    ensure
      @commands.stop
    end
  end
end
