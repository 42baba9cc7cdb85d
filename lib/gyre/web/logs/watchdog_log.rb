# frozen_string_literal: true

# Logs requests that block all others: reports of a Gyre::Watchdog, with method, path and backtrace,
# not too often. Started by Gyre::Web::Server with its setting watchdog. inspection/watchdog/
# decides what to report.

require "gyre/inspection/watchdog"

module Gyre
  module Web
    # The watchdog's output.
    class WatchdogLog
      # How long a request may hold the loop. (In development loading code takes longer than
      # Gyre::Watchdog's default of a tenth of a second.)
      LIMIT_S = 0.5
      # Between two reports.
      PAUSE_S = 5

      # Watches this thread's loop, unless it is watched already. Returns a Watchdog to be stopped,
      # or nil.
      def self.watch(log)
        Watchdog.start(limit_s: LIMIT_S, out: new(log)) unless Fiber.scheduler.watchdog
      end

      def initialize(log, pause_s: PAUSE_S, &clock)
        @log = log
        @pause_s = pause_s
        @clock = clock || -> { Process.clock_gettime(Process::CLOCK_MONOTONIC) }
        @next = nil
        @left_out = 0
      end

      # Called in the watchdog's thread with a report.
      def puts(text)
        now = @clock.call
        return @left_out += 1 if @next && now < @next

        @next = now + @pause_s
        left_out = " (#{Units.count(@left_out, "report")} before this one left out)" if @left_out.positive?
        @left_out = 0
        line, *frames = text.lines(chomp: true)
        @log.error(["#{line.delete_prefix("gyre ")}#{left_out}", *frames].join("\n"))
      end
    end
  end
end
