# frozen_string_literal: true

# Pages fetched in em-synchrony's style, without em-synchrony: a callback waits for a Deferrable, or
# for Net::HTTP, and reads from top to bottom. The reactor serves the pages meanwhile.
#
#     ruby -Ilib exe/gyre em examples/event_machine/fetch.rb

require "eventmachine"
require "net/http"

# Answers each request after 200 ms with its path.
class Pages < EM::Protocols::HeaderAndContentProtocol
  def receive_request(headers, _content)
    path = headers.first.split[1]
    EM.add_timer(0.2) { send_data("HTTP/1.1 200 OK\r\nContent-Length: #{path.bytesize}\r\n\r\n#{path}") }
  end
end

# Waits for a Deferrable.
def sync(deferrable)
  promise = Gyre::Promise.new
  deferrable.callback { |value| promise.resolve(value) }
  deferrable.errback { |reason| promise.reject(RuntimeError.new("failed: #{reason}")) }
  promise.wait
end

def timed
  started = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  result = yield
  puts "#{result}, in #{(Process.clock_gettime(Process::CLOCK_MONOTONIC) - started).round(1)} s"
end

EM.run do
  port = Integer(ENV.fetch("PORT", "8090"))
  EM.start_server("127.0.0.1", port, Pages)

  EM.next_tick do
    request = ->(path) { EM::Protocols::HttpClient.request(host: "127.0.0.1", port: port, request: path) }
    timed { "one page after the other: #{%w[/a /b].map { |path| sync(request.call(path))[:content] }.join(" ")}" }
    timed { "both at once: #{%w[/c /d].map { |path| request.call(path) }.map { |page| sync(page)[:content] }.join(" ")}" }
    timed { "by Net::HTTP: #{Net::HTTP.get("127.0.0.1", "/e", port)}" }
    EM.stop
  end
end
