# frozen_string_literal: true

# Turns Ruby's warnings about our own files into test failures, and drops those about installed
# gems. Loaded by test_helper before anything of Gyre, so that warnings at load time are seen too.
module GyreTest
  # Collects warnings; LifecycleChecks fails the test in which one came up, Report the run for the
  # rest.
  module Warnings
    ROOT = File.expand_path("../..", __dir__)
    GEMS = %r{/(?:vendor/bundle|gems|rubygems|bundler)/}

    @seen = []

    class << self
      # The warnings since the last call.
      def take
        taken, @seen = @seen, []
        taken
      end

      # Keeps a warning when it is about our files.
      def record(message)
        ours = message.start_with?("#{ROOT}/") && !message.delete_prefix(ROOT).match?(GEMS)
        @seen << message.chomp if ours
        ours
      end

      # Keeps the warnings in a subprocess's error output.
      def record_output(text)
        text.each_line { |line| record(line) if line.match?(/: warning: /) }
      end
    end

    # What Ruby calls for each warning.
    module Hook
      def warn(message, **)
        Warnings.record(message) || message.match?(GEMS) || super(message)
      end
    end
  end
end

Warning.singleton_class.prepend(GyreTest::Warnings::Hook)
