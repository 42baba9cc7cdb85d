/* A WebSocket (RFC 6455) on an HTTP/1.1 connection, or one within a stream of HTTP/2 (RFC 8441),
 * that its request has handed over: the third implementer of http/connection.h's table
 * (protocol.c). An event stream is such a socket, too, but without frames. connection.c moves
 * frames, session.c runs the app's code, socket.c has Ruby's methods (lib/gyre/websocket.rb). It
 * holds neither a fiber nor a buffer while it waits, unless the app's fiber reads.
 *
 *   OPEN ─► CLOSING: our close was sent ─► over: the connection lingers or is closed
 *     └──── the peer's close, a fault, the end of the connection ────┘ */
#ifndef GYRE_WEBSOCKET_H
#define GYRE_WEBSOCKET_H

#include "http/exchange.h"
#include "websocket/deflate.h"
#include "websocket/input.h"

#define GYRE_WEBSOCKET_REASON_BYTES 123

/* The events for which the session is called; none if the app's code reads by itself. */
enum gyre_websocket_wants {
  GYRE_WEBSOCKET_WANTS_MESSAGES = 1,
  GYRE_WEBSOCKET_WANTS_DRAINED = 2,
  GYRE_WEBSOCKET_WANTS_CLOSE = 4
};

/* Changes that a fiber waits for. */
enum gyre_websocket_change { GYRE_WEBSOCKET_INPUT = 1, GYRE_WEBSOCKET_ROOM = 2, GYRE_WEBSOCKET_PONGS = 4 };

/* A fiber that waits, on its stack. */
struct gyre_websocket_waiter {
  struct gyre_list node;
  struct gyre_wait wait;
  struct gyre_websocket *websocket;
  unsigned change; /* enum gyre_websocket_change */
};

/* For output that the socket has not taken. Most sockets never have one. */
struct gyre_websocket_room {
  struct gyre_watch watch;
  struct gyre_websocket *websocket;
};

struct gyre_websocket_limits {
  int64_t idle_ns, close_ns; /* -1: none */
  uint32_t message_bytes, output_bytes, backlog_bytes;
};

/* Freed with its Ruby object, which acceptor->upgraded keeps until the session has ended. */
struct gyre_websocket {
  struct gyre_http_connection *connection; /* NULL once it is over */
  struct gyre_http_acceptor *acceptor;
  VALUE self, session, protocol;
  VALUE fiber;  /* runs the app's code, or nil */
  VALUE topics; /* an Array of Hashes that the socket leaves as it ends, or nil */
  struct gyre_websocket_limits limits;
  struct gyre_websocket_input input;
  struct gyre_websocket_compression compression;
  struct gyre_list waiters;
  struct gyre_websocket_room *room; /* freed with this; or NULL */
  struct gyre_deferred sending;     /* at the end of the turn */
  struct gyre_post starting;        /* of the session's next fiber */
  uint64_t sent_turn;               /* in which a frame was sent at once: the next ones leave together */
  int64_t heard_ns;                 /* when the peer last sent anything */
  int64_t blocked_ns;               /* when the peer stopped taking output; 0: it takes output */
  int64_t closing_ns;               /* when our close was sent; 0: it was not */
  int64_t drain_ns;                 /* when it is to close, as the server stops; 0: it does not */
  uint32_t input_counted;           /* bytes of the server's budget for input */
  uint32_t output_counted;          /* bytes of the one for output */
  uint32_t pinged, ponged;          /* numbers of the last ping, and of the last answer */
  char *reason;                     /* of the end, or NULL; has reason_length bytes */
  uint16_t code;                    /* of the end; 0: it goes on */
  uint8_t reason_length, wants;     /* enum gyre_websocket_wants */
  bool begun, opened, busy, told;   /* its session has begun, was called first, runs, was called last */
  bool unread;                      /* a whole message is in the buffer */
  bool discards;                    /* the app has closed it: messages are dropped */
  bool choked;                      /* reads no more until the peer takes its answers */
  bool backed_up, drained;          /* output waits for the socket; all of it has left meanwhile */
  bool abandoned;                   /* belongs to the parent, in a forked child */
  bool events;                      /* an event stream: sends text as it is, and reads nothing */
};

