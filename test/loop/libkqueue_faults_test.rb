# frozen_string_literal: true

# The faults of libkqueue 2.7.0 that the kqueue backend meets on Linux, by a C program without Gyre
# (test/c/libkqueue_faults.c). One that is gone fails here: test/c/libkqueue.c, or what the backend
# does about it, may then go too.
require "test_helper"
require "support/engines"
require "support/plain_c"

class LibkqueueFaultsTest < Minitest::Test
  include GyreTest::PlainC::Assertions

  def test_these_faults_are_libkqueues
    skip "kqueue is not in this build" unless GyreTest::Engines::ALL.include?("kqueue")
    %w[number device fork].each { |fault| assert_plain_c("libkqueue_faults", GyreTest::PlainC::PLAIN, fault) }
  end
end
