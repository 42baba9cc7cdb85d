# frozen_string_literal: true

# How long what is ready has to wait for the loop, as a histogram of fixed size: four buckets to
# each doubling, so that a percentile is at most a quarter too much. Fed by the portable loop once a
# turn; lag.c is its twin in C.

module Gyre
  class Loop
    # Percentiles of durations.
    class Lag
      # The last one holds what took more than an hour.
      BUCKETS_LIMIT = 168

      def initialize
        @counts = Array.new(BUCKETS_LIMIT, 0)
        @total = 0
        @longest = 0.0
      end

      # @param seconds [Float]
      def add(seconds)
        @counts[bucket((seconds * 1_000_000_000).to_i)] += 1
        @total += 1
        @longest = seconds if seconds > @longest
      end

      # @param share [Numeric] 0 to 1
      # @return [Float] seconds; this share of all was not longer. 0 when there is nothing yet.
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

      # @return [Hash{Symbol => Float}] for Gyre::Scheduler#stats
      def to_h
        { lag_p50_s: percentile(0.5), lag_p90_s: percentile(0.9), lag_p99_s: percentile(0.99), lag_max_s: @longest }
      end

      private

      def bucket(nanoseconds)
        return [nanoseconds, 0].max if nanoseconds < 4

        doublings = nanoseconds.bit_length - 1
        [((doublings - 1) * 4) + ((nanoseconds >> (doublings - 2)) & 3), BUCKETS_LIMIT - 1].min
      end

      # The first value that is too long for the bucket.
      def bucket_end(bucket)
        bucket < 4 ? bucket + 1 : ((bucket % 4) + 5) << ((bucket / 4) - 1)
      end
    end
  end
end
