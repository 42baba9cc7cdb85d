# frozen_string_literal: true

# Stands for test/test_helper.rb where the tests of the loop layer run on JRuby (test/jruby_test.rb puts this folder first):
# a small part of what Minitest offers, for JRuby comes without it and newer ones do not load there. It runs each test at the
# end of the process, says what failed and what was skipped and why, and fails the process when a test failed or when a
# thread is left. Written for Ruby 2.6.
require "stringio"
require "timeout"
require "support/helpers"

module Minitest
  Failure = Assertion = Class.new(StandardError)
  Skip = Class.new(StandardError)

  # What the tests use of it.
  class Test
    include GyreTest::Helpers
    CLASSES = []

    def self.inherited(subclass)
      super
      CLASSES << subclass
    end

    def setup; end

    def teardown; end

    def assert(value, message = nil)
      raise Failure, [message, "it is #{value.inspect}"].compact.join("\n") unless value

      value
    end

    def refute(value, message = nil)
      assert(!value, message)
    end

    def assert_equal(expected, actual, message = nil)
      assert expected == actual, [message, "expected #{expected.inspect}, not #{actual.inspect}"].compact.join("\n")
    end

    def assert_same(expected, actual, message = nil)
      assert expected.equal?(actual), [message, "expected the same as #{expected.inspect}, not #{actual.inspect}"].compact.join("\n")
    end

    def assert_nil(value, message = nil)
      assert value.nil?, [message, "expected nil, not #{value.inspect}"].compact.join("\n")
    end

    def refute_nil(value, message = nil)
      refute value.nil?, message
    end

    def assert_empty(value, message = nil)
      assert value.empty?, [message, "expected nothing, not #{value.inspect}"].compact.join("\n")
    end

    def assert_includes(collection, value)
      assert collection.include?(value), "expected #{value.inspect} in #{collection.inspect}"
    end

    def assert_match(pattern, text, message = nil)
      assert pattern.match?(text), [message, "expected #{pattern.inspect} in #{text.inspect}"].compact.join("\n")
    end

    def assert_operator(one, operator, other, message = nil)
      assert one.public_send(operator, other), [message, "expected #{one.inspect} #{operator} #{other.inspect}"].compact.join("\n")
    end

    def assert_predicate(value, predicate)
      assert value.public_send(predicate), "expected #{value.inspect} to be #{predicate}"
    end

    def refute_predicate(value, predicate)
      refute value.public_send(predicate), "expected #{value.inspect} not to be #{predicate}"
    end

    def assert_in_delta(expected, actual, delta = 0.001)
      assert_operator((expected - actual).abs, :<=, delta)
    end

    # @return [Exception]
    def assert_raises(*classes)
      classes = [StandardError] if classes.empty?
      begin
        yield
      rescue Failure, Skip
        raise
      rescue *classes => error
        return error
      end
      flunk "nothing was raised, expected was #{classes.join(" or ")}"
    end

    def skip(reason)
      raise Skip, reason
    end

    def flunk(message)
      raise Failure, message
    end

    def capture_io
      before = [$stdout, $stderr]
      $stdout, $stderr = captured = [StringIO.new, StringIO.new]
      yield
      captured.map(&:string)
    ensure
      $stdout, $stderr = before
    end
  end

  # Runs them all.
  module Runner
    LIMIT_S = 120
    Late = Class.new(Exception) # rubocop:disable Lint/InheritException -- no test rescues it

    class << self
      # @return [Boolean] whether none failed
      def run
        outcomes = Test::CLASSES.flat_map { |test_class| run_class(test_class) }
        outcomes.each { |kind, name, words| puts "#{kind}: #{name}: #{words}" unless kind == :passed }
        counts = %i[passed failed skipped].map { |kind| "#{outcomes.count { |outcome| outcome.first == kind }} #{kind}" }
        puts counts.join(", ")
        outcomes.none? { |kind,| kind == :failed } && alone?
      end

      private

      def run_class(test_class)
        names = test_class.public_instance_methods.grep(/\Atest_/).sort
        names.map { |name| [*outcome(test_class.new, name), nil].insert(1, "#{test_class}##{name}") }
      end

      def outcome(test, name)
        begin
          test.setup
          Timeout.timeout(LIMIT_S, Late) { test.public_send(name) }
        ensure
          test.teardown
        end
        [:passed]
      rescue Skip => skip
        [:skipped, skip.message]
      rescue Exception => error # rubocop:disable Lint/RescueException -- a test's, whatever it is
        [:failed, "#{error.class}: #{error.message}\n  #{error.backtrace.first(8).join("\n  ")}"]
      end

      def alone?
        left = Thread.list - [Thread.current]
        left.each { |thread| puts "failed: a thread is left: #{thread.inspect}" }
        left.empty?
      end
    end
  end
end

at_exit { exit!(1) unless $!.nil? && Minitest::Runner.run }
