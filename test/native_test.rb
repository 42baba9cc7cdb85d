# frozen_string_literal: true

# How the C extension is found, and that nothing of it is touched where it is not wanted.
require "test_helper"
require "gyre/native"

class NativeTest < Minitest::Test
  def test_it_is_available_or_has_a_reason
    assert_equal Gyre::Native.available?, Gyre::Native.load_error.nil?
  end

  def test_each_ruby_looks_for_its_own_build_first
    own, installed = Gyre::Native.features
    assert_equal "gyre/#{RUBY_ENGINE}-#{RbConfig::CONFIG["ruby_version"]}/gyre_ext", own
    assert_equal "gyre/gyre_ext", installed
  end

  def test_a_missing_extension_is_not_an_error
    output = ruby("-e", <<~RUBY)
      require "gyre/native"
      def (Gyre::Native).require(_) = raise(LoadError, "no such file")
      p Gyre::Native.available?, Gyre::Native.load_error.message
    RUBY
    assert_equal ["false\n\"no such file\"\n", ""], [output.out, output.err]
  end

  def test_with_the_portable_engine_no_c_code_is_loaded
    output = ruby("-e", <<~RUBY, env: { "GYRE_BACKEND" => "select" })
      require "gyre"
      require "gyre/web"
      Gyre.run { |task| task.async { sleep 0 }.wait }
      puts $LOADED_FEATURES.grep(/gyre_ext|native\\.rb/)
    RUBY
    assert_equal ["", ""], [output.out, output.err]
  end

  def test_it_loads_while_each_allocation_collects_garbage
    skip "no extension" unless Gyre::Native.available?

    output = ruby("-e", <<~RUBY, within_s: 110)
      require "gyre/native"
      GC.stress = true
      Gyre::Native.available?
      GC.stress = false
      require "gyre"
      Gyre.run { |task| puts task.async { "runs" }.wait }
    RUBY
    assert_equal ["runs\n", ""], [output.out, output.err]
  end

  # The extension relies on that, and does not look at the type of self again.
  def test_ruby_calls_methods_of_native_objects_for_no_others_and_makes_none_without_their_allocator
    skip "no extension" unless Gyre::Native.available?
    require "gyre/http"
    assert_raises(TypeError) { Gyre::Scheduler.instance_method(:yield).bind(Object.new) }
    assert_raises(TypeError) { Gyre::HTTP::H1::Exchange.instance_method(:read_body).bind(Object.new) }
    assert_raises(TypeError) { Gyre::HTTP::H1::Exchange.allocate }
    assert Gyre::Scheduler.allocate.closed?
  end
end
