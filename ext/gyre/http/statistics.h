/* Counts an acceptor's responses for /metrics and `gyre top`: status class, duration, bytes. Called
 * once per response by exchange.c; reads the clock once, allocates nothing. No ruby.h. */
#pragma once

#include "net/transport.h"

#include <stdint.h>

#define GYRE_HTTP_DURATIONS 16
#define GYRE_HTTP_STATUS_CLASSES 6

extern const int64_t gyre_http_duration_bounds_ns[GYRE_HTTP_DURATIONS];

struct gyre_http_histogram {
  uint64_t counts[GYRE_HTTP_DURATIONS + 1]; /* not cumulative; the last: above all bounds */
  int64_t sum_ns;
};

void gyre_http_histogram_add(struct gyre_http_histogram *histogram, int64_t duration_ns);

struct gyre_http_statistics {
  uint64_t responses[GYRE_HTTP_STATUS_CLASSES]; /* index: first digit of the status; 0: no head */
  struct gyre_http_histogram durations;
  uint64_t received_bytes, sent_bytes;                        /* without the bytes that TLS adds */
  uint64_t upgrades, messages_received, messages_sent;        /* WebSockets' */
  uint64_t slow_sockets;                                      /* WebSockets with slow peers */
  uint64_t publishers_held;                                   /* publishers that waited for WebSockets */
  uint64_t handshakes, handshakes_resumed, handshakes_failed; /* TLS handshakes: made, resumed, failed */
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
