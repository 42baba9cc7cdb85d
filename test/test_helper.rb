# frozen_string_literal: true

# Required by every test file: gems, load path, Minitest and what the suite adds to it (support/). Loads no part of
# Gyre; a test requires what it tests.
require_relative "support/bundle"
require_relative "support/warnings"
require_relative "support/fork_guard"

# Our files are UTF-8 whatever the locale; a fresh machine has none. What the tests start has the machine's own.
verbose, $VERBOSE = $VERBOSE, nil
Encoding.default_external = Encoding::UTF_8
$VERBOSE = verbose

%w[lib test].each do |folder|
  path = File.expand_path("../#{folder}", __dir__)
  $LOAD_PATH.unshift(path) unless $LOAD_PATH.include?(path)
end

require "minitest/autorun"
require_relative "support/helpers"
require_relative "support/lifecycle_checks"
require_relative "support/report"

Minitest::Test.include(GyreTest::Helpers, GyreTest::LifecycleChecks)
