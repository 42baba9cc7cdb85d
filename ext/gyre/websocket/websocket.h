/* A WebSocket (RFC 6455) on an HTTP/1.1 connection or in an HTTP/2 stream (RFC 8441): a protocol of
 * http/connection.h, like HTTP/1 and HTTP/2. An event stream is a WebSocket without frames.
 * connection.c moves frames and runs app code; socket.c has Ruby's methods (lib/gyre/websocket.rb).
 * An idle WebSocket holds neither fiber nor buffer.
 *
 *   OPEN ─► CLOSING: our close was sent ─► over: the connection lingers or is closed
 *     └──── the peer's close, a fault, the end of the connection ────┘
 *
 * Output. A client is judged only by what its socket has refused, never by what was not yet tried.
 *
 *   SENT ─ a turn's second frame ─► QUEUED ─ at 64 KB or the turn's end ─► tried: all sent ─► SENT
 *     └──── the socket is full ─► BLOCKED ◄── some is left ──────────────────┘
 *                                   │  ▲
 *                                   └──┘ room: tried again; SENT if all is sent
 *
 *   BLOCKED for a window of at least backlog_timeout_s
 *   ├─ the peer has taken backlog_bytes in it ─► a new window begins
 *   ├─ it has not, and more than that is unsent at a broadcast, or the budget is used up ─► cut
 *   └─ it takes nothing for write_timeout_s ─► cut
 *
 * While the budget is used up, publishers wait. */
#pragma once

#include "http/exchange.h"
#include "websocket/backlog.h"
#include "websocket/deflate.h"
#include "websocket/input.h"

#define GYRE_WEBSOCKET_REASON_BYTES 123

/* Events for which the session's code is called; 0 if that code reads by itself. */
enum gyre_websocket_wants {
  GYRE_WEBSOCKET_WANTS_MESSAGES = 1,
  GYRE_WEBSOCKET_WANTS_DRAINED = 2,
  GYRE_WEBSOCKET_WANTS_CLOSE = 4,
  GYRE_WEBSOCKET_WANTS_SHUTDOWN = 8
};

enum gyre_websocket_change { GYRE_WEBSOCKET_INPUT = 1, GYRE_WEBSOCKET_ROOM = 2, GYRE_WEBSOCKET_PONGS = 4 };

/* A fiber's wait, on its stack. */
struct gyre_websocket_waiter {
  struct gyre_list node;
  struct gyre_wait wait;
  struct gyre_websocket *websocket;
  unsigned change; /* enum gyre_websocket_change */
};

/* Watches for room in the socket. Most WebSockets never need it. */
struct gyre_websocket_room {
  struct gyre_watch watch;
  struct gyre_websocket *websocket;
};

/* The app's code (connection.c). */
struct gyre_websocket_run {
  VALUE session, fiber;           /* `fiber` runs the code; nil: none does */
  struct gyre_post starting;      /* linked while the code is due */
  uint8_t wants;                  /* enum gyre_websocket_wants */
  bool begun, opened, busy, told; /* request over, on_open called, code runs, on_close called */
  bool waited;                    /* a session that reads by itself has waited in this fiber */
  bool warns, warned;             /* on_shutdown is due, called */
};

/* Times on the loop's clock; 0: unset. */
struct gyre_websocket_times {
  int64_t heard_ns;   /* when the peer last sent bytes */
  int64_t blocked_ns; /* since when the peer takes no output */
  int64_t window_ns;  /* when the present window of BLOCKED began */
  int64_t judged_ns;  /* when it began, or the peer was judged in it */
  int64_t begun_ns;   /* when the unfinished message began */
  int64_t closing_ns; /* when our close was sent, or the peer took output that was sent before */
  int64_t drain_ns;   /* when to close at the server's stop */
};

/* Freed with its Ruby object, which acceptor->upgraded keeps until the session's end. Fields that
 * each message uses come first. */
