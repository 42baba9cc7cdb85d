/*
 * Counts of responses (see http_statistics.h).
 */
#include "http/http_statistics.h"

void gyre_http_statistics_response(struct gyre_http_statistics *statistics, unsigned status, int64_t duration_ns) {
  unsigned class = status / 100;
  statistics->responses[class < GYRE_HTTP_STATUS_CLASSES ? class : 0]++;
  if (duration_ns >= 0) gyre_http_histogram_add(&statistics->durations, duration_ns);
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
