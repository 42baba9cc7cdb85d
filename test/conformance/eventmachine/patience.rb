# frozen_string_literal: true

# Gives EventMachine's tests ten seconds where they give 0.25, which a busy machine does not keep.
# Loaded before each of its files by rakelib/conformance_eventmachine.rake.
require "em_test_helper"

Test::Unit::TestCase.send(:remove_const, :TIMEOUT_INTERVAL)
Test::Unit::TestCase::TIMEOUT_INTERVAL = 10
