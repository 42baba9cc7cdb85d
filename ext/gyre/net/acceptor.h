/* Listening sockets on a loop, and their accept loop. Limits connections per turn and in all;
 * pauses while descriptors or memory are short. Embedded by a protocol's server, which gets the
 * connections. Closes no listening socket and holds no fiber. No ruby.h. */
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

/* The protocol's part; descriptors are non-blocking and close-on-exec. */
struct gyre_acceptor_operations {
  /* Returns 0 or -errno, after which the acceptor closes the descriptor and pauses. */
  int (*accept)(struct gyre_acceptor_listener *listener, int fd, const struct sockaddr_storage *peer);
  /* Takes descriptors beyond the limit. */
  void (*refuse)(struct gyre_acceptor_listener *listener, int fd, const struct sockaddr_storage *peer);
  /* Reports an error, with a pause of a second. */
  void (*paused)(struct gyre_acceptor *acceptor, int error);
};

struct gyre_acceptor {
  const struct gyre_acceptor_operations *operations;
  struct gyre_loop *loop; /* NULL before start */
  struct gyre_acceptor_listener *listeners;
  uint32_t listener_count;
  bool listening;
  bool shared;    /* other processes accept, too: they take turns */
  bool patient;   /* has left this turn to another process */
  uint8_t rounds; /* turns in a row with connections left */
  struct gyre_timer pause, turn;
  struct gyre_shares shares; /* the processes' counts */
  uint32_t open, open_limit; /* the protocol counts `open` (gyre_acceptor_count) */
  uint64_t accepted;
};

/* Returns 0 or -ENOMEM. */
int gyre_acceptor_init(struct gyre_acceptor *acceptor, const struct gyre_acceptor_operations *operations,
                       size_t listeners);
/* The caller keeps the context. */
void gyre_acceptor_add(struct gyre_acceptor *acceptor, int fd, struct gyre_tls_context *tls);
void gyre_acceptor_free(struct gyre_acceptor *acceptor);

/* Returns 0, or -errno with nothing watched. */
int gyre_acceptor_start(struct gyre_acceptor *acceptor, struct gyre_loop *loop);
/* Accepts the kernel's queue, then stops: closing the socket would reset clients that may have sent
 * a request. */
void gyre_acceptor_finish(struct gyre_acceptor *acceptor);
void gyre_acceptor_stop(struct gyre_acceptor *acceptor);
void gyre_acceptor_count(struct gyre_acceptor *acceptor, int difference);
/* Makes a transport, for which a TLS handshake may be next. Returns 0 or -errno. */
int gyre_acceptor_open(const struct gyre_acceptor_listener *listener, struct gyre_transport *transport, int fd);
/* Forgets the parent's loop, in a forked child. */
void gyre_acceptor_forget(struct gyre_acceptor *acceptor);
