/* The memcached client in C. A connection (memcached_connection.c) pipelines a home's commands. A
 * call (memcached_call.c) is a caller's wait. A server (memcached_server.c) has its homes'
 * connections and Ruby's methods.
 *
 * A home is a thread's loop, which reads for its fibers' shared pipeline. Threads without a loop
 * are one home, where a waiting thread reads for all (memcached_threads.c). */
#pragma once

#include "fiber/scheduler.h"
#include "memcached/memcached_wire.h"
#include "net/deferred_send.h"
#include "net/transport.h"

#define GYRE_MEMCACHED_CODED 3 /* serialized or compressed values, as in Dalli */
#define GYRE_MEMCACHED_UTF8 4

struct gyre_memcached_connection;

/* A call's value, and its value on failure: */
enum gyre_memcached_kind {
  GYRE_MEMCACHED_GET,    /* the stored value; nil */
  GYRE_MEMCACHED_SET,    /* the CAS number; false */
  GYRE_MEMCACHED_DELETE, /* true; false */
  GYRE_MEMCACHED_WHOLE,  /* a Gyre::Memcached::Reply */
  GYRE_MEMCACHED_LINES,  /* the lines' texts after their first words */
  GYRE_MEMCACHED_VALUES, /* a Hash of the stored values */
  GYRE_MEMCACHED_QUIET,  /* number of successful commands, which have no reply */
};

/* The sent command, which decides valid replies. */
enum gyre_memcached_verb {
  GYRE_MEMCACHED_VERB_MG,
  GYRE_MEMCACHED_VERB_MS,
  GYRE_MEMCACHED_VERB_MD,
  GYRE_MEMCACHED_VERB_MA,
  GYRE_MEMCACHED_VERB_MN, /* its reply ends a group of quiet commands */
  GYRE_MEMCACHED_VERB_STATS,
  GYRE_MEMCACHED_VERB_WORD, /* version, flush_all, … */
};

/* A caller's wait, on its stack or in a Gyre::Memcached::Call.
 *
 *   new --commands are queued--> outstanding --last reply, or the connection fails--> over
 *                                     \---its caller leaves: the replies are dropped---> over */
struct gyre_memcached_call {
  struct gyre_memcached_connection *connection; /* from the first command on; kept by the caller */
  uint64_t first;                               /* its first command's number */
  uint64_t start;                               /* its first command's position in the stream */
  uint32_t outstanding;                         /* replies due; 0: done or not begun */
  uint32_t flags;                               /* the value's */
  uint32_t refused;                             /* QUIET: failed commands */
  uint8_t kind;                                 /* enum gyre_memcached_kind */
  uint8_t code;                                 /* enum gyre_memcached_code: the last reply's */
  bool failed;                                  /* the connection has failed */
  bool unsent;                                  /* failed with no byte sent */
  uint64_t cas;
  long count;             /* QUIET: commands */
  const char *command;    /* client's method, for errors */
  VALUE server;           /* the asked server */
  VALUE value;            /* bytes, Hash or Array */
  VALUE keys;             /* VALUES: names of values */
  VALUE coded;            /* VALUES: key, flags, bytes in turn, to decode; or nil */
  VALUE error;            /* server's first error line, or nil */
  struct gyre_wait *wait; /* its parked fiber's, in a loop */
  VALUE owner;            /* its Ruby object, marked by the connection; nil: the call is on a stack */
};

struct gyre_memcached_entry {
  struct gyre_memcached_call *call; /* NULL: the reply is dropped */
  uint32_t index;                   /* the command's index in the call */
  uint8_t verb;                     /* enum gyre_memcached_verb */
};

/* A ring of commands without replies. */
struct gyre_memcached_pipeline {
  struct gyre_memcached_entry *entries;
  uint32_t capacity;   /* a power of 2 */
  uint64_t head, tail; /* numbers of commands */
  uint64_t offered;    /* last command passed to the socket */
  size_t wanted;       /* input bytes needed for the first reply */
  bool taking;         /* delivers replies */
};

/* Driven by a loop. */
struct gyre_memcached_on_loop {
  bool linked; /* in the loop's lists, and marked by the scheduler */
  bool waits;  /* a timer runs for due replies */
  struct gyre_client client;
  struct gyre_watch watch;
  struct gyre_timer timer;
  struct gyre_post closing; /* closed by another thread */
  struct gyre_deferred_send sends;
  struct gyre_busy_poll busy; /* for a lone command's reply */
  struct gyre_list room;      /* fibers that wait for room */
};