struct gyre_websocket {
  struct gyre_http_connection *connection; /* NULL once the socket has ended */
  struct gyre_http_acceptor *acceptor;
  VALUE self;
  struct gyre_sight_account *row; /* charged with the session's code; NULL: not known */
  struct gyre_websocket_run run;
  bool unread;             /* the buffer has a whole message */
  bool discards;           /* closed by the app: drops messages */
  bool choked;             /* reads nothing until the peer takes answers */
  bool backed_up, drained; /* BLOCKED; on_drained is due */
  bool abandoned;          /* belongs to the parent of this forked child */
  bool events;             /* an event stream: sends plain text, reads nothing */
  struct gyre_list waiters;
  struct gyre_websocket_input input;
  struct {
    uint32_t input, output, unfinished;
  } counted;          /* bytes counted in the server's budgets */
  uint64_t sent_turn; /* last turn in which a frame was sent at once */
  struct gyre_websocket_backlog backlog;
  struct {
    uint64_t given, taken, window; /* bytes given to be sent; taken by the peer, when last asked, and
                                    * at the window's beginning */
  } output;
  struct gyre_list unfinished; /* linked while a part of a message has come */
  struct gyre_websocket_times times;
  struct gyre_websocket_room *room; /* NULL before output first waits for room */
  struct gyre_websocket_limits limits;
  struct gyre_websocket_compression compression;
  struct gyre_deferred sending; /* sends the queue at the turn's end */
  struct {
    uint32_t sent, answered;
  } pings; /* numbers of the last sent ping and the last received pong */
  struct {
    char *reason;   /* or NULL */
    uint16_t code;  /* 0: open */
    uint8_t length; /* of the reason */
  } end;
  VALUE protocol;
  VALUE topics;   /* an Array of Hashes to leave at the end, or nil */
  VALUE returned; /* messages that were read for threads that had left, or nil */
};

static inline struct gyre_loop *gyre_websocket_loop(const struct gyre_websocket *websocket) {
  return &websocket->acceptor->scheduler->loop;
}
/* Runs due code in a fiber at the next turn's start (connection.c). */
static inline void gyre_websocket_start(struct gyre_websocket *websocket) {
  gyre_post_here(websocket->acceptor->scheduler, &websocket->run.starting);
}
/* Returns the silence after which a peer gets a ping. */
static inline int64_t gyre_websocket_half(int64_t limit_ns) { return limit_ns < 0 ? limit_ns : limit_ns / 2; }

extern const struct gyre_http_protocol gyre_websocket_protocol; /* connection.c */

/* connection.c */
void gyre_websocket_wake(struct gyre_websocket *websocket, unsigned changes);
bool gyre_websocket_waits(const struct gyre_websocket *websocket, VALUE fiber);
/* Receives until a message is whole (websocket->unread), no bytes are left, or the socket ends. */
void gyre_websocket_receive(struct gyre_websocket *websocket);
/* Sends or queues a frame, unless the socket has ended. */
void gyre_websocket_send(struct gyre_websocket *websocket, unsigned opcode, bool compressed, const char *bytes,
                         size_t length);
/* Sends a complete frame, which other sockets may share. */
void gyre_websocket_send_framed(struct gyre_websocket *websocket, const char *bytes, size_t length);
/* True if output is unsent and the server's output budget is used up. */
bool gyre_websocket_is_crowded(const struct gyre_websocket *websocket);
/* True while publishers should wait. */
static inline bool gyre_websocket_is_behind(const struct gyre_http_acceptor *acceptor) {
  return acceptor->websockets.unsent_bytes > 0 && gyre_http_budget_is_over(&acceptor->capacity.output);
}
/* Returns false for a peer that is too slow for broadcasts, and cuts its connection. */
bool gyre_websocket_keeps_up(struct gyre_websocket *websocket);
/* Sends a close, unless one was sent. The socket ends when the peer's close comes. */
void gyre_websocket_close(struct gyre_websocket *websocket, unsigned code, const char *reason, size_t length);
void gyre_websocket_ping(struct gyre_websocket *websocket);
void gyre_websocket_taken(struct gyre_websocket *websocket);
static inline size_t gyre_websocket_unsent(const struct gyre_websocket *websocket) {
  const struct gyre_http_connection *connection = websocket->connection;
  return connection ? websocket->backlog.bytes + gyre_transport_unsent(&connection->transport) : 0;
}
/* Returns the buffer's message as a String. If inflating fails, ends the socket and returns nil. */
VALUE gyre_websocket_take(struct gyre_websocket *websocket);
void gyre_init_websocket_connection(VALUE class);

/* message.c: returns the buffer's message; sets `fault` to the negative close code if it cannot be
 * inflated. */
VALUE gyre_websocket_message(struct gyre_websocket *websocket, int *fault);
