# frozen_string_literal: true

# The contract of the native backends (ext/gyre/loop/backend.h), by a plain C program that drives
# each one that is built and opens here: as it is and with sanitizers. The kqueue one, which only
# `rake test:kqueue` builds on Linux, wakes in both of its ways.
require "test_helper"
require "support/engines"
require "support/plain_c"

class BackendContractTest < Minitest::Test
  include GyreTest::PlainC::Assertions

  def test_each_backend_keeps_the_contract
    assert_kept GyreTest::PlainC::PLAIN
  end

  def test_each_backend_keeps_the_contract_with_sanitizers
    assert_kept GyreTest::PlainC::SANITIZED
  end

  def test_kqueue_keeps_the_contract_when_a_descriptor_or_a_user_event_wakes_it
    skip "kqueue is not in this build" unless GyreTest::Engines::ALL.include?("kqueue")
    [[], ["-DGYRE_KQUEUE_USER_WAKEUP"]].each { |flags| assert_kept [*GyreTest::PlainC::PLAIN, *flags, "test/c/libkqueue.c"], "kqueue" }
  end

  private

  def assert_kept(flags, *backends)
    output = assert_plain_c("backend_test", flags, *backends, within_s: 120)
    assert_match(/: keeps the contract$/, output.out)
  end
end
