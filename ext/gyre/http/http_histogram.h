/*
 * Durations, counted in steps: what /metrics has as histograms, and `gyre top` makes percentiles
 * of. The bounds of all of them are here and nowhere else. No ruby.h; it reads no clock.
 */
#ifndef GYRE_HTTP_HISTOGRAM_H
#define GYRE_HTTP_HISTOGRAM_H

#include <stdint.h>

#define GYRE_HTTP_DURATIONS 16

extern const int64_t gyre_http_duration_bounds_ns[GYRE_HTTP_DURATIONS];

struct gyre_http_histogram {
  uint64_t counts[GYRE_HTTP_DURATIONS + 1]; /* up to each bound, not cumulative; the last: longer than all */
  int64_t sum_ns;
};

void gyre_http_histogram_add(struct gyre_http_histogram *histogram, int64_t duration_ns);

#endif
