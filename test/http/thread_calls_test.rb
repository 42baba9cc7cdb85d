# frozen_string_literal: true

# A call from another thread, and what arrives in that thread at each of its steps. (With real
# requests: test/contracts/http_contract_threads_test.rb.)

require "test_helper"
require "gyre/http/thread_calls"

class HTTPThreadCallsTest < Minitest::Test
  # Stands for an exception of another thread's.
  class Raised < StandardError; end

  # The loop: runs what was posted when a test has it so.
  class Acceptor
    attr_accessor :calls, :when_posted

    def post
      @when_posted&.call
    end

    def turn
      @calls.start(self)
    end

    def spawn(job)
      Fiber.new { job.call }.resume
    end
  end

  # Notes what it is asked for.
  class Connection
    attr_reader :calls

    def initialize
      @calls = []
    end

    def read_body(length)
      @calls << length
      "x" * length
    end

    def interrupt_reader(*); end
  end

  def setup
    @acceptor = Acceptor.new
    @calls = @acceptor.calls = Gyre::HTTP::ThreadCalls.new(@acceptor)
    @connection = Connection.new
  end

  def test_jobs_in_order_of_an_ended_server_keep_none_of_the_threads_next_server
    done = []
    @calls.post_in_order(-> { done << 1 })
    @calls.close # before its turn
    assert_raises(IOError) { @calls.post_in_order(-> { done << 2 }) }
    @acceptor.calls = Gyre::HTTP::ThreadCalls.new(@acceptor)
    @acceptor.calls.post_in_order(-> { raise Raised })
    @acceptor.calls.post_in_order(-> { done << 3 })
    assert_raises(Raised) { @acceptor.turn }
    @acceptor.calls.post_in_order(-> { done << 4 })
    @acceptor.turn
    assert_equal [1, 3, 4], done
  end

  def test_a_call_returns_the_loop_threads_result
    @acceptor.when_posted = -> { @acceptor.turn }
    assert_equal "xxx", @calls.call(@connection, :read_body, [3])
    assert_raises(NoMethodError) { @calls.call(@connection, :read_nothing, []) }
  end

  def test_a_thread_that_posts_without_end_leaves_the_loop_its_turns
    turns = []
    job = -> { turns << turns.size && @calls.post(job) }
    @calls.post(job)
    3.times { @acceptor.turn }
    assert_equal [0, 1, 2], turns
  end

  def test_a_call_of_a_thread_that_left_before_its_wait_is_not_made
    @acceptor.when_posted = -> { raise Raised }
    assert_raises(Raised) { @calls.call(@connection, :read_body, [3]) }
    @acceptor.when_posted = nil
    @acceptor.turn
    assert_empty @connection.calls
  end

  def test_a_call_of_a_thread_that_left_during_its_wait_is_not_made
    waiting = Thread::Queue.new
    @acceptor.when_posted = -> { waiting << true }
    thread = Thread.new { @calls.call(@connection, :read_body, [3]) }
    thread.report_on_exception = false
    waiting.pop
    thread.raise(Raised)
    assert_raises(Raised) { thread.value }
    @acceptor.turn
    assert_empty @connection.calls
  end

  def test_calls_end_with_the_server
    waiting = Thread::Queue.new
    @acceptor.when_posted = -> { waiting << true }
    thread = Thread.new { @calls.call(@connection, :read_body, [3]) }
    thread.report_on_exception = false
    waiting.pop
    @calls.close
    assert_raises(IOError) { thread.value }
    assert_raises(IOError) { @calls.call(@connection, :read_body, [3]) }
    @acceptor.turn
    assert_empty @connection.calls
  end
end
