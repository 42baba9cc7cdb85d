# frozen_string_literal: true

# A peer's gem that does not compile on this Ruby is found in Bundler's output.
require "test_helper"
require_relative "../../bench/support/setup"

class BenchSetupTest < Minitest::Test
  FAILED = <<~TEXT
    bundle install --quiet: failed
    An error occurred while installing eventmachine (1.2.7), and Bundler cannot
    continue.

    In gems.rb:
      analogger was resolved to 1.1.0, which depends on
        eventmachine
  TEXT

  def test_the_gem_that_was_asked_for_is_named
    assert_equal "analogger", Bench::Setup.culprit(FAILED)
    assert_equal "iodine", Bench::Setup.culprit("cannot continue.\n\nIn gems.rb:\n  iodine\n")
    assert_nil Bench::Setup.culprit("Could not find gem 'iodine'")
  end

  def test_what_a_package_is_needed_for_is_a_program_or_a_header
    assert_equal "/usr/include/stdio.h", Bench::Setup.program("stdio.h")
    assert_nil Bench::Setup.program("of_no_package.h")
    refute_nil Bench::Setup.program("sh")
  end
end
