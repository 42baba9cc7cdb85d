# frozen_string_literal: true

# Thread#raise at each place where Ruby may deliver it within a block: as methods and blocks return.
# One run of the block for each place, so nothing is left to chance.

module GyreTest
  module Strikes
    # What strikes: no StandardError, as the one of Timeout.
    class Strike < Exception # rubocop:disable Lint/InheritException
    end

    # Runs the block again and again in a thread without a loop, struck one place later each time,
    # until it ends before it is struck.
    def strike_everywhere(check, limit: 2000, &block)
      (1..limit).each do |place|
        struck = Thread.new { strike_at(place, &block) }.value
        check.call(place)
        return place unless struck
      end
      flunk "it does not end within #{limit} places"
    end

    private

    # Returns whether it was struck.
    def strike_at(place)
      thread = Thread.current
      passed = 0
      trace = TracePoint.new(:return, :b_return) do
        thread.raise(Strike) if Thread.current.equal?(thread) && (passed += 1) == place
      end
      begin
        trace.enable
        yield
      ensure
        trace.disable
      end
      passed >= place
    rescue Strike
      true
    end
  end
end
