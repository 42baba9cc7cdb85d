/* HTTP/1: one request at a time on a connection. connection.c collects heads on the loop's fiber;
 * exchange.c runs in the handler's fiber. The parser (parser.h, chunked.h) needs no Ruby. */
#pragma once

#include "http/exchange.h"
#include "http/h1/chunked.h"

struct gyre_http1_exchange {
  struct gyre_http_exchange shared;
  struct gyre_http1_chunked chunks;
  int64_t body_remaining; /* -1: chunked */
  int64_t unread_from;    /* number of body bytes read before the discard of the rest */
  uint64_t given;         /* bytes passed to the client's socket */
  bool chunked;
};

static inline struct gyre_http1_exchange *gyre_http1_of(struct gyre_http_exchange *exchange) {
  return GYRE_CONTAINER(exchange, struct gyre_http1_exchange, shared);
}

extern const struct gyre_http_exchange_operations gyre_http1_exchange_operations; /* exchange.c */

/* connection.c */
/* Parses the input. Returns false if the head is incomplete. A refusal sets request->status. */
bool gyre_http1_parse(struct gyre_http_connection *connection, struct gyre_http_request *request);
void gyre_http1_release_partial(struct gyre_http_connection *connection);
/* True if the handler can run now. A refused request needs no place. */
bool gyre_http1_admit(struct gyre_http_connection *connection, struct gyre_http_request *request);
/* Makes the request wait for its body or a place. The request's bytes stay in the transport's
 * input. Returns false if the request is refused (request->status). */
bool gyre_http1_wait(struct gyre_http_connection *connection, struct gyre_http_request *request);
void gyre_http1_idle(struct gyre_http_connection *connection);
/* Continues the connection, or its upgraded protocol, after the handler's end. */
void gyre_http1_go_on(struct gyre_http_connection *connection);
