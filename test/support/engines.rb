# frozen_string_literal: true

# Runs a test class once for each engine that this build has: the native one when the extension is compiled, and the
# portable one. What Gyre makes during such a test uses that engine, in subprocesses too. Required by tests of layer 2.
require "gyre/loop"

module GyreTest
  # Which engines there are, and tests over all of them.
  module Engines
    # Set once the extension is known to be there, so that GYRE_BACKEND of the run does not hide it.
    BACKENDS = Gyre::Loop.native? ? %w[epoll select].freeze : %w[select].freeze

    # Defines a test class for each engine, named TaskTest::Epoll and TaskTest::Select.
    # @param name [String] such as "TaskTest"
    # @yield the classes' body
    def self.test_case(name, &body)
      family = Object.const_set(name, Module.new)
      BACKENDS.each do |backend|
        test_class = Class.new(Minitest::Test) { include OnEngine }
        test_class.define_method(:backend) { backend }
        family.const_set(backend.capitalize, test_class)
        test_class.class_exec(&body)
      end
    end

    # Around each test.
    module OnEngine
      def before_setup
        super
        @backend_before = ENV["GYRE_BACKEND"]
        ENV["GYRE_BACKEND"] = backend
      end

      def after_teardown
        ENV["GYRE_BACKEND"] = @backend_before
        super
      end
    end
  end
end
