# frozen_string_literal: true

# Requests that hold up all others, in the server's log: what a Gyre::Watchdog reports, with
# method, path and where the code is, not too often. Gyre::Web::Server begins it when its setting
# watchdog is on. It decides nothing: inspection/watchdog/ does.

require "gyre/inspection/watchdog"

module Gyre
  module Web
    # What a watchdog writes to.
    class Holds
      # How long a request may hold the loop. (One that loads code in development takes longer than
      # the tenth of a second that Gyre::Watchdog has by itself.)
      LIMIT_S = 0.5
      # After a report so much time passes before the next.
      PAUSE_S = 5

      # Watches the present thread's loop, unless something watches it already.
      #
      # @param log [#error]
      # @return [Watchdog, nil] to be stopped
      def self.watch(log)
        Watchdog.start(limit_s: LIMIT_S, out: new(log)) unless Fiber.scheduler.watchdog
      end

      # @param log [#error]
      # @param pause_s [Numeric]
      # @yieldreturn [Float] the time in seconds
      def initialize(log, pause_s: PAUSE_S, &clock)
        @log = log
        @pause_s = pause_s
        @clock = clock || -> { Process.clock_gettime(Process::CLOCK_MONOTONIC) }
        @next = nil
        @left_out = 0
      end

      # @param text [String] a report, in the watchdog's thread
      # @return [void]
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
