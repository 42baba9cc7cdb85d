# frozen_string_literal: true

# Runs wrk on the load generator's core and reads its figures. Used by bench/http, loop, scheduler
# and profile.

require_relative "results"
require_relative "setup"

module Bench
  # One run of wrk.
  module Wrk
    Result = Struct.new(:requests, :seconds, :requests_per_s, :p50_ms, :p99_ms, :bytes, :errors, keyword_init: true)

    # What a browser sends with every request: ten headers more than wrk's Host.
    BROWSER_HEADERS = {
      "User-Agent" => "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
      "Accept" => "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8",
      "Accept-Language" => "en-US,en;q=0.5",
      "Accept-Encoding" => "identity", # Falcon would compress, at a cost that the others do not pay
      "Cookie" => "session=8a7c6b5d4e3f2a1b0c9d8e7f6a5b4c3d; theme=dark; consent=yes",
      "Referer" => "http://127.0.0.1/from/somewhere?page=2",
      "Upgrade-Insecure-Requests" => "1",
      "Sec-Fetch-Dest" => "document",
      "Sec-Fetch-Mode" => "navigate",
      "Cache-Control" => "max-age=0"
    }.freeze

    UNITS = { "us" => 0.001, "ms" => 1.0, "s" => 1000.0, "m" => 60_000.0 }.freeze
    SIZES = { "B" => 1, "KB" => 1024, "MB" => 1024**2, "GB" => 1024**3, "TB" => 1024**4 }.freeze

    # Of a table of servers under wrk.
    COLUMNS = [Column.new("requests/s", :requests_per_s, 0), Column.new("CPU, µs a request", :cpu_us, 2),
               Column.new("p50, ms", :p50_ms, 2), Column.new("p99, ms", :p99_ms, 2)].freeze

    module_function

    # Warms a server up for half the time and measures it.
    def sample(server, seconds:, **load)
      run(server.url("/"), seconds: [seconds / 2, 1].max, **load)
      cpu_before_s = server.tree.cpu_s
      result = run(server.url("/"), seconds: seconds, **load)
      raise Problem, "no request was answered within #{seconds} s" if result.requests.zero?

      { cpu_us: (server.tree.cpu_s - cpu_before_s) / result.requests * 1e6, requests_per_s: result.requests_per_s,
        p50_ms: result.p50_ms, p99_ms: result.p99_ms, errors: result.errors }
    end

    def run(url, connections:, seconds:, headers: {}, threads: 1)
      command = ["taskset", "-c", LOAD_CORE.to_s, Setup.program("wrk"), "-t#{threads}", "-c#{connections}", "-d#{seconds}s",
                 "--latency", "--timeout", "20s", *headers.flat_map { |name, value| ["-H", "#{name}: #{value}"] }, url]
      parse(IO.popen([*command, { err: %i[child out] }], &:read))
    end

    def parse(text)
      requests, seconds, size, unit = text.match(/(\d+) requests in ([\d.]+\w+), ([\d.]+)([KMGT]?B) read/)&.captures
      raise Problem, "wrk said:\n#{text}" unless requests

      seconds = duration_ms(seconds) / 1000
      Result.new(requests: requests.to_i, seconds: seconds, requests_per_s: text[%r{Requests/sec:\s*([\d.]+)}, 1].to_f,
                 p50_ms: duration_ms(text[/^\s*50%\s+(\S+)/, 1]), p99_ms: duration_ms(text[/^\s*99%\s+(\S+)/, 1]),
                 bytes: (size.to_f * SIZES.fetch(unit)).to_i, errors: errors(text))
    end

    # Returns what went wrong, in wrk's words.
    def errors(text)
      found = text.lines.grep(/Socket errors:|Non-2xx/).map(&:strip)
      found.empty? ? nil : found.join("; ")
    end

    def duration_ms(text)
      number, unit = text.to_s.match(/\A([\d.]+)(us|ms|s|m)\z/)&.captures
      number ? number.to_f * UNITS.fetch(unit) : 0.0
    end
  end
end
