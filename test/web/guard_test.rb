# frozen_string_literal: true

require "test_helper"
require "gyre/web/guard"

class WebGuardTest < Minitest::Test
  # Answers a given number of times.
  class FakePipe
    attr_accessor :guard, :answers

    def post(message)
      raise message.inspect unless message == :hello
      return if @answers.zero?

      @answers -= 1
      @guard.received
    end
  end

  def setup
    @control = FakePipe.new
    @control.guard = @guard = Gyre::Web::Guard.new(@control, answer_s: 0.05)
    @events = Thread::Queue.new
  end

  # @param answers [Integer] to the first question
  # @param later [Integer] to the second one
  def watched(answers, later: 0)
    @control.answers = answers
    thread = Thread.new do
      sleep
    rescue Gyre::Stop
      :stopped
    end
    @guard.watch(thread, 0) do |event|
      @control.answers = later
      @events << event
    end
    yield thread
  ensure
    @guard.close
    thread.kill.join
  end

  def test_a_loop_that_answers_is_left_alone
    watched(1) do |thread|
      eventually { @control.answers.zero? }
      assert_predicate thread, :alive?
    end
    assert_empty @events
  end

  def test_what_a_loop_computes_that_does_not_answer_is_stopped
    watched(0, later: 1) do |thread|
      assert_equal :stuck, @events.pop
      assert_equal :stopped, thread.value
      eventually { @control.answers.zero? }
    end
    assert_empty @events
  end

  def test_it_reports_when_that_did_not_help
    watched(0) { assert_equal %i[stuck still], [@events.pop, @events.pop] }
  end
end
