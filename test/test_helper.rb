# frozen_string_literal: true

# Required by every test file: gems, load path, Minitest and what the suite adds to it (support/). Loads no part of
# Gyre; a test requires what it tests.
require_relative "support/bundle"
require_relative "support/warnings"

%w[lib test].each do |folder|
  path = File.expand_path("../#{folder}", __dir__)
  $LOAD_PATH.unshift(path) unless $LOAD_PATH.include?(path)
end

require "minitest/autorun"
require_relative "support/helpers"
require_relative "support/lifecycle_checks"
require_relative "support/report"

Minitest::Test.include(GyreTest::Helpers, GyreTest::LifecycleChecks)
