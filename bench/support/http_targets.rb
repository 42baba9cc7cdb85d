# frozen_string_literal: true

# The figures that the HTTP server is to reach, as given when it was planned. Judged in bench/http's report.

require_relative "http_scenarios"
require_relative "results"
require_relative "target"

module Bench
  # Targets of bench/http.
  module HttpTargets
    module_function

    # A target on how many times one server's figure is another's in the same rounds.
    def ratio(text, direction, limit, scenario, metric, subject, other)
      Target.new(text: text, direction: direction, limit: limit, unit: " ×", decimals: 2,
                 measure: ->(results) { results.ratio(scenario, metric, subject, other) })
    end

    # A target on Gyre's own figure; one bad round counts when the worst is asked for.
    def own(text, direction, limit, unit, decimals, scenario, metric, pick = :median, scale: 1.0)
      measure = lambda do |results|
        values = results.values(scenario, "gyre", metric)
        value = pick == :median ? Results.median(values) : values.public_send(pick)
        value && value * scale
      end
      Target.new(text: text, direction: direction, limit: limit, unit: unit, decimals: decimals, measure: measure)
    end

    ALL = [
      ratio("hello, 64 connections: CPU a request against nginx's", :at_most, 1.25, "hello-64", :cpu_us, "gyre", "nginx"),
      ratio("… Iodine's CPU against Gyre's", :at_least, 1.7, "hello-64", :cpu_us, "iodine", "gyre"),
      ratio("… Falcon's CPU against Gyre's", :at_least, 3, "hello-64", :cpu_us, "falcon", "gyre"),
      ratio("hello, 1,024 connections: CPU against nginx's", :at_most, 1.2, "hello-1024", :cpu_us, "gyre", "nginx"),
      ratio("ten more headers, 64 connections: CPU against nginx's", :at_most, 1.5, "headers-64", :cpu_us, "gyre", "nginx"),
      own("idle keep-alive connection, resident", :at_most, 0.5, " KB", 2, "idle", :rss_kb_each),
      ratio("… against nginx's", :at_most, 1.0, "idle", :rss_kb_each, "gyre", "nginx"),
      own("open connections served, first request", :at_least, 15_000, "", 0, "open", :answered_first, :min),
      own("… and once more", :at_least, 15_000, "", 0, "open", :answered_again, :min),
      own("100 connections on a 0.1 s sleep, of 1,000 requests/s", :at_least, 97, " %", 1, "sleep-100", :requests_per_s,
          scale: 0.1),
      own("5,000 connections that each sleep 1 s: all answered", :at_most, 1.5, " s", 2, "sleepers", :seconds),
      own("… how many of the 5,000", :at_least, 5_000, "", 0, "sleepers", :answered, :min),
      ratio("bodies of 12 KB: requests/s against Falcon's", :at_least, 1, "body-12k", :requests_per_s, "gyre", "falcon"),
      ratio("bodies of 12 MB: requests/s against Falcon's", :at_least, 1, "body-12m", :requests_per_s, "gyre", "falcon")
    ].freeze
  end
end
