# frozen_string_literal: true

# How long requests were at proxies before the server had them, by X-Request-Start of Heroku, nginx
# and others. Service asks it for each request; /metrics and the access log (%Q) show the times.

require "gyre/http/limits"

module Gyre
  module HTTP
    # Counts in the format of Gyre::Web::Snapshot. Used in the thread of the server's loop.
    class ProxyTimes
      # Later starts count as seconds, milliseconds, microseconds or nanoseconds of Unix time.
      SECONDS_LIMIT = 1e11
      # Longer times come from a wrong clock.
      LONGEST_S = 3600

      def initialize
        @bounds_s = NativeAcceptor.duration_bounds
        @counts = Array.new(@bounds_s.size + 1, 0)
        @sum_s = 0.0
      end

      # Sets gyre.proxy_s in env. Of the header of several proxies, the first one counts. Ignores an
      # invalid header.
      def add(env)
        start = env["HTTP_X_REQUEST_START"][/\A(?:t=)?(\d{9,20}(?:\.\d+)?)(?:,|\z)/, 1]&.to_f or return
        start /= 1000 while start > SECONDS_LIMIT
        seconds = Process.clock_gettime(Process::CLOCK_REALTIME) - start
        return if seconds > LONGEST_S

        env["gyre.proxy_s"] = seconds = seconds.clamp(0.0, nil)
        @counts[@bounds_s.index { |bound_s| seconds <= bound_s } || -1] += 1
        @sum_s += seconds
      end

      def snapshot = { "counts" => @counts.dup, "sum_s" => @sum_s }
    end
  end
end
