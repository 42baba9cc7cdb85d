# frozen_string_literal: true

# The log's ingest for the contracts in test/contracts, and what they use it with.

require "gyre/log"
require "gyre/log/ingest"
require_relative "../oracle/log/records"

module LogIngests
  # 2026-11-21 19:20:00.123456789 UTC
  TIME_NS = 1_795_288_800_123_456_789

  # For every test.
  module Tools
    def before_setup
      super
      @zone = ENV["TZ"]
      ENV["TZ"] = "UTC"
    end

    def after_teardown
      ENV["TZ"] = @zone
      super
    end

    def ingest
      @ingest ||= Gyre::Log::Ingest.new
    end

    # A sink that gets everything.
    def sink(**options)
      ingest.sink(**options).tap { |sink| ingest.route(nil, nil, [sink]) }
    end

    def frame(message, service: "web", severity: "info")
      Gyre::Log::Wire.frame(service, severity, message)
    end

    def record(sequence, message = "m#{sequence}", service: "web", severity: "info", time_us: 1_000_000)
      Gyre::Log::Records.encode(seq: sequence, time_us: time_us, service: service, severity: severity, message: message)
    end

    # The lines of a text sink without their time, which must be TIME_NS.
    def lines(sink)
      text, = sink.take
      text.to_s.lines.map do |line|
        assert_equal "2026/11/21 19:20:00|", line[0, 20]
        line[20..].chomp
      end
    end

    # Feeds a new decoder.
    def feed(bytes, kind: :analogger, time_ns: TIME_NS, **options)
      decoder = ingest.decoder(kind, **options)
      decoder.feed(bytes, time_ns)
    end
  end
end
