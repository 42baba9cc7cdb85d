# frozen_string_literal: true

# Runs nghttp2's h2load over HTTP/1.1, as a second load generator that must agree with wrk about CPU
# time a request, or over HTTP/2. Answers with Wrk's Result, without the percentiles, which h2load
# does not print.

require_relative "setup"
require_relative "wrk"

module Bench
  # One run of h2load --h1, or with so many streams at once on each connection.
  module H2load
    # The same over HTTP/2.
    Multiplexed = Struct.new(:streams) do
      def run(url, **options) = H2load.run(url, **options, streams: streams)
    end

    module_function

    def run(url, connections:, seconds:, headers: {}, streams: nil)
      protocol = streams ? "-m#{streams}" : "--h1"
      command = ["taskset", "-c", LOAD_CORE.to_s, Setup.program("h2load"), protocol, "-t1", "-c#{connections}", "-D", seconds.to_s,
                 *headers.flat_map { |name, value| ["-H", "#{name}: #{value}"] }, url]
      parse(IO.popen([*command, { err: %i[child out] }], &:read), seconds)
    end

    def parse(text, seconds)
      speed, = text.match(%r{finished in [\d.]+s, ([\d.]+) req/s})&.captures
      succeeded, failed, errored, timeout = text.match(/(\d+) succeeded, (\d+) failed, (\d+) errored, (\d+) timeout/)&.captures
      raise Problem, "h2load said:\n#{text}" unless speed && succeeded

      size = text[/traffic: .*?\((\d+)\) total/, 1].to_i
      errors = [failed, errored, timeout].sum(&:to_i)
      Wrk::Result.new(requests: succeeded.to_i, seconds: seconds.to_f, requests_per_s: speed.to_f, bytes: size,
                      errors: errors.positive? ? "#{Gyre::Units.count(errors, 'request')} failed" : nil)
    end
  end
end
