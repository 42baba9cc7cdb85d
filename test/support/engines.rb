# frozen_string_literal: true

# Runs a test class once for each backend, or once for each engine: what Gyre makes during such a
# test uses that backend, in subprocesses too. Required by tests of layer 2 and above.
require "gyre/loop"

module GyreTest
  # Which engines there are, and tests over all of them.
  module Engines
    # Every backend that this build has and that opens here. Set once, so that GYRE_BACKEND of a
    # test does not hide one.
    ALL = Gyre::Loop.availables.freeze
    # What stands on an engine asks one only, the native one if the extension is compiled: that both
    # do the same, the contracts have proven. GYRE_TEST_ENGINES=all, as in .ci/run, asks the
    # portable one as well.
    BACKENDS = (ENV["GYRE_TEST_ENGINES"] == "all" ? [ALL.first, ALL.last].uniq : [ALL.first]).freeze
    # The native engine's, for what has no other implementation; the best first, and empty without
    # the extension.
    NATIVE = (ALL - [Gyre::Loop::PORTABLE]).freeze

    Gyre::Loop.explain.each_line { |line| $stderr.write("tests: #{line}") unless ALL.any? { |name| line.include?(": #{name} (") } }

    # Defines a test class for each backend, named TaskTest::Epoll and TaskTest::Select.
    def self.test_case(name, backends: BACKENDS, &body)
      family = Object.const_set(name, Module.new)
      backends.each do |backend|
        test_class = Class.new(Minitest::Test) { include OnEngine }
        test_class.define_method(:backend) { backend }
        family.const_set(backend.split("_").map(&:capitalize).join, test_class)
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
