# frozen_string_literal: true

# Runs test files in this process: `ruby -w test/support/run.rb [FILE or FOLDER …] [Minitest's options]`, without a
# file all of them. Called by bin/test and rake test.
require_relative "../test_helper"

named, options = ARGV.partition { |argument| argument.end_with?(".rb") || File.directory?(argument) }
missing = named.reject { |path| File.exist?(path) }
abort "no such test: #{missing.join(", ")}" unless missing.empty?
named = [File.expand_path("..", __dir__)] if named.empty?
ARGV.replace(options)
named.flat_map { |path| File.directory?(path) ? Dir["#{path}/**/*_test.rb"].sort : path }
     .each { |path| require File.expand_path(path) }
