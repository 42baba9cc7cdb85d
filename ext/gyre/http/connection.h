/* One connection: its transport, the steps before a protocol takes over, and its end
 * (connection.c). A protocol is a table of functions, for example HTTP/1 (h1/) and HTTP/2 (h2/). A
 * connection may also run inside an HTTP/2 stream (h2/tunnel.c).
 *
 *   accepted ─► (PROXY) ─► (HANDSHAKE, with TLS) ─► FIRST_BYTE ─► a protocol: BETWEEN ◄─► SERVING
 *                                                                    └─► LINGERING ─► CLOSED, HIJACKED
 */
#pragma once

#include "http/limits.h"
#include "net/acceptor.h"

struct gyre_http_connection;

/* `begin`, `readable`, `late`, `drain` and `room` may free the connection. */
struct gyre_http_protocol {
  const char *alpn, *preface; /* a client's ALPN name and first bytes for this protocol, or NULL */
  /* Allocates (malloc) memory shared by an acceptor's connections. */
  void *(*make_scratch)(const struct gyre_http_limits *limits);
  /* Takes over the connection. `bytes` are in lent memory or in the transport's input. */
  void (*begin)(struct gyre_http_connection *connection, const char *bytes, size_t length);
  /* Called when bytes have come, or the peer has closed its side. */
  void (*readable)(struct gyre_http_connection *connection);
  /* Called when the deadline has passed in BETWEEN, SERVING or FIRST_BYTE. */
  void (*late)(struct gyre_http_connection *connection);
  /* Called when the server stops. Ends idle work and lets other work complete. */
  void (*drain)(struct gyre_http_connection *connection);
  /* Called once or more when the connection leaves the protocol. Wakes all waiting fibers. */
  void (*detached)(struct gyre_http_connection *connection);
  /* Frees connection->own and returns true, or returns false if `own` is still used and is freed
   * later. `gone`: the loop and the exchanges are already freed. */
  bool (*free)(struct gyre_http_connection *connection, bool gone);
  /* Only inside a stream: called when output was sent, or when the stream is closed. */
  void (*room)(struct gyre_http_connection *connection);
};

/* The functions that every protocol has, by these names in its file. */
#define GYRE_HTTP_PROTOCOL                                                                                             \
  .begin = begin, .readable = readable, .late = late, .drain = drain, .detached = detached, .free = free_own

/* For a connection inside a stream: `report` calls `readable` in the next turn. */
struct gyre_http_inner {
  void (*report)(struct gyre_http_connection *connection);
  void (*close)(struct gyre_http_connection *connection, bool reset);
};

/* BETWEEN: the connection has no exchange. If idle, it also has no fiber and no buffer. */
enum gyre_http_state {
  GYRE_HTTP_PROXY,
  GYRE_HTTP_HANDSHAKE,
  GYRE_HTTP_FIRST_BYTE,
  GYRE_HTTP_BETWEEN,
  GYRE_HTTP_SERVING,
  GYRE_HTTP_LINGERING,
  GYRE_HTTP_HIJACKED,
  GYRE_HTTP_CLOSED
};

struct gyre_peer {
  uint8_t family;
  uint8_t address[16]; /* of AF_INET or AF_INET6; otherwise zeros */
};

/* The part of a connection that exists even while the connection is idle. */
struct gyre_http_connection {
  struct gyre_list node; /* in acceptor->connections */
  struct gyre_http_acceptor *acceptor;
  const struct gyre_http_protocol *protocol;
  void *own;                           /* the protocol's memory, or NULL */
  struct gyre_http_exchange *exchange; /* exchange whose handler runs; NULL: none, or HTTP/2 */
  struct gyre_watch watch;
  struct gyre_timer timer;
  int64_t deadline_ns;
  struct gyre_transport transport;
  uint32_t requests;
  uint32_t lingered;        /* LINGERING: number of bytes received and discarded */
  uint32_t lingered_before; /* the same at the last check */
  uint32_t untaken;         /* LINGERING: sent bytes that the client had not taken at the last check */
  struct gyre_peer peer;
  uint8_t unmoved;      /* number of consecutive checks that found the same `untaken` */
  uint8_t linger_times; /* number of checks after which LINGERING went on for the client's bytes */
  uint8_t state;        /* enum gyre_http_state */
  uint8_t phase;        /* the protocol's state; 0 at first */
  bool readable : 1;    /* there may be bytes to read */
  bool hung_up : 1;     /* the peer sends no more */
  bool counted : 1;     /* in acceptor->net.open */
  bool is_idle : 1;     /* counted in acceptor->counts.idle */
  bool keep_alive : 1;
  bool https : 1;     /* the scheme in env is https */
  bool inner : 1;     /* inside an HTTP/2 stream (h2/tunnel.c); has no descriptor */
  bool abandoned : 1; /* in a forked child: belongs to the parent */
  unsigned proxy : 2; /* accepted versions of a PROXY header */
};

