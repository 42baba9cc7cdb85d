# frozen_string_literal: true

# bench/http: which figures the HTTP server is to reach, and how its results file reads.

require_relative "http_scenarios"
require_relative "suite"

module Bench
  # The HTTP server, and others.
  class HttpSuite < Suite
    def name = "http"
    def title = "HTTP: Gyre and other servers"
    def cores = "Server on one core, load on the other, one worker each."
    def scenarios = HttpScenarios::ALL
    def subjects = Servers::NAMES
    def programs(subjects) = ["taskset", "cc", "wrk", "h2load", "openssl", "curl", *("nginx" if subjects.include?("nginx"))]
    def versions(subjects) = subjects.to_h { |name| [name, Servers.version(name)] }
    def targets_note = "Ratios are the median over the rounds of the two servers' figures in the same round."

    def about(settings)
      ["#{Gyre::Units.count(settings[:rounds], 'round')} of #{settings[:seconds]} s, servers taking turns; cells are medians (lowest–highest round)."]
    end

    def targets
      [
        ratio("hello, 64 connections: CPU a request against nginx's", :at_most, 1.2, "hello-64", :cpu_us, "gyre", "nginx"),
        ratio("… Iodine's CPU against Gyre's", :at_least, 1.7, "hello-64", :cpu_us, "iodine", "gyre"),
        ratio("… Falcon's CPU against Gyre's", :at_least, 3, "hello-64", :cpu_us, "falcon", "gyre"),
        ratio("hello, 1,024 connections: CPU against nginx's", :at_most, 1.2, "hello-1024", :cpu_us, "gyre", "nginx"),
        ratio("ten more headers, 64 connections: CPU against nginx's", :at_most, 1.5, "headers-64", :cpu_us, "gyre", "nginx"),
        figure("idle keep-alive connection, resident", :at_most, 0.36, " KB", 2, "idle", :rss_kb_each),
        ratio("… against nginx's", :at_most, 1.0, "idle", :rss_kb_each, "gyre", "nginx"),
        figure("open connections served, first request", :at_least, 15_000, "", 0, "open", :answered_first, pick: :min),
        figure("… and once more", :at_least, 15_000, "", 0, "open", :answered_again, pick: :min),
        figure("100 connections on a 0.1 s sleep, of 1,000 requests/s", :at_least, 97, " %", 1, "sleep-100", :requests_per_s, scale: 0.1),
        figure("5,000 connections that each sleep 1 s: all answered", :at_most, 1.5, " s", 2, "sleepers", :seconds),
        figure("… how many of the 5,000", :at_least, 5_000, "", 0, "sleepers", :answered, pick: :min),
        ratio("bodies of 12 KB: requests/s against Falcon's", :at_least, 1, "body-12k", :requests_per_s, "gyre", "falcon"),
        ratio("bodies of 12 MB: requests/s against Falcon's", :at_least, 1, "body-12m", :requests_per_s, "gyre", "falcon"),
        ratio("… against Puma's", :at_least, 1, "body-12m", :requests_per_s, "gyre", "puma"),
        ratio("files of 10 KB: CPU a request against nginx's", :at_most, 1.3, "static-10k", :cpu_us, "gyre", "nginx"),
        ratio("files of 10 MB: CPU a request against nginx's", :at_most, 1.3, "static-10m", :cpu_us, "gyre", "nginx"),
        ratio("hello over TLS, 64 connections: CPU a request against nginx's", :at_most, 1.15, "tls-hello-64", :cpu_us, "gyre", "nginx"),
        ratio("… against Falcon's", :at_most, 0.4, "tls-hello-64", :cpu_us, "gyre", "falcon"),
        ratio("hello over HTTP/2, 10 connections x 10 streams: CPU against nginx's", :at_most, 1.0, "http2-hello", :cpu_us, "gyre", "nginx"),
        ratio("… against Falcon's", :at_most, 0.1, "http2-hello", :cpu_us, "gyre", "falcon"),
        ratio("… the same over TLS: against nginx's", :at_most, 1.0, "http2-tls-hello", :cpu_us, "gyre", "nginx"),
        ratio("… against Falcon's", :at_most, 0.1, "http2-tls-hello", :cpu_us, "gyre", "falcon"),
        ratio("full handshakes a second against nginx's", :at_least, 0.9, "tls-handshake", :handshakes_per_s, "gyre", "nginx"),
        ratio("resumed handshakes a second against nginx's", :at_least, 0.9, "tls-resume", :handshakes_per_s, "gyre", "nginx"),
        figure("idle connection over TLS, resident", :at_most, 15, " KB", 1, "tls-idle", :rss_kb_each),
        figure("idle connection of HTTP/2 before its first request", :at_most, 17, " KB", 1, "http2-fresh", :rss_kb_each),
        figure("… after it", :at_most, 34, " KB", 1, "http2-used", :rss_kb_each),
        figure("two workers' requests/s against one's", :at_least, 1.8, " ×", 2, "workers", :ratio)
      ]
    end

    def remarks(results)
      spread = %w[hello-64 hello-1024].filter_map do |key|
        values = results.values(key, "nginx", :cpu_us)
        format("%s: ±%.0f %%", key, (values.max - values.min) / 2 / Results.median(values) * 100) unless values.empty?
      end
      return if spread.empty?

      "## Noise\n\nSpread of nginx's own CPU time a request between the rounds: #{spread.join(', ')}. Smaller differences " \
        "than that mean nothing. wrk is near its limit at 150,000 requests/s: where a server is as fast as that, its CPU " \
        "time is the figure that counts."
    end
  end
end
