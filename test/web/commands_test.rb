# frozen_string_literal: true

# What a server is told while it is busy: Gyre::Web::Commands.

require "test_helper"
require "gyre"
require "gyre/web/commands"

class WebCommandsTest < Minitest::Test
  def setup
    @commands = Gyre::Web::Commands.new(:stop, :ended)
    @events = Thread::Queue.new
  end

  def teardown = @commands.close

  def test_messages_come_in_their_order_to_a_fiber_that_waits
    Gyre.run do |task|
      @commands.start
      told = task.async { Array.new(2) { @commands.take } }
      Thread.new { %i[stop ended].each { |message| @commands.post(message) } }.join
      assert_equal %i[stop ended], told.wait
      @commands.stop
    end
  end

  # A hook at a server's end may wait for what it likes.
  def test_a_loop_that_runs_answers_the_guard_although_nothing_takes_messages
    Gyre.run do
      @commands.start
      @commands.watch(Thread.current, 0) { |event| @events << event }
      guard = @commands.instance_variable_get(:@guard)
      eventually { guard.instance_variable_get(:@threads).none?(&:alive?) }
      @commands.stop
    end
    assert_empty @events
  end

  def test_it_takes_nothing_after_its_stop
    Gyre.run do
      @commands.start
      @commands.stop
      @commands.post(:stop)
      sleep(0)
      assert_predicate @commands.instance_variable_get(:@taken), :empty?
    end
  end
end
