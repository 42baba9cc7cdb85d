/* Counts responses and their durations (see statistics.h). */
#include "http/statistics.h"

#define MS INT64_C(1000000)

/* Upper bounds of the buckets, in steps like those of Prometheus's clients. */
const int64_t gyre_http_duration_bounds_ns[GYRE_HTTP_DURATIONS] = {
    MS / 4,   MS / 2,   MS,       5 * MS / 2, 5 * MS,    10 * MS,   25 * MS,    50 * MS,
    100 * MS, 250 * MS, 500 * MS, 1000 * MS,  2500 * MS, 5000 * MS, 10000 * MS, 60000 * MS};

void gyre_http_histogram_add(struct gyre_http_histogram *histogram, int64_t duration_ns) {
  unsigned bucket = 0;
  while (bucket < GYRE_HTTP_DURATIONS && duration_ns > gyre_http_duration_bounds_ns[bucket]) bucket++;
  histogram->counts[bucket]++;
  histogram->sum_ns += duration_ns;
}

void gyre_http_statistics_response(struct gyre_http_statistics *statistics, unsigned status, int64_t duration_ns) {
  unsigned class = status / 100;
  statistics->responses[class < GYRE_HTTP_STATUS_CLASSES ? class : 0]++;
  if (duration_ns >= 0) gyre_http_histogram_add(&statistics->durations, duration_ns);
}
