/* HTTP/2: an exchange per stream. connection.c moves frames (session.h, by libnghttp2) and checks
 * times on the loop's fiber; exchange.c runs in handlers' fibers. */
#pragma once

#include "http/exchange.h"
#include "http/h2/session.h"

/* connection->own */
struct gyre_http2_connection {
  struct gyre_http2_session session;
  struct gyre_http_connection *connection;
  struct gyre_deferred sending; /* at the turn's end */
  struct gyre_watch room;       /* a full socket's; else fd -1 */
  uint32_t running;             /* handlers, and connections within streams */
  uint32_t entered;             /* nested calls from the loop, until which it is not freed */
  int64_t began_ns, idle_ns;    /* idle: since the last stream's end */
  int64_t blocked_ns;           /* since when the socket is full; 0: it is not */
  int64_t warned_ns;            /* when a drain's first GOAWAY was sent; 0: not yet */
  int64_t bodies_ns;            /* last check of awaited bodies */
  int64_t looked_ns;            /* last check of streams without a handler; 0: none */
};

struct gyre_http2_exchange {
  struct gyre_http_exchange shared;
  struct gyre_http2_stream *stream;
  struct gyre_http_reader *writer;     /* waits for room */
  struct gyre_http_connection *tunnel; /* the stream's new protocol, or NULL */
  bool cut;                            /* the app has closed it */
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
/* Sends at the turn's end. */
void gyre_http2_connection_send(struct gyre_http_connection *connection);
/* Adjusts timers and room after a change. */
void gyre_http2_connection_settle(struct gyre_http_connection *connection);
/* Sends the rest of a stream without handler or tunnel. May free both. */
void gyre_http2_connection_leave_stream(struct gyre_http_connection *connection, struct gyre_http2_stream *stream);
void gyre_init_http2_connection(void);

/* tunnel.c */
/* Makes a connection of the exchange's stream; NULL without memory. */
struct gyre_http_connection *gyre_http2_tunnel_open(struct gyre_http_exchange *exchange);
/* Continues after its handler. False if the connection had ended and is freed. */
bool gyre_http2_tunnel_begin(struct gyre_http_connection *connection, struct gyre_http2_stream *stream);
extern const struct gyre_http_inner gyre_http2_tunnel;
/* Returns a socket for the app. */
VALUE gyre_http2_hijack(VALUE self);
