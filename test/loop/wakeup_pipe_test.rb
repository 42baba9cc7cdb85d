# frozen_string_literal: true

# A pipe during whose making another thread raises in the one that makes it.
require "test_helper"
require "minitest/mock"
require "gyre/loop/wakeup_pipe"

class WakeupPipeTest < Minitest::Test
  # No StandardError, as Timeout's own.
  class Storm < Exception; end # rubocop:disable Lint/InheritException

  def test_an_exception_from_another_thread_waits_until_it_is_whole
    made_while { |maker| maker.raise(Storm) }
    assert_equal Storm, @raised
  end

  def test_so_does_the_threads_end
    made_while(&:kill)
    assert_nil @raised
  end

  private

  def made_while(&interrupt)
    make, made = IO.method(:pipe), []
    interrupted = -> { make.call.tap { |ends| Thread.new(Thread.current, &interrupt).join && made.concat(ends) } }
    Thread.new do
      IO.stub(:pipe, interrupted) { Gyre::Loop::WakeupPipe.open }
      flunk "what interrupted it is lost"
    rescue Storm => error
      @raised = error.class
    end.join
    assert_equal 2, made.size
    made.each(&:close)
  end
end
