# frozen_string_literal: true

# Logs the reports of a Gyre::Watchdog, each of a request that blocks others, with method, path and
# backtrace. Limits their rate. Started by Gyre::Web::Server if the setting watchdog is on.

require "gyre/inspection/watchdog"

module Gyre
  module Web
    class WatchdogLog
      # A request that holds the loop for more than these seconds is reported. Gyre::Watchdog's
      # default of 0.1 s is too short for loading code in development.
      LIMIT_S = 0.5
      # Minimum seconds between two reports.
      PAUSE_S = 5

      # Watches this thread's loop. Returns the Watchdog, or nil if the loop already has one.
      def self.watch(log) = (Watchdog.start(limit_s: LIMIT_S, out: new(log)) unless Fiber.scheduler.watchdog)

      def initialize(log)
        @log = log
        @next_s = @left_out = 0
      end

      # Logs a report. Called in the watchdog's thread.
      def puts(text)
        return @left_out += 1 if Clock.now < @next_s

        @next_s = Clock.now + PAUSE_S
        left_out = " (#{Units.count(@left_out, "report")} before this one left out)" if @left_out.positive?
        @left_out = 0
        line, *frames = text.lines(chomp: true)
        @log.error(["#{line.delete_prefix("gyre ")}#{left_out}", *frames].join("\n"))
      end
    end
  end
end
