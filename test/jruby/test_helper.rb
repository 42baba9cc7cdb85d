# frozen_string_literal: true

# Stands for test/test_helper.rb where tests run on JRuby (test/jruby_test.rb puts this folder
# first): JRuby's own Minitest, and of the suite's tools those that start no process.
require "minitest/autorun"
require "support/helpers"

Minitest::Test.include(GyreTest::Helpers)
