# frozen_string_literal: true

# Times as lines have them, in the local zone. Called by the oracle's ingest for each feed; most
# feeds fall into the same second as the one before, so its text is kept. It reads no clock.

module LogOracle
  # The present moment, as the caller gives it.
  class LineTime
    # No message is logged in years of five digits; the limit keeps a broken client's times out of
    # the lines.
    SECONDS_LIMIT = 253_402_214_400
    private_constant :SECONDS_LIMIT

    def initialize
      @second = nil
    end

    def at(time_ns)
      second, @nanoseconds = time_ns.divmod(1_000_000_000)
      return self if second == @second

      @second = second
      time = Time.at(second)
      @text = time.strftime("%Y/%m/%d %H:%M:%S").b
      @date, @zone = time.strftime("%Y-%m-%dT%H:%M:%S").b, time.strftime("%:z").b
      self
    end

    attr_reader :text

    def rfc3339
      format("%<date>s.%<us>06d%<zone>s", date: @date, us: @nanoseconds / 1000, zone: @zone).b
    end

    # Returns whether lines can have this time.
    def self.possible?(time_us)
      time_us < SECONDS_LIMIT * 1_000_000
    end
  end
end
