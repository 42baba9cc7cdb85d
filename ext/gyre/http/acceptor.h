/* State shared by the connections of a Gyre::HTTP::NativeAcceptor (acceptor.c). Contract:
 * lib/gyre/http/server.rb. */
#pragma once

#include "fiber/scheduler.h"
#include "http/admission.h"
#include "http/buffer.h"
#include "http/connection.h"
#include "net/proxy_protocol.h"

#include <netinet/in.h>

/* Env values kept for requests with the same authority and peer address; see env.c. */
struct gyre_http_usual {
  VALUE server_name, server_port, remote; /* frozen; 0 until env.c has learned them */
  uint32_t misses;
  uint16_t authority_length;
  bool https;
  struct gyre_peer peer;
  char authority[256];
};

/* Maps the template's entries to the values that each env sets; see env.c. */
#define GYRE_HTTP_ENV_PLACES 64
struct gyre_http_env_places {
  int8_t values[GYRE_HTTP_ENV_PLACES]; /* index of the entry's value in env.c, or -1 */
  uint16_t missing;                    /* a bit for each value that the template has no entry for */
};

struct gyre_http_acceptor {
  struct gyre_acceptor net;
  struct gyre_client client;
  struct gyre_list keeper;
  struct gyre_scheduler *scheduler; /* NULL before start */
  VALUE self, sockets, contexts, handler;
  VALUE exempt; /* nil, or call(path): true if a GET or HEAD of the path needs no place */
  struct gyre_http_limits limits;
  struct gyre_http_capacity capacity;
  struct gyre_list connections;
  int paused_error; /* errno of the accept that failed */
  bool draining;
  bool cancel_when_gone; /* cancels requests of departed clients */
  void *scratch;         /* HTTP/1's; its content is valid until the next call on any connection */
  struct {
    VALUE object;          /* Gyre::HTTP::ThreadCalls: calls from other threads */
    struct gyre_post post; /* linked while calls or departures wait */
  } thread_calls;
  struct gyre_list leaving; /* exchanges whose clients have departed */
  struct {
    struct gyre_proxy_range *ranges; /* peers whose PROXY headers are trusted; empty: all */
    uint32_t count;
  } proxies;
  struct {
    struct gyre_list active, spare; /* spare exchanges for the next requests */
    int spare_count;
  } exchanges;
  /* Keys: Ruby objects of connections that have left HTTP; each responds to `interrupt`. */
  VALUE upgraded;
  struct {
    void *block;                             /* of unsent bytes, to which more are appended; or NULL */
    uint64_t unsent_bytes;                   /* memory of all such blocks */
    uint64_t unfinished_bytes;               /* memory of unfinished messages */
    struct gyre_list unfinished, publishers; /* sockets, the oldest message first; fibers that wait */
  } websockets;                              /* websocket/connection.c */
  struct {
    uint32_t idle, lingering_refused;
    uint32_t upgraded_drained;
    uint64_t running;
    uint64_t handshake_turn; /* number of the turn that `handshakes` belongs to */
    uint32_t handshakes;
  } counts;
  struct gyre_http_statistics statistics;
  int64_t measured_ns; /* when the last response was measured */
  struct {
    VALUE template;
    struct gyre_http_usual usual;
    struct gyre_http_env_places places;
  } env;
  struct gyre_http_buffer output; /* for a response's head; valid until the fiber parks */
  struct gyre_http_date date;
};

/* Returns how long a drain waits for a request that may be on its way. */
static inline int64_t gyre_http_acceptor_grace(const struct gyre_http_acceptor *acceptor) {
  return acceptor->net.shared ? 2 * GYRE_HTTP_GRACE_NS : GYRE_HTTP_GRACE_NS;
}
static inline struct gyre_loop *gyre_http_loop(const struct gyre_http_connection *connection) {
  return &connection->acceptor->scheduler->loop;
}

/* acceptor.c */
/* Leaves the loop if the acceptor is closed and its last connection has ended. */
void gyre_http_acceptor_settle(struct gyre_http_acceptor *acceptor);

/* limits.c */
void gyre_http_limits_read(struct gyre_http_limits *table, VALUE limits);
void gyre_websocket_limits_read(struct gyre_websocket_limits *table, VALUE limits);
void gyre_http_capacity_read(struct gyre_http_capacity *capacity, VALUE limits);

/* env.c: called before the first env is made. */
void gyre_http_env_prepare(struct gyre_http_acceptor *acceptor);
