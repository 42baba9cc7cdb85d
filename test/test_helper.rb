# frozen_string_literal: true

# Required by every test file: the suite's tools (support/suite.rb), and Minitest's run when the
# process ends.
require_relative "support/suite"
require "minitest/autorun"
