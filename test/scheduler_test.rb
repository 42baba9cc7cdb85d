# frozen_string_literal: true

# The contract of the schedulers over every backend.
require "test_helper"
require "support/engines"
require "contracts/scheduler_contract"

SchedulerContract.constants.grep(/\A[A-Z][a-z]/).each do |part|
  GyreTest::Engines.test_case("Scheduler#{part}Test", backends: GyreTest::Engines::ALL) do
    include SchedulerContract, SchedulerContract.const_get(part)
  end
end
