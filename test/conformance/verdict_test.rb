# frozen_string_literal: true

# How the results of CRuby's tests are judged.
require "test_helper"
require_relative "exceptions"
require_relative "verdict"

class ConformanceVerdictTest < Minitest::Test
  def test_tests_that_pass_are_counted
    assert_equal [2, 0, 0], counts(["started A#x", "passed A#x\t", "started A#y", "passed A#y\t", "finished"])
  end

  def test_a_failure_that_is_not_listed_fails
    assert_equal [0, 1, 0], counts(["started A#x", "failed A#x\tIOError: no", "finished"])
    assert_includes @verdict.notes.first, "A#x: IOError: no"
  end

  def test_a_failure_in_the_teardown_fails
    assert_equal [0, 1, 0], counts(["started A#x", "passed A#x\t", "failed A#x\tIOError: late", "finished"])
    assert_equal [0, 1, 0], counts(["started A#x", "failed A#x\tIOError: late", "passed A#x\t", "finished"])
  end

  def test_a_listed_failure_is_skipped_with_its_reason
    assert_equal [0, 0, 1], counts(["started A#x", "failed A#x\tIOError", "finished"], { "A#x" => "the reason" })
    assert_includes @verdict.notes.first, "the reason"
  end

  def test_a_listed_test_that_passes_fails
    assert_equal [0, 1, 0], counts(["started A#x", "passed A#x\t", "finished"], { "A#x" => "the reason" })
  end

  def test_a_listed_test_that_is_not_there_fails
    assert_equal [1, 1, 0], counts(["started A#x", "passed A#x\t", "finished"], { "A#gone" => "the reason" })
  end

  def test_a_test_that_does_not_end_fails_once
    assert_equal [1, 1, 0], counts(["started A#x", "passed A#x\t", "started A#y"])
    assert_includes @verdict.notes.first, "A#y: it did not end (killed)"
  end

  def test_a_file_that_dies_between_its_tests_or_has_none_fails
    assert_equal [1, 1, 0], counts(["started A#x", "passed A#x\t"])
    assert_equal [0, 1, 0], counts([])
    assert_equal [0, 1, 0], counts(["finished"])
  end

  def test_a_test_that_leaves_itself_out_is_skipped
    assert_equal [0, 0, 1], counts(["started A#x", "omitted A#x\tPendedError: not here", "finished"])
  end

  def test_each_exception_has_a_reason_and_a_ruby
    GyreConformance::EXCEPTIONS.each_value { |exception| assert_equal %i[reason ruby], exception.keys.sort }
  end

  private

  def counts(lines, exceptions = {})
    @verdict = GyreConformance::Verdict.new(exceptions)
    @verdict.add("test_a.rb", lines, "killed")
    @verdict.finish
    [@verdict.passed, @verdict.failed, @verdict.skipped]
  end
end
