/*
 * An acceptor: listening sockets on a loop, and the one accept loop over them, with its budget for
 * a turn, its limit of open connections and its pause while descriptors or memory are short. A
 * protocol's server embeds one and is given the connections. It closes no listening socket and
 * holds no fiber. No ruby.h.
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
  uint8_t proxy; /* versions of the PROXY header that its connections begin with (proxy_protocol.h); 0: none */
};

/* The protocol's part. Each of the first two takes the accepted descriptor, which does not block
 * and is closed by exec. */
struct gyre_acceptor_operations {
  /* 0; or -errno, and the descriptor is left to the acceptor, which closes it and pauses. */
  int (*accept)(struct gyre_acceptor_listener *listener, int fd, const struct sockaddr_storage *peer);
  /* The same beyond the limit of open connections, for a refusal. */
  void (*refuse)(struct gyre_acceptor_listener *listener, int fd, const struct sockaddr_storage *peer);
  /* Accepting rests for a second after this error. */
  void (*paused)(struct gyre_acceptor *acceptor, int error);
};

struct gyre_acceptor {
  const struct gyre_acceptor_operations *operations;
  struct gyre_loop *loop; /* NULL before start */
  struct gyre_acceptor_listener *listeners;
  uint32_t listener_count;
  bool listening;
  bool shared;    /* other processes accept from the same sockets: connections are taken in turns */
  bool patient;   /* the present turn is left to another process */
  uint8_t rounds; /* turns of accepting in a row, with connections left */
  struct gyre_timer pause, turn;
  struct gyre_shares shares; /* of the other processes */
  uint32_t open, open_limit; /* connections; `open` is counted by the protocol (gyre_acceptor_count) */
  uint64_t accepted;
};

/* Room for so many listeners; 0 or -ENOMEM. */
int gyre_acceptor_init(struct gyre_acceptor *acceptor, const struct gyre_acceptor_operations *operations,
                       size_t listeners);
/* The context is the caller's to keep. */
void gyre_acceptor_add(struct gyre_acceptor *acceptor, int fd, struct gyre_tls_context *tls);
void gyre_acceptor_free(struct gyre_acceptor *acceptor);

/* Accepts from now on; 0 or -errno, and nothing is watched. */
int gyre_acceptor_start(struct gyre_acceptor *acceptor, struct gyre_loop *loop);
/* Accepts what the kernel has ready, and no more afterwards. For its clients a connection that the
 * kernel has taken is one of this server's, and may hold a request already: closing the socket
 * would reset it. */
void gyre_acceptor_finish(struct gyre_acceptor *acceptor);
/* Accepts no more, from now on. */
void gyre_acceptor_stop(struct gyre_acceptor *acceptor);
/* Adds `difference` to the count of open connections. */
void gyre_acceptor_count(struct gyre_acceptor *acceptor, int difference);
/* Makes a transport over an accepted descriptor; with TLS the handshake is next. 0 or -errno. */
int gyre_acceptor_open(const struct gyre_acceptor_listener *listener, struct gyre_transport *transport, int fd);
/* Of such a transport, after a handshake that failed with -EPROTO: whether the client speaks no
 * TLS. The transport is a plain one then. */
bool gyre_acceptor_leave_tls(struct gyre_transport *transport);
bool gyre_acceptor_begun(const struct gyre_transport *transport); /* the client has sent something */
bool gyre_acceptor_agreed(const struct gyre_transport *transport, const char *protocol); /* by ALPN */
bool gyre_acceptor_resumed(const struct gyre_transport *transport); /* the handshake resumed a session */
/* The loop is gone, as in a forked child: nothing of it is touched. */
void gyre_acceptor_forget(struct gyre_acceptor *acceptor);

#endif
