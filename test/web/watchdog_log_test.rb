# frozen_string_literal: true

require "test_helper"
require "gyre"
require "gyre/settings/units"
require "gyre/web/watchdog_log"

class WebHoldsTest < Minitest::Test
  class Log
    attr_reader :lines

    def initialize = @lines = []

    def error(text) = @lines << text
  end

  def test_reports_are_not_more_frequent_than_its_pause_and_those_left_out_are_counted
    holds = Gyre::Web::WatchdogLog.new(log = Log.new)
    holds.puts("gyre watchdog: first\n    frame")
    2.times { holds.puts("gyre watchdog: more") }
    holds.instance_variable_set(:@next_s, 0)
    holds.puts("gyre watchdog: last")
    assert_equal ["watchdog: first\n    frame", "watchdog: last (2 reports before this one left out)"], log.lines
  end

  def test_a_loop_that_is_watched_already_is_left_alone
    Gyre.run do
      watchdog = Gyre::Web::WatchdogLog.watch(Log.new)
      assert_nil Gyre::Web::WatchdogLog.watch(Log.new)
      watchdog.stop
    end
  end
end
