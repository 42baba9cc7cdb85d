/*
 * Counts of responses (see http_statistics.h).
 */
#include "http/http_statistics.h"

#define MS INT64_C(1000000)

/* Steps of two to two and a half, as Prometheus's clients have them, from what a hello takes to
 * what a report takes. */
const int64_t gyre_http_duration_bounds_ns[GYRE_HTTP_DURATIONS] = {
    MS / 4,   MS / 2,   MS,       5 * MS / 2, 5 * MS,    10 * MS,   25 * MS,    50 * MS,
    100 * MS, 250 * MS, 500 * MS, 1000 * MS,  2500 * MS, 5000 * MS, 10000 * MS, 60000 * MS};

void gyre_http_statistics_response(struct gyre_http_statistics *statistics, unsigned status, int64_t duration_ns) {
  unsigned class = status / 100;
  statistics->responses[class < GYRE_HTTP_STATUS_CLASSES ? class : 0]++;
  if (duration_ns < 0) return;
  unsigned bucket = 0;
  while (bucket < GYRE_HTTP_DURATIONS && duration_ns > gyre_http_duration_bounds_ns[bucket]) bucket++;
  statistics->durations[bucket]++;
  statistics->durations_ns += duration_ns;
}

void gyre_http_statistics_lag(const struct gyre_lag *lag, uint64_t counts[GYRE_HTTP_DURATIONS + 1]) {
  uint64_t before = 0;
  for (unsigned i = 0; i < GYRE_HTTP_DURATIONS; i++) {
    uint64_t up_to = gyre_lag_up_to(lag, gyre_http_duration_bounds_ns[i]);
    counts[i] = up_to - before;
    before = up_to;
  }
  counts[GYRE_HTTP_DURATIONS] = lag->total - before;
}
