/* Percentiles and counts of the loop's lag (lag.h). */
#include "loop/lag.h"

/* Returns the first value beyond the bucket. */
static int64_t bucket_end(unsigned bucket) {
  if (bucket < 4) return (int64_t)bucket + 1;
  unsigned shift = bucket / 4 - 1;
  return (int64_t)(bucket % 4 + 5) << shift;
}

int64_t gyre_lag_percentile(const struct gyre_lag *lag, double share) {
  uint64_t seen = 0;
  for (unsigned bucket = 0; bucket < GYRE_LAG_BUCKETS - 1; bucket++) {
    seen += lag->counts[bucket];
    if (seen == 0 || (double)seen < share * (double)lag->total) continue;
    int64_t end = bucket_end(bucket);
    return end < lag->longest_ns ? end : lag->longest_ns;
  }
  return lag->longest_ns;
}

uint64_t gyre_lag_up_to(const struct gyre_lag *lag, int64_t ns) {
  uint64_t count = 0;
  for (unsigned bucket = 0; bucket < GYRE_LAG_BUCKETS - 1 && bucket_end(bucket) <= ns; bucket++) {
    count += lag->counts[bucket];
  }
  return count;
}
