/* Limits of a server's connections and streams (lib/gyre/http/limits.rb), read from Ruby by
 * limits.c, and values computed from them. */
#pragma once

#include "http/head.h"

/* Factor of a client's minimum rate while its request has one of a limited number of places. */
#define GYRE_HTTP_PLACE_RATE 16

struct gyre_http2_limits {
  struct gyre_http_head_limits head;
  uint32_t trailer_bytes;
  uint32_t streams;                          /* maximum open at once */
  uint32_t resets;                           /* allowed at once; a tenth is regained each second */
  uint32_t control_frames;                   /* control frames allowed at once and per second */
  uint32_t stream_window, connection_window; /* maximum unread bytes of request bodies */
  uint32_t output;                           /* maximum queued bytes of a response */
  bool extended_connect;                     /* RFC 8441 is offered */
};

/* A time of -1 means no limit. */
struct gyre_http_limits {
  struct gyre_http_head_limits head, trailers;
  struct gyre_http2_limits http2;
  int64_t body_bytes, unread_body_bytes, body_rate, response_rate;
  int64_t handshake_ns, first_byte_ns, head_ns, read_ns, write_ns, keep_alive_ns, linger_ns;
  int64_t body_ns, body_grace_ns, unread_body_ns, request_ns;
  uint32_t requests, connections; /* maximum of a connection; of an acceptor */
  uint32_t body_ahead;            /* body bytes that must have come before a request gets a place */
};

/* Returns the time limit for a body's next bytes; -1: no limit. `placed`: the request has one of a
 * limited number of places, and the minimum rate is GYRE_HTTP_PLACE_RATE times as high. */
int64_t gyre_http_body_limit_ns(const struct gyre_http_limits *limits, int64_t received, int64_t waited_ns, bool placed,
                                const char **reason);
/* Returns the waiting time that a client earns with `bytes` at the minimum rate. */
static inline int64_t gyre_http_earned_ns(int64_t bytes, int64_t rate, bool placed) {
  if (placed) rate *= GYRE_HTTP_PLACE_RATE;
  return bytes > INT64_MAX / 1000000000 ? INT64_MAX : bytes * 1000000000 / rate;
}
