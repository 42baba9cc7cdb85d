# frozen_string_literal: true

# The contract of the keyed loops over every backend.
require "test_helper"
require "support/engines"
require "contracts/loop_contract"

LoopContract.constants.grep(/\A[A-Z][a-z]/).each do |part|
  GyreTest::Engines.test_case("Loop#{part}Test", backends: GyreTest::Engines::ALL) { include LoopContract, LoopContract.const_get(part) }
end
