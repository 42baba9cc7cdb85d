# frozen_string_literal: true

# Checks the contract of the native backends (ext/gyre/loop/backend.h). A plain C program drives
# each backend that opens here, without and with sanitizers. On Linux only `rake test:kqueue` builds
# kqueue's.
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

  def test_kqueue_keeps_the_contract
    skip "kqueue is not in this build" unless GyreTest::Engines::ALL.include?("kqueue")
    assert_kept [*GyreTest::PlainC::PLAIN, "test/c/libkqueue.c"], "kqueue"
  end

  private

  def assert_kept(flags, *backends)
    output = assert_plain_c("backend_test", flags, *backends, within_s: 120)
    assert_match(/: keeps the contract$/, output.out)
  end
end
