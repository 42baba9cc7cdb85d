/*
 * An acceptor: listening sockets on a loop and their accept loop. Limits connections per turn and
 * in all, and pauses while descriptors or memory are short. A protocol's server embeds one and gets
 * the connections. Closes no listening socket and holds no fiber. No ruby.h.
 */
#ifndef GYRE_NET_ACCEPTOR_H
#define GYRE_NET_ACCEPTOR_H

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
  uint8_t proxy; /* accepted versions of the PROXY header (proxy_protocol.h); 0: none */
};

/* The protocol's part. The first two take the accepted descriptor, non-blocking and
 * close-on-exec. */
struct gyre_acceptor_operations {
  /* Returns 0 or -errno; after an error the acceptor closes the descriptor and pauses. */
  int (*accept)(struct gyre_acceptor_listener *listener, int fd, const struct sockaddr_storage *peer);
  /* Takes descriptors beyond the limit of open connections. */
  void (*refuse)(struct gyre_acceptor_listener *listener, int fd, const struct sockaddr_storage *peer);
  /* Reports an error after which accepting pauses for a second. */
  void (*paused)(struct gyre_acceptor *acceptor, int error);
};

struct gyre_acceptor {
  const struct gyre_acceptor_operations *operations;
  struct gyre_loop *loop; /* NULL before start */
  struct gyre_acceptor_listener *listeners;
  uint32_t listener_count;
  bool listening;
  bool shared;    /* other processes accept from the same sockets: processes take turns */
  bool patient;   /* has left this turn to another process */
  uint8_t rounds; /* turns in a row that left connections waiting */
  struct gyre_timer pause, turn;
  struct gyre_shares shares; /* the processes' counts */
  uint32_t open, open_limit; /* connections; the protocol counts `open` (gyre_acceptor_count) */
  uint64_t accepted;
};

/* Makes room for the listeners. Returns 0 or -ENOMEM. */
int gyre_acceptor_init(struct gyre_acceptor *acceptor, const struct gyre_acceptor_operations *operations,
                       size_t listeners);
/* The caller keeps the context. */
void gyre_acceptor_add(struct gyre_acceptor *acceptor, int fd, struct gyre_tls_context *tls);
void gyre_acceptor_free(struct gyre_acceptor *acceptor);

/* Starts to accept. Returns 0, or -errno with nothing watched. */
int gyre_acceptor_start(struct gyre_acceptor *acceptor, struct gyre_loop *loop);
/* Accepts the connections that the kernel has ready, then no more. Takes them because closing the
 * socket would reset clients that may have sent a request. */
void gyre_acceptor_finish(struct gyre_acceptor *acceptor);
/* Stops accepting at once. */
void gyre_acceptor_stop(struct gyre_acceptor *acceptor);
/* Adds `difference` to the count of open connections. */
void gyre_acceptor_count(struct gyre_acceptor *acceptor, int difference);
/* Makes a transport over an accepted descriptor; a TLS handshake, if any, is next. Returns 0 or
 * -errno. */
int gyre_acceptor_open(const struct gyre_acceptor_listener *listener, struct gyre_transport *transport, int fd);
/* For a forked child: forgets the loop, which is the parent's. */
void gyre_acceptor_forget(struct gyre_acceptor *acceptor);

#endif
