# frozen_string_literal: true

# The loop layer on JRuby, whose Debian package is a Ruby 2.6: no fiber schedulers and no C extension, so select in pure Ruby
# under the keyed loop. JRuby starts slowly: one process runs all cases (test/jruby/test_helper.rb).
require "test_helper"

class JRubyTest < Minitest::Test
  # Layer 1, as it is tested elsewhere.
  FILES = %w[test/loop_test.rb test/loop/select_test.rb test/loop/timers_test.rb test/loop/lag_test.rb test/jruby/choice.rb].freeze

  def self.time_limit_s
    240
  end

  def test_the_loop_layer_passes_its_tests
    output = run_program(jruby_environment, need_program("jruby"), "--dev", "-Ilib", "-Itest/jruby", "-Itest",
      *FILES.flat_map { |path| ["-r./#{path}"] }, "-e", "", within_s: 200)
    assert output.status.success?, "#{output.out}#{output.err}"
    passed = output.out[/^(\d+) passed, 0 failed, \d+ skipped$/, 1].to_i
    assert_operator passed, :>, 60, output.out
  end

  private

  # The gems of this Ruby are nothing for JRuby.
  def jruby_environment
    without_bundle.merge("GYRE_BACKEND" => nil, "LC_ALL" => "C.UTF-8", "GEM_PATH" => nil, "GEM_HOME" => nil, "JRUBY_OPTS" => nil, "LD_PRELOAD" => nil)
  end
end
