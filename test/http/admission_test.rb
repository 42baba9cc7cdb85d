# frozen_string_literal: true

# Places and the queue before them (ext/gyre/http/http_admission.h), by a plain C program; with
# requests they are tested in test/contracts/.

require "test_helper"
require "support/plain_c"
require "tmpdir"

class HTTPAdmissionTest < Minitest::Test
  def test_places_are_given_in_order_and_what_waits_too_long_is_refused
    assert_passes GyreTest::PlainC::PLAIN
  end

  def test_the_same_with_sanitizers
    assert_passes GyreTest::PlainC::SANITIZED
  end

  private

  def assert_passes(flags)
    Dir.mktmpdir("gyre-admission-") do |folder|
      program = GyreTest::PlainC.build("http_admission_test", folder, flags) or skip "no C compiler that can do it"
      output = run_program({ "LD_PRELOAD" => nil }, program, within_s: 60)
      assert output.status.success?, "#{output.out}#{output.err}"
    end
  end
end
