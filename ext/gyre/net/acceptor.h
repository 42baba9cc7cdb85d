/* Listening sockets on a loop, and their accept loop. Limits connections per turn and in total;
 * pauses while descriptors or memory are short. Embedded in a protocol's server, which receives the
 * connections. Closes no listening socket and runs no fiber. No ruby.h. */
#pragma once

#include "loop/loop.h"
#include "net/shares.h"
#include "net/transport.h"

#include <sys/socket.h>

struct gyre_acceptor;

struct gyre_acceptor_listener {
  struct gyre_watch watch;
  struct gyre_acceptor *acceptor;
  struct gyre_tls_context *tls; /* NULL: plain */
  int fd;
  uint8_t proxy; /* accepted PROXY versions (proxy_protocol.h); 0: none */
};

/* Callbacks of a protocol's server. Descriptors are non-blocking and close-on-exec. */
struct gyre_acceptor_operations {
  /* Returns 0 or -errno. After an error the acceptor closes the descriptor and pauses. */
  int (*accept)(struct gyre_acceptor_listener *listener, int fd, const struct sockaddr_storage *peer);
  /* Called instead of `accept` beyond `open_limit`. Must close the descriptor. */
  void (*refuse)(struct gyre_acceptor_listener *listener, int fd, const struct sockaddr_storage *peer);
  /* Called with an errno when accepting pauses for a second. */
  void (*paused)(struct gyre_acceptor *acceptor, int error);
};

struct gyre_acceptor {
  const struct gyre_acceptor_operations *operations;
  struct gyre_loop *loop; /* NULL before start */
  struct gyre_acceptor_listener *listeners;
  uint32_t listener_count;
  bool listening;
  bool shared;    /* other processes accept from the same sockets, in turns */
  bool patient;   /* this pause lets a process with far fewer connections go first */
  uint8_t rounds; /* consecutive turns that left connections waiting */
  struct gyre_timer pause, turn;
  struct gyre_shares shares; /* connection counts of all processes */
  uint32_t open, open_limit; /* open connections (gyre_acceptor_count), and their limit */
  uint32_t away;             /* open connections that apps have taken; they count only in `shares` */
  uint64_t accepted;
};

/* Returns 0 or -ENOMEM. */
int gyre_acceptor_init(struct gyre_acceptor *acceptor, const struct gyre_acceptor_operations *operations,
                       size_t listeners);
/* The caller keeps `tls` alive. */
void gyre_acceptor_add(struct gyre_acceptor *acceptor, int fd, struct gyre_tls_context *tls);
void gyre_acceptor_free(struct gyre_acceptor *acceptor);

/* Returns 0 or -errno. After an error no socket is watched. */
int gyre_acceptor_start(struct gyre_acceptor *acceptor, struct gyre_loop *loop);
/* Accepts the queued connections, then stops. Closing the socket would reset queued clients, which
 * may have sent a request. */
void gyre_acceptor_finish(struct gyre_acceptor *acceptor);
void gyre_acceptor_stop(struct gyre_acceptor *acceptor);
void gyre_acceptor_count(struct gyre_acceptor *acceptor, int difference);
/* Initializes the transport, with TLS if the listener has a context. Returns 0 or -errno. */
int gyre_acceptor_open(const struct gyre_acceptor_listener *listener, struct gyre_transport *transport, int fd);
/* Forgets the parent's loop. Call it in a forked child. */
void gyre_acceptor_forget(struct gyre_acceptor *acceptor);
