/* Limits of a server's connections and streams (lib/gyre/http/limits.rb), read from Ruby by
 * limits.c, and values computed from them. */
#pragma once

#include "http/head.h"
#include "http/limit_rows.h"

/* Factor of a client's minimum rate while its request has one of a limited number of places. */
#define GYRE_HTTP_PLACE_RATE 16

/* clang-format off */
#define GYRE_HTTP_LIMITS(NUMBER, TIME) \
  NUMBER(int64_t, body_bytes, 0) NUMBER(int64_t, unread_body_bytes, 0) \
  NUMBER(int64_t, body_rate_bytes, 0) NUMBER(int64_t, response_rate_bytes, 0) \
  TIME(handshake) TIME(first_byte) TIME(head) TIME(read) TIME(write) TIME(keep_alive) TIME(linger) \
  TIME(body) TIME(body_grace) TIME(unread_body) TIME(request) \
  NUMBER(uint32_t, keep_alive_requests, 0) NUMBER(uint32_t, connections, 0) NUMBER(uint32_t, body_ahead_bytes, 1 << 30)

/* A client's streams, allowances and unread bytes of bodies. */
#define GYRE_HTTP2_LIMITS(NUMBER) \
  NUMBER(uint32_t, streams, 1 << 16) NUMBER(uint32_t, stream_resets, 1 << 24) NUMBER(uint32_t, control_frames, 1 << 24) \
  NUMBER(uint32_t, stream_window_bytes, INT32_MAX) NUMBER(uint32_t, connection_window_bytes, INT32_MAX)

/* Of an open WebSocket or event stream. */
#define GYRE_WEBSOCKET_LIMITS(NUMBER, TIME) \
  TIME(idle) TIME(close) TIME(backlog) \
  NUMBER(uint32_t, message_bytes, 1 << 30) NUMBER(uint32_t, output_bytes, 1 << 30) NUMBER(uint32_t, backlog_bytes, 1 << 30)
/* clang-format on */

struct gyre_http2_limits {
  struct gyre_http_head_limits head, trailers;
  uint32_t output; /* maximum queued bytes of a response */
  GYRE_HTTP2_LIMITS(GYRE_LIMIT_NUMBER_FIELD)
  bool extended_connect; /* RFC 8441 is offered */
};

struct gyre_websocket_limits {
  GYRE_LIMIT_FIELDS(GYRE_WEBSOCKET_LIMITS)
};

struct gyre_http_limits {
  struct gyre_http_head_limits head, trailers;
  struct gyre_http2_limits http2;
  struct gyre_websocket_limits websocket;
  GYRE_LIMIT_FIELDS(GYRE_HTTP_LIMITS)
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
