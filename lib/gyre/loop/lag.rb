# frozen_string_literal: true

# How long ready work waits for the loop: a histogram with four buckets per doubling, at most a
# quarter too high. Fed by the portable loop once a turn; twin of lag.c.

module Gyre
  class Loop
    class Lag
      # The last: more than an hour.
      BUCKETS_LIMIT = 168

      def initialize
        @counts = Array.new(BUCKETS_LIMIT, 0)
        @total = 0
        @longest = 0.0
      end

      def add(seconds)
        @counts[bucket((seconds * 1_000_000_000).to_i)] += 1
        @total += 1
        @longest = seconds if seconds > @longest
      end

      def percentile(share)
        seen = 0
        @counts.each_with_index do |count, bucket|
          seen += count
          next if seen.zero? || seen < share * @total

          break if bucket == BUCKETS_LIMIT - 1

          return [bucket_end(bucket) / 1_000_000_000.0, @longest].min
        end
        @longest
      end

      def to_h
        { lag_p50_s: percentile(0.5), lag_p90_s: percentile(0.9), lag_p99_s: percentile(0.99), lag_max_s: @longest }
      end

      private

      def bucket(nanoseconds)
        return [nanoseconds, 0].max if nanoseconds < 4

        doublings = nanoseconds.bit_length - 1
        [((doublings - 1) * 4) + ((nanoseconds >> (doublings - 2)) & 3), BUCKETS_LIMIT - 1].min
      end

      # Returns the first value beyond the bucket.
      def bucket_end(bucket) = bucket < 4 ? bucket + 1 : ((bucket % 4) + 5) << ((bucket / 4) - 1)
    end
  end
end
