/* An HTTP/2 client's connection, for lib/gyre/http/client/h2_connection.rb: client.c moves bytes
 * and ends the connection; client_call.c sends requests and waits for responses.
 *
 * On a loop, one watch reads for all fibers, and frames are sent at the turn's end. In a
 * thread outside of a loop, the waiting caller moves bytes, and the pool lends the connection to
 * one caller at a time. */
#pragma once

#include "fiber/scheduler.h"
#include "http/client_limits.h"
#include "http/h2/session.h"

enum gyre_http2_client_state {
  GYRE_HTTP2_CLIENT_OPEN,
  GYRE_HTTP2_CLIENT_ENDED,  /* by the server */
  GYRE_HTTP2_CLIENT_BROKEN, /* the server has broken HTTP/2 */
  GYRE_HTTP2_CLIENT_FAILED, /* client->error */
  GYRE_HTTP2_CLIENT_CLOSED, /* by this side */
};

struct gyre_http2_client {
  VALUE self, transport_object, io, scheduler_object;
  struct gyre_transport *transport;
  struct gyre_scheduler *scheduler; /* NULL: callers move the bytes */
  struct gyre_http2_session session;
  struct gyre_http2_limits limits;
  struct gyre_http_capacity capacity;
  struct gyre_http_client_limits own; /* time limits of waits */
  int64_t received_ns;                /* when bytes last came, or a request ended an idle time */
  uint8_t state;                      /* enum gyre_http2_client_state */
  int error;                          /* -errno */
  uint32_t calls;                     /* number of calls that have a stream */
  bool used;                          /* has carried a request */
  bool linked;                        /* the loop watches it; GC marks it by the entry */
  bool doubted;                       /* a request got nothing in time; no other begins until bytes come */
  bool hung_up;                       /* the loop has reported that the server sends no more */
  struct gyre_client entry;           /* in scheduler->clients */
  struct gyre_watch watch, room;
  struct gyre_timer timer;
  struct gyre_deferred sending; /* sends at the turn's end */
};

/* One request: a Ruby object that owns a stream. */
struct gyre_http2_call {
  VALUE self, client_object, headers, trailers;
  VALUE interim;                     /* gets status and headers of interim responses, or nil */
  VALUE body;                        /* the String that the stream sends, or nil */
  VALUE early;                       /* response bytes that came before the request's end, or nil */
  struct gyre_http2_stream *stream;  /* NULL once released */
  struct gyre_wait *reader, *writer; /* on the stacks of parked fibers */
  int64_t began_ns;                  /* coarse time */
  int64_t until_ns;                  /* end of the request's time; -1: none */
  int64_t piece_until_ns;            /* when the next piece of the body must be there; -1: no limit */
  int64_t received;                  /* body bytes taken by the caller */
  uint16_t status;                   /* of the newest head; 0: none */
  uint8_t interims;                  /* number of interim heads */
};

struct gyre_http2_client *gyre_http2_client_get(VALUE connection);
/* Links an open connection to its loop before a request. */
void gyre_http2_client_begin(struct gyre_http2_client *client);
/* Lets queued bytes be sent at the turn's end. */
void gyre_http2_client_send(struct gyre_http2_client *client);
/* Sends a PING after a request that has got nothing since it began. */
void gyre_http2_client_doubt(struct gyre_http2_client *client);
/* Returns a coarse time of the connection's clock. */
int64_t gyre_http2_client_now(const struct gyre_http2_client *client);
/* Sends and receives; waits up to `limit_ns` for bytes or room (-1: no limit). May raise. */
void gyre_http2_client_drive(struct gyre_http2_client *client, int64_t limit_ns);
/* True if another request may begin. */
bool gyre_http2_client_is_open(const struct gyre_http2_client *client);
