# frozen_string_literal: true

# Which engine is taken, and what is said about it. What the engines do is in test/contracts/.
require "test_helper"
require "gyre/loop"

class LoopTest < Minitest::Test
  def test_select_is_the_portable_engine
    assert_equal :portable, Gyre::Loop.engine("select")
    assert_equal :portable, Gyre::Loop.engine(:select)
  end

  def test_epoll_is_the_native_engine
    skip "this checkout has no extension" unless native_here?
    assert_equal :native, Gyre::Loop.engine("epoll")
  end

  def test_without_a_name_the_best_one_is_taken
    with_backend(nil) { assert_equal native_here? ? :native : :portable, Gyre::Loop.engine }
    with_backend("") { assert_equal native_here? ? :native : :portable, Gyre::Loop.engine }
  end

  def test_the_environment_chooses
    with_backend("select") { assert_equal :portable, Gyre::Loop.engine }
  end

  def test_an_unknown_name_is_refused_with_the_choices
    error = assert_raises(ArgumentError) { Gyre::Loop.engine("kqueue") }
    assert_equal 'unknown backend "kqueue": choose one of epoll, select', error.message
  end

  def test_epoll_without_the_extension_says_what_to_do
    with_backend("select") do
      error = assert_raises(RuntimeError) { Gyre::Loop.engine("epoll") }
      assert_match(/needs the C extension.*rake compile.*GYRE_BACKEND=select/, error.message)
    end
  end

  def test_explain_says_what_was_taken_and_what_was_not
    with_backend("select") do
      taken, other = Gyre::Loop.explain.lines
      assert_equal "backend: select (portable engine, pure Ruby), as GYRE_BACKEND says\n", taken
      assert_equal "not taken: epoll (native engine, C extension): GYRE_BACKEND=select\n", other
    end
  end

  def test_explain_says_why_the_extension_is_not_there
    output = ruby("-e", <<~RUBY, env: { "GYRE_BACKEND" => nil })
      require "gyre/loop"
      require "gyre/native"
      def (Gyre::Native).require(_) = raise(LoadError, "no such file")
      puts Gyre::Loop.explain
    RUBY
    assert_match(/\Abackend: select .*, the best one here$/, output.out)
    assert_match(/^not taken: epoll .*: no such file$/, output.out)
  end

  private

  def native_here?
    require "gyre/native"
    Gyre::Native.available?
  end

  def with_backend(name)
    before, ENV["GYRE_BACKEND"] = ENV["GYRE_BACKEND"], name
    yield
  ensure
    ENV["GYRE_BACKEND"] = before
  end
end
