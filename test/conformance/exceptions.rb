# frozen_string_literal: true

# The tests of CRuby's test/fiber that cannot pass, each with the Rubies that have it
# (RUBY_VERSION's beginning) and the reason. Read by rakelib/conformance.rake: one that passes after
# all fails the run.
module GyreConformance
  EXCEPTIONS = {
    "TestFiberMutex#test_mutex_deadlock" => {
      ruby: "3.1.",
      reason: "leaves a scheduled fiber by Fiber.yield, which goes to the fiber that resumed it; ours are entered by transfer, as " \
              "CRuby's own are since 3.3, and the test has changed with them"
    }
  }.freeze
end
