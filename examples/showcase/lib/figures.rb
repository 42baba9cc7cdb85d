# frozen_string_literal: true

# The clock and the server's figures, once a second, as server-sent events (SSE). A Rack body with
# `call` instead of `each` gets the stream and may write to it without end. The server ends it when
# the visitor leaves: `write` raises then.

require "json"
require_relative "memory"
require_relative "own_server"

module Showcase
  # Sends the server's figures to every listener.
  class Figures
    HEADERS = {
      "content-type" => "text/event-stream",
      "cache-control" => "no-cache",
      "x-accel-buffering" => "no" # an nginx in front passes events on as they come
    }.freeze

    def initialize
      @requests = 0
      @started = monotonic_now
    end

    # Called by the app for each request.
    def count_request
      @requests += 1
    end

    def call(env)
      [200, HEADERS.dup, ->(stream) { tell(stream, env) }]
    end

    private

    # An event is lines of "field: value" and an empty line (HTML standard, section 9.2.5).
    def tell(stream, env)
      stream.write("retry: 1000\n\n") # after a broken connection the browser reconnects in one second
      loop do
        stream.write("data: #{JSON.generate(figures(env))}\n\n")
        sleep(1 - (Time.now.to_f % 1)) # up to the next full second; only this fiber waits
      end
    ensure
      stream.close
    end

    def figures(env)
      {
        time: Time.now.strftime("%Y-%m-%dT%H:%M:%S.%L%:z"),
        uptime_s: (monotonic_now - @started).floor,
        ruby: RUBY_VERSION,
        requests: @requests,
        resident_bytes: Memory.resident_bytes,
        server: defined?(Gyre) ? "Gyre #{Gyre::VERSION}" : env["SERVER_SOFTWARE"],
        **OwnServer.figures(env)
      }
    end

    def monotonic_now
      Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end
  end
end