/* Time that a drain waits for bytes that may be on their way. */
#define GYRE_HTTP_GRACE_NS INT64_C(250000000)
/* Maximum receptions in a row before other connections get their turn. */
#define GYRE_HTTP_RECEIVES_AT_ONCE 8

/* Set when the extension loads; `http2` stays NULL if libnghttp2 is missing. */
struct gyre_http_protocols {
  const struct gyre_http_protocol *http1, *http2;
  const struct gyre_http_inner *inner;
};
extern struct gyre_http_protocols gyre_http_protocols;

struct gyre_peer gyre_http_peer(const struct sockaddr_storage *address);
struct gyre_http_connection *gyre_http_connection_new(const struct gyre_acceptor_listener *listener, int fd,
                                                      const struct sockaddr_storage *address);
void gyre_http_connection_begin_inner(struct gyre_http_connection *connection,
                                      const struct gyre_http_connection *outer);
/* Calls `readable` in the next turn. */
void gyre_http_connection_report_again(struct gyre_http_connection *connection);
void gyre_http_connection_enter(struct gyre_http_connection *connection, const struct gyre_http_protocol *protocol,
                                const char *bytes, size_t length);
void gyre_http_connection_close(struct gyre_http_connection *connection, bool reset);
/* Takes the connection off the loop and leaves it open. */
void gyre_http_connection_detach(struct gyre_http_connection *connection);
/* Closes the server's side and discards the client's bytes. */
void gyre_http_connection_linger(struct gyre_http_connection *connection);
/* Does nothing while a handler runs: the handler's end then frees the connection. */
void gyre_http_connection_free(struct gyre_http_connection *connection);
/* Frees a connection whose loop and exchanges are already freed. */
void gyre_http_connection_discard(struct gyre_http_connection *connection);
/* Closes and frees the connection. */
void gyre_http_connection_end(struct gyre_http_connection *connection, bool reset);
void gyre_http_connection_set_idle(struct gyre_http_connection *connection, bool idle);
void gyre_http_connection_deadline(struct gyre_http_connection *connection, int64_t timeout_ns);
/* Sets the deadline as a time of the loop's clock; INT64_MAX: none. */
void gyre_http_connection_due(struct gyre_http_connection *connection, int64_t due_ns);
/* For protocols with several time limits. timeout_ns -1: no limit; since_ns 0: no time runs. */
static inline void gyre_http_sooner(int64_t *due_ns, int64_t from_ns, int64_t timeout_ns) {
  if (timeout_ns >= 0 && from_ns + timeout_ns < *due_ns) *due_ns = from_ns + timeout_ns;
}
static inline bool gyre_http_is_over(int64_t since_ns, int64_t timeout_ns, int64_t now_ns) {
  return since_ns && timeout_ns >= 0 && now_ns - since_ns >= timeout_ns;
}
/* Receives into the transport's input. Returns the number of bytes, 0 at the end, or -errno. */
ssize_t gyre_http_connection_fill(struct gyre_http_connection *connection);
/* Receives into lent memory. *bytes is valid until the fiber or thread yields. */
ssize_t gyre_http_connection_receive(struct gyre_http_connection *connection, const char **bytes);
/* Counts a reception. Returns true if the caller must stop, so that other connections get their
 * turn; `readable` is then called again. */
bool gyre_http_connection_gives_way(struct gyre_http_connection *connection, int *receptions);
