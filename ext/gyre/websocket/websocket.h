/* A WebSocket (RFC 6455) on an HTTP/1.1 connection or in an HTTP/2 stream (RFC 8441): a protocol of
 * http/connection.h, like HTTP/1 and HTTP/2 (connection.c). An event stream is a WebSocket without
 * frames. connection.c moves frames and runs app code, socket.c has Ruby's methods
 * (lib/gyre/websocket.rb). Idle, it holds neither fiber nor buffer.
 *
 *   OPEN ─► CLOSING: our close was sent ─► over: the connection lingers or is closed
 *     └──── the peer's close, a fault, the end of the connection ────┘ */
#pragma once

#include "http/exchange.h"
#include "websocket/deflate.h"
#include "websocket/input.h"

#define GYRE_WEBSOCKET_REASON_BYTES 123

/* Events that call the session; none if the app's code reads. */
enum gyre_websocket_wants {
  GYRE_WEBSOCKET_WANTS_MESSAGES = 1,
  GYRE_WEBSOCKET_WANTS_DRAINED = 2,
  GYRE_WEBSOCKET_WANTS_CLOSE = 4
};

enum gyre_websocket_change { GYRE_WEBSOCKET_INPUT = 1, GYRE_WEBSOCKET_ROOM = 2, GYRE_WEBSOCKET_PONGS = 4 };

/* A fiber's wait, on its stack. */
struct gyre_websocket_waiter {
  struct gyre_list node;
  struct gyre_wait wait;
  struct gyre_websocket *websocket;
  unsigned change; /* enum gyre_websocket_change */
};

/* For output beyond the socket's room, which most sockets never have. */
struct gyre_websocket_room {
  struct gyre_watch watch;
  struct gyre_websocket *websocket;
};

struct gyre_websocket_limits {
  int64_t idle_ns, close_ns; /* -1: none */
  uint32_t message_bytes, output_bytes, backlog_bytes;
};

/* The app's code (connection.c). */
struct gyre_websocket_run {
  VALUE session, fiber;           /* `fiber`: runs the code, or nil */
  struct gyre_post starting;      /* linked while the code is due */
  uint8_t wants;                  /* enum gyre_websocket_wants */
  bool begun, opened, busy, told; /* session begun, first called, running, last called */
  bool waited;                    /* in a fiber of its own */
};

/* Times on the loop's clock; 0: never. */
struct gyre_websocket_times {
  int64_t heard_ns;   /* last bytes of the peer */
  int64_t blocked_ns; /* since when the peer takes no output */
  int64_t closing_ns; /* when our close was sent */
  int64_t drain_ns;   /* when to close, as the server stops */
};

/* Freed with its Ruby object, which acceptor->upgraded keeps until the session's end. Fields of
 * each message come first. */
struct gyre_websocket {
  struct gyre_http_connection *connection; /* NULL once it is over */
  struct gyre_http_acceptor *acceptor;
  VALUE self;
  struct gyre_websocket_run run;
  bool unread;             /* the buffer has a whole message */
  bool discards;           /* closed by the app: drops messages */
  bool choked;             /* reads nothing until the peer takes answers */
  bool backed_up, drained; /* output waits for the socket; all has left since */
  bool abandoned;          /* the parent's, in a forked child */
  bool events;             /* an event stream: sends plain text, reads nothing */
  struct gyre_list waiters;
  struct gyre_websocket_input input;
  struct {
    uint32_t input, output;
  } counted;          /* bytes in the server's budgets */
  uint64_t sent_turn; /* turn of a frame sent at once: later ones leave together */
  struct gyre_websocket_times times;
  struct gyre_websocket_room *room; /* freed with this; or NULL */
  struct gyre_websocket_limits limits;
  struct gyre_websocket_compression compression;
  struct gyre_deferred sending; /* at the turn's end */
  struct {
    uint32_t sent, answered;
  } pings; /* numbers of the last ones */
  struct {
    char *reason;   /* or NULL */
    uint16_t code;  /* 0: open */
    uint8_t length; /* of the reason */
  } end;
  VALUE protocol;
  VALUE topics; /* an Array of Hashes to leave at the end, or nil */
};

static inline struct gyre_loop *gyre_websocket_loop(const struct gyre_websocket *websocket) {
  return &websocket->acceptor->scheduler->loop;
}
/* Runs what is due in a fiber, as the next turn begins (connection.c). */
static inline void gyre_websocket_start(struct gyre_websocket *websocket) {
  gyre_post_here(websocket->acceptor->scheduler, &websocket->run.starting);
}
/* After half of its time a silent peer gets a ping. */
static inline int64_t gyre_websocket_half(int64_t limit_ns) { return limit_ns < 0 ? limit_ns : limit_ns / 2; }

extern const struct gyre_http_protocol gyre_websocket_protocol; /* connection.c */

/* connection.c */
void gyre_websocket_wake(struct gyre_websocket *websocket, unsigned changes);
bool gyre_websocket_waits(const struct gyre_websocket *websocket, VALUE fiber);
/* Receives until a message is whole (websocket->unread), no bytes are left, or it is over. */
void gyre_websocket_receive(struct gyre_websocket *websocket);
/* Sends or queues a frame, unless it is over. */
void gyre_websocket_send(struct gyre_websocket *websocket, unsigned opcode, bool compressed, const char *bytes,
                         size_t length);
/* Sends a whole frame shared by many. */
void gyre_websocket_send_framed(struct gyre_websocket *websocket, const char *bytes, size_t length);
/* True for a peer with unsent output, if the server's budget is used up. */
bool gyre_websocket_is_crowded(const struct gyre_websocket *websocket);
/* Closes a peer too slow for broadcasts, and returns false. */
bool gyre_websocket_keeps_up(struct gyre_websocket *websocket);
/* Sends a close, once, and waits for the peer's. */
void gyre_websocket_close(struct gyre_websocket *websocket, unsigned code, const char *reason, size_t length);
void gyre_websocket_ping(struct gyre_websocket *websocket);
void gyre_websocket_taken(struct gyre_websocket *websocket);
static inline size_t gyre_websocket_unsent(const struct gyre_websocket *websocket) {
  return websocket->connection ? gyre_transport_unsent(&websocket->connection->transport) : 0;
}
/* Takes the buffer's message as a String; nil if broken, which ends the socket. */
VALUE gyre_websocket_take(struct gyre_websocket *websocket);
void gyre_init_websocket_connection(VALUE class);

void gyre_init_websocket_frames(void); /* frames.c */
void gyre_init_websocket(void);        /* socket.c */
