# frozen_string_literal: true

# The weak point of a fiber server: a request that computes for a second while all others wait. The
# visitor gets the watchdog's report, with the place in the code.

require "gyre/inspection/watchdog"
require "gyre/web/watchdog_log"
require "gyre/web/server_log"

module Showcase
  # POST /hold
  class Hold
    SECONDS = 1.0
    LIMIT_S = 0.2

    # The watchdog's output.
    class Report
      def initialize
        @text = Thread::Queue.new
      end

      def puts(text) = @text << text

      def read = Array.new(@text.size) { @text.pop }.join("\n")
    end

    def call(_env)
      report = Report.new
      watched(report) do
        compute
        sleep LIMIT_S # the loop goes on, and the watchdog notices
      end
      [200, { "content-type" => "text/plain; charset=utf-8", "cache-control" => "no-store" }, [report.read]]
    end

    private

    def compute
      over = monotonic_now + SECONDS
      number = 0
      number += 1 until monotonic_now > over
    end

    # A loop has one watchdog; in development the server's, which writes to its log.
    def watched(report)
      return yield unless Fiber.scheduler # not on Gyre

      servers = Fiber.scheduler.watchdog
      servers&.stop
      watchdog = Gyre::Watchdog.start(limit_s: LIMIT_S, out: report)
      yield
    ensure
      watchdog&.stop
      Gyre::Web::WatchdogLog.watch(Gyre::Web::ServerLog.new) if servers
    end

    def monotonic_now
      Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end
  end
end
