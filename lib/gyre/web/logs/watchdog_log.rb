# frozen_string_literal: true

# Logs requests that block all others: reports of a Gyre::Watchdog, with method, path and backtrace,
# at a limited rate. Started by Gyre::Web::Server with the setting watchdog. inspection/watchdog/
# decides about reports.

require "gyre/inspection/watchdog"

module Gyre
  module Web
    # The watchdog's output.
    class WatchdogLog
      # Seconds for which a request may hold the loop. (In development, loading code exceeds
      # Gyre::Watchdog's default of 0.1 s.)
      LIMIT_S = 0.5
      # Seconds between two reports.
      PAUSE_S = 5

      # Watches this thread's loop, unless already watched. Returns a Watchdog for the caller to
      # stop, or nil.
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