static inline struct gyre_loop *gyre_websocket_loop(const struct gyre_websocket *websocket) {
  return &websocket->acceptor->scheduler->loop;
}
/* After half of its time a silent peer is pinged. */
static inline int64_t gyre_websocket_half(int64_t limit_ns) { return limit_ns < 0 ? limit_ns : limit_ns / 2; }

extern const struct gyre_http_protocol gyre_websocket_protocol; /* protocol.c */

/* connection.c */
void gyre_websocket_connection_init(struct gyre_websocket *websocket);
/* Wakes the fibers that wait for one of these changes. */
void gyre_websocket_wake(struct gyre_websocket *websocket, unsigned changes);
/* Sets the connection's deadline to the first of the socket's. */
void gyre_websocket_schedule(struct gyre_websocket *websocket);
/* Sets code and reason, if they are not set. */
void gyre_websocket_note_end(struct gyre_websocket *websocket, unsigned code, const char *reason, size_t length);
/* Receives until a message is whole (websocket->unread), no bytes are left, or it is over. */
void gyre_websocket_receive(struct gyre_websocket *websocket);
/* The peer has taken some of the output. */
void gyre_websocket_have_room(struct gyre_websocket *websocket);
/* Sends or queues a frame. Does nothing once it is over. */
void gyre_websocket_send(struct gyre_websocket *websocket, unsigned opcode, bool compressed, const char *bytes,
                         size_t length);
/* The same for a whole frame, which is shared by many. */
void gyre_websocket_send_framed(struct gyre_websocket *websocket, const char *bytes, size_t length);
/* Whether the peer has output to take while the server's budget for it is used up. */
bool gyre_websocket_is_crowded(const struct gyre_websocket *websocket);
/* Cuts off a peer that has not taken enough for a broadcast's frame, and returns false. */
bool gyre_websocket_keeps_up(struct gyre_websocket *websocket);
/* Sends a close and waits for the peer's, if none was sent yet. */
void gyre_websocket_close(struct gyre_websocket *websocket, unsigned code, const char *reason, size_t length);
/* Ends the socket because of a fault of the peer, and tells the peer. */
void gyre_websocket_fail(struct gyre_websocket *websocket, unsigned code, const char *reason);
/* Ends the socket without waiting for the peer, after a fault of either side. */
void gyre_websocket_cut(struct gyre_websocket *websocket, unsigned code);
void gyre_websocket_ping(struct gyre_websocket *websocket);
/* Records the sizes of its buffers in the server's budgets. */
void gyre_websocket_count_input(struct gyre_websocket *websocket);
void gyre_websocket_count_output(struct gyre_websocket *websocket);
/* Frees the message's bytes. */
void gyre_websocket_taken(struct gyre_websocket *websocket);
static inline size_t gyre_websocket_unsent(const struct gyre_websocket *websocket) {
  return websocket->connection ? gyre_transport_unsent(&websocket->connection->transport) : 0;
}

/* session.c */
/* Whether the session has to be called. */
bool gyre_websocket_is_due(const struct gyre_websocket *websocket);
/* Runs what is due in a fiber, at once up to its first wait. May raise, in the loop's fiber. */
void gyre_websocket_start(struct gyre_websocket *websocket);
/* The same in the next turn. */
void gyre_websocket_start_soon(struct gyre_websocket *websocket);
/* Releases the Ruby object once nothing is left to do. */
void gyre_websocket_settle(struct gyre_websocket *websocket);
/* Takes the whole message in the buffer as a String; nil if it is broken, which ends the socket. */
VALUE gyre_websocket_take(struct gyre_websocket *websocket);
void gyre_websocket_session_init(struct gyre_websocket *websocket);
void gyre_init_websocket_session(void);

void gyre_init_websocket_frames(void); /* frames.c */
void gyre_init_websocket(void);        /* socket.c */

#endif
