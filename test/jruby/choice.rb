# frozen_string_literal: true

# What is chosen where there is no extension.
require "test_helper"
require "gyre/loop"

class JRubyChoiceTest < Minitest::Test
  def test_select_is_all_there_is
    assert_equal ["select"], Gyre::Loop.backends
    assert_equal ["select"], Gyre::Loop.availables
    assert_equal "select", Gyre::Loop.backend
    assert_equal "select", Gyre::Loop.new.tap(&:close).backend
  end

  def test_explain_has_it
    taken, other = Gyre::Loop.explain.lines
    assert_equal "backend: select (portable engine, pure Ruby), the best one here\n", taken
    assert_match(/\Anot taken: the native engine \(C extension\): .*gyre_ext\n\z/, other)
  end

  def test_a_native_one_is_refused_with_a_remedy
    error = assert_raises(ArgumentError) { Gyre::Loop.new(:epoll) }
    assert_match(/"epoll" is not here: without the C extension/, error.message)
  end
end
