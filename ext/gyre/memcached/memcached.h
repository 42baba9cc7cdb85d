/* The memcached client in C. A connection (memcached_connection.c) pipelines a home's commands. A
 * call (memcached_call.c) is a caller's wait. A server (memcached_server.c) has a connection for
 * each home, and Ruby's methods.
 *
 * A home is a thread's loop, which reads the replies of its fibers. All threads without a loop are
 * one home; one waiting thread reads the replies of all (memcached_threads.c). */
#pragma once

#include "fiber/scheduler.h"
#include "memcached/memcached_wire.h"
#include "net/deferred_send.h"
#include "net/transport.h"

#define GYRE_MEMCACHED_CODED 3 /* serialized or compressed values, as in Dalli */
#define GYRE_MEMCACHED_UTF8 4

struct gyre_memcached_connection;

/* Kinds of calls. Comments: the call's value; its value on failure. */
enum gyre_memcached_kind {
  GYRE_MEMCACHED_GET,    /* the stored value; nil */
  GYRE_MEMCACHED_SET,    /* the CAS number; false */
  GYRE_MEMCACHED_DELETE, /* true; false */
  GYRE_MEMCACHED_WHOLE,  /* a Gyre::Memcached::Reply */
  GYRE_MEMCACHED_LINES,  /* the lines' texts after their first words */
  GYRE_MEMCACHED_VALUES, /* a Hash of the stored values */
  GYRE_MEMCACHED_QUIET,  /* number of successful commands */
};

/* The sent command; may_follow lists its valid replies. */
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
  struct gyre_memcached_connection *connection; /* set by the first command; kept by the caller */
  uint64_t first;                               /* number of its first command */
  uint64_t start;                               /* stream position of its first command */
  uint32_t outstanding;                         /* replies due; 0: done or not begun */
  uint32_t flags;                               /* flags of the value */
  uint32_t refused;                             /* QUIET: failed commands */
  uint8_t kind;                                 /* enum gyre_memcached_kind */
  uint8_t code;                                 /* enum gyre_memcached_code of the last reply */
  bool failed;                                  /* the connection has failed */
  bool unsent;                                  /* failed before any of its bytes was sent */
  uint64_t cas;
  long count;             /* QUIET: number of commands */
  const char *command;    /* the client's method, for errors */
  VALUE server;           /* the asked server */
  VALUE value;            /* bytes, Hash or Array */
  VALUE keys;             /* VALUES: names of values */
  VALUE coded;            /* VALUES: key, flags, bytes of each value to decode; or nil */
  VALUE error;            /* first error line of the server, or nil */
  struct gyre_wait *wait; /* wait of its parked fiber, in a loop */
  VALUE owner;            /* its Ruby object, which the connection marks; nil: it is on a stack */
};

struct gyre_memcached_entry {
  struct gyre_memcached_call *call; /* NULL: the reply is dropped */
  uint32_t index;                   /* the command's index in the call */
  uint8_t verb;                     /* enum gyre_memcached_verb */
};

/* A ring buffer of commands that await replies. */
struct gyre_memcached_pipeline {
  struct gyre_memcached_entry *entries;
  uint32_t capacity;   /* a power of 2 */
  uint64_t head, tail; /* numbers of commands */
  uint64_t offered;    /* last command passed to the socket */
  size_t wanted;       /* input bytes needed for the first reply */
  bool taking;         /* true while `take` delivers replies */
};

/* State of a connection that a loop drives. */
struct gyre_memcached_on_loop {
  bool linked; /* is in the loop's lists, and the scheduler marks it */
  bool waits;  /* replies are due: a virtual clock must not jump */
  struct gyre_client client;
  struct gyre_watch watch;
  struct gyre_timer timer;
  struct gyre_post closing; /* posted when another thread closes the connection */
  struct gyre_deferred_send sends;
  struct gyre_busy_poll busy; /* polls for a lone command's reply */
  struct gyre_list room;      /* fibers that wait for room */
};

/* A waiting thread, on its stack. */
struct gyre_memcached_reader {
  struct gyre_list node; /* in `sleeping`, while another thread reads */
  struct gyre_memcached_connection *connection;
  const struct gyre_memcached_call *call; /* NULL: waits for room */
  VALUE thread;
};

/* State of the connection that threads without a loop drive. */
struct gyre_memcached_on_threads {
  struct gyre_memcached_reader *reading; /* the thread that reads, or NULL */
  struct gyre_list sleeping;             /* other waiting threads, in order */
};

