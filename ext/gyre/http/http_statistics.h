/*
 * What an acceptor counts of its responses, for /metrics and `gyre top`: by class of status, how
 * long they took, bytes both ways. Fed once for each response by http_exchange.c, with one reading
 * of the clock and no allocation; HTTP/2's streams feed it alike. No ruby.h.
 */
#ifndef GYRE_HTTP_STATISTICS_H
#define GYRE_HTTP_STATISTICS_H

#include "http/http_histogram.h"
#include "loop/lag.h"
#include "net/transport.h"

#define GYRE_HTTP_STATUS_CLASSES 6

struct gyre_http_statistics {
  uint64_t
      responses[GYRE_HTTP_STATUS_CLASSES]; /* by the status's first digit; 0: the client left before there was one */
  struct gyre_http_histogram durations;
  uint64_t received_bytes, sent_bytes;                        /* of transports, without TLS's own */
  uint64_t handshakes, handshakes_resumed, handshakes_failed; /* of TLS: made, those of them that resumed, failed */
};

/* A response has left, or never will (status 0). A negative duration is not entered: of what has no
 * end of its own. */
void gyre_http_statistics_response(struct gyre_http_statistics *statistics, unsigned status, int64_t duration_ns);

/* Moves a transport's counts to the statistics, so that they are counted once. */
static inline void gyre_http_statistics_take_bytes(struct gyre_http_statistics *statistics,
                                                   struct gyre_transport *transport) {
  statistics->received_bytes += transport->received_bytes;
  statistics->sent_bytes += transport->sent_bytes;
  transport->received_bytes = transport->sent_bytes = 0;
}

/* The loop's lag in the same bounds, each count without those below. */
void gyre_http_statistics_lag(const struct gyre_lag *lag, uint64_t counts[GYRE_HTTP_DURATIONS + 1]);

#endif
