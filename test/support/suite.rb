# frozen_string_literal: true

# What every test runs with: gems, load path, Minitest and what the suite adds to it. Loads no part
# of Gyre; a test requires what it tests. Required by test_helper, and by run.rb before it forks:
# nothing here may start a thread.
require_relative "signals"
require_relative "bundle"
require_relative "warnings"
require_relative "fork_guard"

# Our files are UTF-8 whatever the locale; a fresh machine has none. Programs started by the tests
# have the machine's own.
verbose, $VERBOSE = $VERBOSE, nil
Encoding.default_external = Encoding::UTF_8
$VERBOSE = verbose

%w[lib test].each do |folder|
  path = File.expand_path("../../#{folder}", __dir__)
  $LOAD_PATH.unshift(path) unless $LOAD_PATH.include?(path)
end

require "minitest"
require "minitest/spec"
require "minitest/mock"
require_relative "helpers"
require_relative "lifecycle_checks"
require_relative "report"

Minitest::Test.include(GyreTest::Helpers, GyreTest::LifecycleChecks)
