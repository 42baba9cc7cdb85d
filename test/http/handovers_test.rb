# frozen_string_literal: true

# A call from another thread, and what arrives in that thread at each of its steps. (With real
# requests: test/contracts/http1_contract_threads_test.rb.)

require "test_helper"
require "gyre/http/handovers"

class HTTP1HandoversTest < Minitest::Test
  # Stands for an exception of another thread's.
  class Raised < StandardError; end

  # The loop: runs what was posted when a test has it so.
  class Acceptor
    attr_accessor :handovers, :when_posted

    def post
      @when_posted&.call
    end

    def turn
      @handovers.start(self)
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
    @handovers = @acceptor.handovers = Gyre::HTTP::Handovers.new(@acceptor)
    @connection = Connection.new
  end

  def test_a_call_returns_what_the_loop_s_thread_found
    @acceptor.when_posted = -> { @acceptor.turn }
    assert_equal "xxx", @handovers.call(@connection, :read_body, [3])
    assert_raises(NoMethodError) { @handovers.call(@connection, :read_nothing, []) }
  end

  def test_what_a_thread_asked_for_is_not_done_when_it_left_before_it_waited
    @acceptor.when_posted = -> { raise Raised }
    assert_raises(Raised) { @handovers.call(@connection, :read_body, [3]) }
    @acceptor.when_posted = nil
    @acceptor.turn
    assert_empty @connection.calls
  end

  def test_what_a_thread_asked_for_is_not_done_when_it_left_while_it_waited
    waiting = Thread::Queue.new
    @acceptor.when_posted = -> { waiting << true }
    thread = Thread.new { @handovers.call(@connection, :read_body, [3]) }
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
    thread = Thread.new { @handovers.call(@connection, :read_body, [3]) }
    thread.report_on_exception = false
    waiting.pop
    @handovers.close
    assert_raises(IOError) { thread.value }
    assert_raises(IOError) { @handovers.call(@connection, :read_body, [3]) }
    @acceptor.turn
    assert_empty @connection.calls
  end
end
