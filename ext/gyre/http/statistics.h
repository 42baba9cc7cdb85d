/* Counts an acceptor's responses for /metrics and `gyre top`: status class, duration, bytes. Called
 * once per response by exchange.c; reads the clock once, allocates nothing. No ruby.h. */
#pragma once

#include "net/transport.h"

#define GYRE_HTTP_DURATIONS 16
#define GYRE_HTTP_STATUS_CLASSES 6

extern const int64_t gyre_http_duration_bounds_ns[GYRE_HTTP_DURATIONS];

struct gyre_http_histogram {
  uint64_t counts[GYRE_HTTP_DURATIONS + 1]; /* not cumulative; the last: above all bounds */
  int64_t sum_ns;
};

void gyre_http_histogram_add(struct gyre_http_histogram *histogram, int64_t duration_ns);

/* Counters and histograms under the names that they have in snapshots and rows of
 * Gyre::Web::Figure: requests and connections, requests that waited for a place and that were
 * refused one (shed), TLS handshakes, WebSockets (slow_sockets: with slow peers, cut off;
 * publishers_held: that waited for them); durations of responses, and of all ended waits. */
/* clang-format off */
#define GYRE_HTTP_COUNTERS(COUNTER) \
  COUNTER(requests) COUNTER(malformed) COUNTER(refused) COUNTER(waited) COUNTER(shed) \
  COUNTER(handshakes) COUNTER(handshakes_resumed) COUNTER(handshakes_failed) \
  COUNTER(upgrades) COUNTER(messages_received) COUNTER(messages_sent) COUNTER(slow_sockets) COUNTER(publishers_held)
#define GYRE_HTTP_HISTOGRAMS(HISTOGRAM) HISTOGRAM(durations) HISTOGRAM(waits)
/* clang-format on */
#define GYRE_HTTP_COUNTER_FIELD(name) uint64_t name;
#define GYRE_HTTP_HISTOGRAM_FIELD(name) struct gyre_http_histogram name;

struct gyre_http_statistics {
  uint64_t responses[GYRE_HTTP_STATUS_CLASSES]; /* index: first digit of the status; 0: no head */
  uint64_t received_bytes, sent_bytes;          /* without the bytes that TLS adds */
  GYRE_HTTP_COUNTERS(GYRE_HTTP_COUNTER_FIELD)
  GYRE_HTTP_HISTOGRAMS(GYRE_HTTP_HISTOGRAM_FIELD)
};

/* Counts a response; status 0: no head was sent. Does not count a negative duration. */
void gyre_http_statistics_response(struct gyre_http_statistics *statistics, unsigned status, int64_t duration_ns);

/* Moves a transport's counts to the statistics, so that each byte counts once. */
static inline void gyre_http_statistics_take_bytes(struct gyre_http_statistics *statistics,
                                                   struct gyre_transport *transport) {
  statistics->received_bytes += transport->received_bytes;
  statistics->sent_bytes += transport->sent_bytes;
  transport->received_bytes = transport->sent_bytes = 0;
}
