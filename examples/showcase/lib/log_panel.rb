# frozen_string_literal: true

# Shows the log as it is written, as server-sent events, and logs the visitor's lines.

require "gyre/log/entry"
require "json"
require_relative "figures"

module Showcase
  # GET /log?after=NUMBER follows it; POST /log?SEVERITY logs the body.
  class LogPanel
    SEVERITIES = %w[debug info warn error fatal].freeze
    MESSAGE_BYTES_LIMIT = 2000
    STATUS_S = 1.0
    ACKNOWLEDGE_S = 5

    def initialize(logbook)
      @logbook = logbook
    end

    def call(env)
      return take(env) if env["REQUEST_METHOD"] == "POST"

      # A browser that reconnects sends the last line it has seen, and so does the page.
      seen = (env["HTTP_LAST_EVENT_ID"] || env["QUERY_STRING"][/\Aafter=(\d+)\z/, 1]).to_i
      [200, Figures::HEADERS.dup, ->(stream) { follow(stream, seen) }]
    end

    private

    # The figures also show whether the visitor is still there: if not, `write` raises.
    def follow(stream, seen)
      stream.write("retry: 1000\n\n")
      status_at = 0
      loop do
        if monotonic_now >= status_at
          stream.write("event: status\ndata: #{JSON.generate(@logbook.figures)}\n\n")
          status_at = monotonic_now + STATUS_S
        end
        lines = @logbook.lines_after(seen, [status_at - monotonic_now, 0.001].max)
        stream.write(lines.map { |line| event(line) }.join) if lines.any?
        seen = lines.last.number if lines.any?
      end
    ensure
      stream.close
    end

    # JSON has no line ends, so any line is one event.
    def event(line)
      entry = Gyre::Log::Entry.parse(line.text)&.to_h || { message: line.text.dup.force_encoding("UTF-8").scrub }
      "id: #{line.number}\ndata: #{JSON.generate(entry)}\n\n"
    end

    # Answers once the line is on the disk.
    def take(env)
      severity = env["QUERY_STRING"]
      return refuse(400, "Log with ?#{SEVERITIES.join(", ?")}.") unless SEVERITIES.include?(severity)

      message = env["rack.input"]&.read(MESSAGE_BYTES_LIMIT + 1).to_s
      return refuse(400, "The line is empty.") if message.empty?
      return refuse(413, "A line has at most #{MESSAGE_BYTES_LIMIT} bytes here.") if message.bytesize > MESSAGE_BYTES_LIMIT

      client = @logbook.client("visitor")
      started = monotonic_now
      client.add(severity, message)
      return refuse(503, "The log server has not acknowledged it so far.") unless client.flush(ACKNOWLEDGE_S)

      [200, { "content-type" => "application/json" }, [JSON.generate(seconds: (monotonic_now - started).round(4))]]
    end

    def refuse(status, text)
      [status, { "content-type" => "text/plain; charset=utf-8" }, ["#{text}\n"]]
    end

    def monotonic_now
      Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end
  end
end
