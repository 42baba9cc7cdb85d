# frozen_string_literal: true

# Active Support's state in the fibers of a job. Active Support is here, in processes of its own;
# test/frameworks has Rails and Active Record.

require "test_helper"

class WebExecutionStateTest < Minitest::Test
  BEFORE = <<~'RUBY'
    require "gyre"
    require "active_support"
    require "active_support/isolated_execution_state"
    require "gyre/web/frameworks/execution_state"
    State = ActiveSupport::IsolatedExecutionState
    Gyre::Web::ExecutionState.install
    State.isolation_level = :fiber
    def seen = [State[:user], Enumerator.new { |out| sleep(0.001) && out << State[:user] }.next]
  RUBY

  def test_inner_fibers_have_the_state_of_their_job_and_no_other_has
    assert_equal "[[nil, nil], [0, 0], [1, 1], [nil, nil]]\n", run_with(<<~'RUBY')
      p(Gyre.run do |task|
        first = task.async { seen }.wait
        set = Array.new(2) { |number| task.async { (State[:user] = number) && sleep(0.001) && seen } }.map(&:wait)
        [first, *set, task.async { seen }.wait]
      end)
    RUBY
  end

  def test_without_a_server_state_belongs_to_the_thread
    assert_equal "[1, 1]\n[nil, nil]\n", run_with("State[:user] = 1; p seen; p Thread.new { seen }.value")
  end

  def test_the_level_may_be_set_again_and_threads_stay_threads
    assert_equal "[Gyre::Job, Thread, Gyre::Job]\n", run_with(<<~'RUBY')
      p(%i[fiber thread fiber].map { |level| (State.isolation_level = level) && State.scope })
    RUBY
  end

  # As Rails up to 8.1: the stream's thread gets the state of the request's thread.
  def test_a_thread_of_a_stream_has_the_state_of_its_request
    assert_equal "[[0, 0], [1, 1], [nil, nil]]\n", run_with(<<~'RUBY')
      class Streaming
        def process
          thread = Thread.current
          new_controller_thread { (found = State.share_with(thread) { seen }).is_a?(Array) ? found : seen } # a block from 8.0 on
        end

        private

        def new_controller_thread(&block) = Thread.new(&block).value
      end
      Streaming.prepend(Gyre::Web::ExecutionState::Live)
      p(Gyre.run do |task|
        streams = Array.new(2) { |number| task.async { (State[:user] = number) && Streaming.new.process } }.map(&:wait)
        [*streams, task.async { Streaming.new.process }.wait]
      end)
    RUBY
  end

  def test_one_job_at_a_time_has_the_lock_with_its_inner_fibers
    assert_equal "[[1, true], 1]\n", run_with(<<~'RUBY')
      lock, inside, most = Gyre::Web::ExecutionState::Lock.new, 0, 0
      Gyre.run do |task|
        Array.new(3) do
          task.async do
            lock.synchronize do
              most = [most, inside += 1].max
              sleep 0.001
              inner = Enumerator.new { |out| out << lock.synchronize { true } }
              @inner = inner.next
              inside -= 1
            end
          end
        end.each(&:wait)
      end
      p [[most, @inner], (lock.synchronize { raise "oh" } rescue lock.synchronize { 1 })]
    RUBY
  end

  private

  def run_with(code)
    output = ruby("-e", BEFORE + code, gems: true)
    assert_empty output.err.lines.grep_v(%r{/gems/.*warning: }).join
    output.out
  end
end