struct gyre_memcached_connection {
  VALUE self, transport_object, io, scheduler_object;
  struct gyre_transport *transport;
  struct gyre_scheduler *scheduler; /* NULL: the threads' connection */
  struct gyre_memcached_pipeline pipeline;
  struct gyre_memcached_on_loop on_loop;
  struct gyre_memcached_on_threads on_threads;
  int64_t timeout_ns;
  int64_t moved_ns; /* when bytes last came, or the first command was sent */
  int64_t used_ns;  /* coarse time at which the last command was done */
  bool failed;      /* sends and receives no more */
  bool ended;       /* the server has ended its side */
  char reason[160]; /* reason of the failure */
};

/* A loop's waiting fiber, on its stack. */
struct gyre_memcached_waiter {
  struct gyre_list node; /* in `room` */
  struct gyre_wait wait;
  struct gyre_memcached_connection *connection;
  struct gyre_memcached_call *call; /* NULL: waits for room */
};

/* lib/gyre/memcached/server.rb has the same text. */
#define GYRE_MEMCACHED_CLOSED "the client was closed"

#define GYRE_MEMCACHED_PENDING_LIMIT (UINT32_C(1) << 16) /* maximum commands in a pipeline */
#define GYRE_MEMCACHED_OUTPUT_BYTES (4 << 20)            /* unsent bytes at which callers wait */

/* memcached_connection.c: never waits, runs no Ruby code. */
struct gyre_memcached_connection *gyre_memcached_connection_get(VALUE connection);
static inline uint64_t gyre_memcached_pending(const struct gyre_memcached_connection *connection) {
  return connection->pipeline.tail - connection->pipeline.head;
}
/* False after a failure, or in a forked child. */
bool gyre_memcached_connection_usable(const struct gyre_memcached_connection *connection);
bool gyre_memcached_connection_has_room(const struct gyre_memcached_connection *connection);
/* True if the wait for `call` is over; if `call` is NULL, the wait for room. */
static inline bool gyre_memcached_is_over(const struct gyre_memcached_connection *connection,
                                          const struct gyre_memcached_call *call) {
  return call ? call->outstanding == 0 : connection->failed || gyre_memcached_connection_has_room(connection);
}
/* Reserves `length` bytes. Returns NULL if there is no memory, or after a failure. */
char *gyre_memcached_connection_reserve(struct gyre_memcached_connection *connection, size_t length);
/* Queues `length` reserved bytes for the call. `call` is NULL for a command of a quiet group, which
 * has no reply. Returns 0, or -ENOMEM if it queued nothing. */
int gyre_memcached_connection_queue(struct gyre_memcached_connection *connection, struct gyre_memcached_call *call,
                                    enum gyre_memcached_verb verb, uint32_t index, size_t length);
/* Sends the queue: at once if `alone` (no command can join it in this turn), or at the turn's
 * end. */
void gyre_memcached_connection_send(struct gyre_memcached_connection *connection, bool alone);
/* In a forked child, fails the connection, which belongs to the parent. */
void gyre_memcached_connection_forked(struct gyre_memcached_connection *connection);
void gyre_memcached_connection_read(struct gyre_memcached_connection *connection);
void gyre_memcached_connection_fail(struct gyre_memcached_connection *connection, const char *reason);
void gyre_memcached_connection_expire(struct gyre_memcached_connection *connection);
/* Wakes threads whose waits are over, and the next reader if none reads. */
void gyre_memcached_connection_wake_threads(struct gyre_memcached_connection *connection);
/* Drops the call's later replies. */
void gyre_memcached_call_leave(struct gyre_memcached_call *call);

/* memcached_threads.c: waits for the call's end; if `call` is NULL, for room. */
void gyre_memcached_threads_wait(struct gyre_memcached_connection *connection, const struct gyre_memcached_call *call);

/* memcached_call.c */
void gyre_memcached_call_init(struct gyre_memcached_call *call, VALUE server, enum gyre_memcached_kind kind,
                              const char *command);
struct gyre_memcached_call *gyre_memcached_call_get(VALUE object);
/* Copies the call into a Ruby object that owns it. */
struct gyre_memcached_call *gyre_memcached_call_keep(const struct gyre_memcached_call *call);
void gyre_memcached_call_take(struct gyre_memcached_call *call, const struct gyre_memcached_reply *reply,
                              uint32_t index);