/* A waiting thread, on its stack. */
struct gyre_memcached_reader {
  struct gyre_list node; /* in `sleeping`, while another thread reads */
  struct gyre_memcached_connection *connection;
  const struct gyre_memcached_call *call; /* NULL: waits for room */
  VALUE thread;
};

/* Driven by threads without a loop. */
struct gyre_memcached_on_threads {
  struct gyre_memcached_reader *reading; /* reads now, or NULL */
  struct gyre_list sleeping;             /* others, in order */
};

struct gyre_memcached_connection {
  VALUE self, transport_object, io, scheduler_object;
  struct gyre_transport *transport;
  struct gyre_scheduler *scheduler; /* NULL: the threads' connection */
  struct gyre_memcached_pipeline pipeline;
  struct gyre_memcached_on_loop on_loop;
  struct gyre_memcached_on_threads on_threads;
  int64_t timeout_ns;
  int64_t moved_ns; /* time of the last bytes, or of sending the first command */
  int64_t used_ns;  /* coarse time when it last had no command */
  bool failed;      /* sends and receives no more */
  bool ended;       /* the server's side */
  char reason[160]; /* the failure's */
};

/* A loop's waiting fiber, on its stack. */
struct gyre_memcached_waiter {
  struct gyre_list node; /* in `room` */
  struct gyre_wait wait;
  struct gyre_memcached_connection *connection;
  struct gyre_memcached_call *call; /* NULL: waits for room */
};

/* Also in lib/gyre/memcached/server.rb. */
#define GYRE_MEMCACHED_CLOSED "the client was closed"

#define GYRE_MEMCACHED_PENDING_LIMIT (UINT32_C(1) << 16) /* in a pipeline */
#define GYRE_MEMCACHED_OUTPUT_BYTES (4 << 20)            /* unsent bytes, beyond which callers wait */

/* memcached_connection.c: never waits, runs no Ruby code. */
struct gyre_memcached_connection *gyre_memcached_connection_get(VALUE connection);
static inline uint64_t gyre_memcached_pending(const struct gyre_memcached_connection *connection) {
  return connection->pipeline.tail - connection->pipeline.head;
}
/* False in a forked child, or after a failure. */
bool gyre_memcached_connection_usable(const struct gyre_memcached_connection *connection);
bool gyre_memcached_connection_has_room(const struct gyre_memcached_connection *connection);
/* True if the wait for `call` is over, or with NULL the wait for room. */
static inline bool gyre_memcached_is_over(const struct gyre_memcached_connection *connection,
                                          const struct gyre_memcached_call *call) {
  return call ? call->outstanding == 0 : connection->failed || gyre_memcached_connection_has_room(connection);
}
/* Reserves `length` bytes; NULL without memory or after a failure. */
char *gyre_memcached_connection_reserve(struct gyre_memcached_connection *connection, size_t length);
/* Queues `length` reserved bytes, for the call, or for a quiet group without one (NULL). -ENOMEM:
 * queued nothing. */
int gyre_memcached_connection_queue(struct gyre_memcached_connection *connection, struct gyre_memcached_call *call,
                                    enum gyre_memcached_verb verb, uint32_t index, size_t length);
/* Sends the queue: at once if no other command can join this turn, else at its end. */
void gyre_memcached_connection_send(struct gyre_memcached_connection *connection, bool alone);
/* Leaves connection and calls to the parent, in a forked child. */
void gyre_memcached_connection_forked(struct gyre_memcached_connection *connection);
void gyre_memcached_connection_read(struct gyre_memcached_connection *connection);
void gyre_memcached_connection_fail(struct gyre_memcached_connection *connection, const char *reason);
void gyre_memcached_connection_expire(struct gyre_memcached_connection *connection);
/* Wakes threads whose waits are over, and the next reader if none reads. */
void gyre_memcached_connection_wake_threads(struct gyre_memcached_connection *connection);
/* Drops the call's later replies. */
void gyre_memcached_call_leave(struct gyre_memcached_call *call);

/* memcached_threads.c: waits for the call's end, or with NULL for room. */
void gyre_memcached_threads_wait(struct gyre_memcached_connection *connection, const struct gyre_memcached_call *call);

/* memcached_call.c */
void gyre_memcached_call_init(struct gyre_memcached_call *call, VALUE server, enum gyre_memcached_kind kind,
                              const char *command);
struct gyre_memcached_call *gyre_memcached_call_get(VALUE object);
/* Copies the call into a Ruby object that owns it. */
struct gyre_memcached_call *gyre_memcached_call_keep(const struct gyre_memcached_call *call);
void gyre_memcached_call_take(struct gyre_memcached_call *call, const struct gyre_memcached_reply *reply,
                              uint32_t index);
