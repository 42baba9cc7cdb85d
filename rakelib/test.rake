# frozen_string_literal: true

# The tests. Every file runs in one process with warnings on; what the suite adds to Minitest is in test/support.
require "rbconfig"

module GyreTest
  module_function

  # Files named on the command line as `rake test TEST=path` or `bin/test path`, else all of them.
  def files
    named = ENV["TEST"].to_s.split(/[,\s]+/)
    named.empty? ? Dir["test/**/*_test.rb"].sort : named
  end

  # Runs test files in a Ruby of their own. `options` are Minitest's (--name, --seed, -v …).
  def run(files, environment: {}, command: [RbConfig.ruby], options: ENV["TESTOPTS"].to_s.split)
    loader = "ARGV.take_while { |path| path != '--' }.each { |path| require File.expand_path(path) }; " \
             "ARGV.shift while ARGV.first != '--'; ARGV.shift"
    system(environment, *command, "-w", "-Ilib", "-Itest", "-e", loader, "--", *files, "--", *options)
  end
end

desc "Run the tests (TEST=file for some of them, TESTOPTS for Minitest's options)"
task test: :compile do
  GyreTest.run(GyreTest.files) || abort
end
