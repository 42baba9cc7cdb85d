/* HTTP/2: one exchange per stream. connection.c moves frames (session.h, by libnghttp2) and checks
 * time limits on the loop's fiber; exchange.c runs in handlers' fibers. */
#pragma once

#include "http/exchange.h"
#include "http/h2/session.h"

/* connection->own */
struct gyre_http2_connection {
  struct gyre_http2_session session;
  struct gyre_http_connection *connection;
  struct gyre_deferred sending; /* sends at the turn's end */
  struct gyre_watch room;       /* waits for room in a full socket; otherwise fd -1 */
  uint32_t running;             /* number of handlers, and of connections within streams */
  uint32_t entered;             /* depth of calls from the loop; a free waits until it is 0 */
  int64_t began_ns, idle_ns;    /* idle_ns: time of the last stream's end */
  int64_t blocked_ns;           /* when the socket became full; 0: not full */
  int64_t warned_ns;            /* when a drain's first GOAWAY was sent; 0: not yet */
  int64_t bodies_ns;            /* last check of awaited bodies */
  int64_t looked_ns;            /* last check of streams without a handler; 0: none */
};

struct gyre_http2_exchange {
  struct gyre_http_exchange shared;
  struct gyre_http2_stream *stream;
  struct gyre_http_reader *writer;     /* waits for room */
  struct gyre_http_connection *tunnel; /* connection of the stream's new protocol, or NULL */
  bool cut;                            /* the app has closed the stream */
  bool websocket;                      /* a CONNECT (RFC 8441) that env shows as an upgrade */
};

static inline struct gyre_http2_exchange *gyre_http2_of(const struct gyre_http_exchange *exchange) {
  return GYRE_CONTAINER(exchange, struct gyre_http2_exchange, shared);
}
static inline struct gyre_http2_stream *gyre_http2_stream_of(const struct gyre_http_exchange *exchange) {
  return gyre_http2_of(exchange)->stream;
}

extern const struct gyre_http_exchange_operations gyre_http2_exchange_operations; /* exchange.c */

/* connection.c */
/* Lets queued frames be sent at the turn's end. */
void gyre_http2_connection_send(struct gyre_http_connection *connection);
/* Releases a stream whose handler or tunnel has ended. May free the connection. */
void gyre_http2_connection_leave_stream(struct gyre_http_connection *connection, struct gyre_http2_stream *stream);

/* tunnel.c */
/* Makes a connection that uses the exchange's stream. Returns NULL if memory is short. */
struct gyre_http_connection *gyre_http2_tunnel_open(struct gyre_http_exchange *exchange);
/* Continues a tunnel after its handler, or frees it and returns false if it is closed. */
bool gyre_http2_tunnel_begin(struct gyre_http_connection *connection, struct gyre_http2_stream *stream);
extern const struct gyre_http_inner gyre_http2_tunnel;
/* Responds with the head of HTTP/1.1 that a hijacked stream's app has written. Returns the head's
 * length, 0 if it is incomplete, or -errno. */
ssize_t gyre_http2_tunnel_respond(struct gyre_http_connection *connection, char *bytes, size_t length);
