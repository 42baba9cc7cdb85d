# frozen_string_literal: true

# The tests: every file in a process of its own, with warnings on. What the suite adds to Minitest is in test/support.
require "rbconfig"

# How the tasks start a run of the suite.
module GyreSuite
  module_function

  # Runs test files (all of them when none is named) in a Ruby of their own.
  # @param command [Array<String>] what stands before the arguments: this Ruby, perhaps under another program
  # @return [Boolean, nil] whether all passed
  def run(*files, environment: {}, command: [RbConfig.ruby], root: GyreBuild.root)
    options = ENV["TESTOPTS"].to_s.split
    system(environment, *command, "-w", "test/support/run.rb", *files, *options, chdir: root)
  end
end

desc "Run the tests (TEST=files for some of them, TESTOPTS for Minitest's options)"
task(test: :compile) { GyreSuite.run(*ENV["TEST"].to_s.split(/[,\s]+/)) || abort }
