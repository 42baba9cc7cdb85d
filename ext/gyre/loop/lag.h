/* A histogram of the time that ready work waits for the loop. It has four buckets per doubling, so
 * percentiles are at most a quarter too high. loop.c adds one value per turn. */
#pragma once

#include "feature.h"

#define GYRE_LAG_BUCKETS 168 /* the last bucket is for more than two hours */

struct gyre_lag {
  uint64_t counts[GYRE_LAG_BUCKETS];
  uint64_t total;
  int64_t longest_ns, sum_ns;
};

static inline unsigned gyre_lag_bucket(int64_t ns) {
  if (ns < 4) return ns < 0 ? 0 : (unsigned)ns;
  unsigned doublings = 63 - (unsigned)__builtin_clzll((unsigned long long)ns); /* at least 2 */
  unsigned bucket = (doublings - 1) * 4 + (unsigned)((uint64_t)ns >> (doublings - 2) & 3);
  return bucket < GYRE_LAG_BUCKETS ? bucket : GYRE_LAG_BUCKETS - 1;
}

static inline void gyre_lag_add(struct gyre_lag *lag, int64_t ns) {
  lag->counts[gyre_lag_bucket(ns)]++;
  lag->total++;
  lag->sum_ns += ns;
  if (ns > lag->longest_ns) lag->longest_ns = ns;
}

/* Returns the nanoseconds that this share (0 to 1) of the waits did not exceed, or 0. */
int64_t gyre_lag_percentile(const struct gyre_lag *lag, double share);
/* Returns the number of waits that certainly lasted at most `ns`. */
uint64_t gyre_lag_up_to(const struct gyre_lag *lag, int64_t ns);
