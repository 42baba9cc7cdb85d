/*
 * HTTP/2 on the loop: a connection's frames (http2_session.h) over its transport, and an exchange
 * for each stream in its own fiber. Each file calls only those above it, and those of http1.h:
 *
 *   http2_head.c           the head of a request (no ruby.h)
 *   http2_session.c        frames and streams, by libnghttp2 (no ruby.h)
 *   http2_connection.c     bytes in, one send at the turn's end, times, the end
 *   http2_response.c       write_response, write_head, write_body …: in the handler's fiber
 *   http2_request.c        next_request, read_body and the questions: in the handler's fiber
 *   http2_handler.c        the handler's fiber
 */
#ifndef GYRE_HTTP2_H
#define GYRE_HTTP2_H

#include "http/http1.h"
#include "http/http2_session.h"

struct gyre_http2_connection {
  struct gyre_http2_session session;
  struct gyre_http1_connection *connection;
  struct gyre_deferred sending; /* at the turn's end */
  struct gyre_watch room;       /* while the socket is full; fd -1 else */
  uint32_t running;             /* handlers */
  uint32_t entered;             /* its functions that are under way, and need it afterwards */
  int64_t began_ns, idle_ns;    /* idle: since when there is no stream */
  int64_t blocked_ns;           /* since when the socket takes nothing; 0: it does */
  int64_t warned_ns;            /* when the client was told that the server stops; 0: it was not */
  int64_t bodies_ns;            /* when bodies that are awaited were looked at */
  int64_t looked_ns;            /* when streams without a handler were looked at; 0: there are none */
  bool left;                    /* to the parent, in a forked child: nothing is told to its handlers */
};

extern const struct gyre_http2_operations gyre_http2_operations;
extern VALUE gyre_cHttp2Exchange;

/* http2_connection.c */
/* Something is to be sent: at the end of this turn. */
void gyre_http2_connection_send(struct gyre_http1_connection *connection);
/* After a handler's end, and after whatever else has changed. */
void gyre_http2_connection_settle(struct gyre_http1_connection *connection);

/* The stream of an exchange that is under way; NULL after its end, or that of its connection. */
static inline struct gyre_http2_stream *gyre_http2_exchange_stream(VALUE self) {
  const struct gyre_http_exchange *exchange = gyre_http_exchange_open(self);
  return exchange && exchange->stream && !exchange->stream->closed ? exchange->stream : NULL;
}

/* http2_request.c */
/* The exchange gets its env from the stream's head. */
void gyre_http2_request_begin(struct gyre_http_exchange *exchange, struct gyre_http2_stream *stream);

/* http2_response.c */
bool gyre_http2_write_interim(struct gyre_http_exchange *exchange, int status, VALUE headers);
/* Refuses the request with its status: one plain line. */
void gyre_http2_response_refuse(struct gyre_http_exchange *exchange);

/* http2_handler.c */
/* 0, or the state to go on with by rb_jump_tag. */
int gyre_http2_handler_start(struct gyre_http1_connection *connection, struct gyre_http2_stream *stream);

void gyre_init_http2(void);
void gyre_init_http2_request(void);
void gyre_init_http2_response(void);

#endif
