/* The memcached client in C. A connection (memcached_connection.c) pipelines a home's commands. A
 * call (memcached_call.c) is a caller's wait. A server (memcached_server.c), the Ruby object for
 * one memcached, has a connection for each home.
 *
 * A home is a thread's loop, which reads the replies for its fibers. All threads without a loop are
 * one home, in which one waiting thread reads the replies for all (memcached_threads.c). */
#pragma once

#include "memcached/memcached_wire.h"
#include "net/deferred_send.h"

#define GYRE_MEMCACHED_CODED 3 /* flag bits as in Dalli: 1 serialized, 2 compressed */
#define GYRE_MEMCACHED_UTF8 4

struct gyre_memcached_connection;

/* Kinds of calls. Comments: the call's value on success; the value otherwise. */
enum gyre_memcached_kind {
  GYRE_MEMCACHED_GET,    /* the stored value; nil */
  GYRE_MEMCACHED_SET,    /* the CAS number; false */
  GYRE_MEMCACHED_DELETE, /* true; false */
  GYRE_MEMCACHED_WHOLE,  /* a Gyre::Memcached::Reply */
  GYRE_MEMCACHED_LINES,  /* an Array of the reply's lines without their first words */
  GYRE_MEMCACHED_VALUES, /* a Hash of the found values */
  GYRE_MEMCACHED_QUIET,  /* number of successful commands */
};

/* Commands; may_follow (memcached_connection.c) lists the valid replies to each command. */
enum gyre_memcached_verb {
  GYRE_MEMCACHED_VERB_MG,
  GYRE_MEMCACHED_VERB_MS,
  GYRE_MEMCACHED_VERB_MD,
  GYRE_MEMCACHED_VERB_MA,
  GYRE_MEMCACHED_VERB_MN, /* its reply ends a group of quiet commands */
  GYRE_MEMCACHED_VERB_STATS,
  GYRE_MEMCACHED_VERB_WORD, /* version, flush_all, … */
};

/* A caller's wait, on its stack or in a Gyre::Memcached::Call; both keep `connection` alive.
 *
 *   new --commands are queued--> outstanding --last reply, or the connection fails--> over
 *                                     \---its caller leaves: the replies are dropped---> over */
struct gyre_memcached_call {
  struct gyre_memcached_connection *connection; /* NULL: no command is queued yet */
  uint64_t first;                               /* its first command's number in the pipeline */
  uint64_t start;                               /* offset of its first command in the sent bytes */
  uint32_t outstanding;                         /* number of replies due; 0: over, or not begun */
  uint32_t flags;                               /* flags of the value */
  uint32_t refused;                             /* QUIET: number of failed commands */
  uint8_t kind;                                 /* enum gyre_memcached_kind */
  uint8_t code;                                 /* enum gyre_memcached_code of the last reply */
  bool failed;                                  /* the connection has failed */
  bool unsent;                                  /* failed, and none of its bytes was sent */
  uint64_t cas;
  long count;             /* QUIET: number of commands */
  const char *command;    /* name of the client's method, for errors */
  VALUE server;           /* the Gyre::Memcached::Server */
  VALUE value;            /* made from the replies: bytes, Reply, Hash or Array */
  VALUE keys;             /* VALUES: the Hash's keys, in the order of the commands */
  VALUE coded;            /* VALUES: Array of key, flags and bytes for each coded value; or nil */
  VALUE error;            /* the server's first error line, or nil */
  struct gyre_wait *wait; /* the wait of a loop's fiber for this call, or NULL */
  VALUE owner;            /* its Call object, which the connection marks; nil: it is on a stack */
};

struct gyre_memcached_entry {
  struct gyre_memcached_call *call; /* gets the reply; NULL: the reply is dropped */
  uint32_t index;                   /* the command's index in the call */
  uint8_t verb;                     /* enum gyre_memcached_verb */
};

/* A ring buffer of commands that await replies. */
struct gyre_memcached_pipeline {
  struct gyre_memcached_entry *entries;
  uint32_t capacity;   /* a power of 2 */
  uint64_t head, tail; /* numbers of the oldest command and of the next */
  uint64_t offered;    /* commands below this number were passed to the socket */
  size_t wanted;       /* minimum bytes of input for the next whole reply */
  bool taking;         /* true while `take` delivers replies */
};

/* State of a connection that a loop drives. */
struct gyre_memcached_on_loop {
  bool linked; /* the loop watches the socket; the scheduler lists `client` and marks `self` */
  bool waits;  /* replies are due, so the loop's virtual clock must not jump */
  struct gyre_client client;
  struct gyre_watch watch;
  struct gyre_timer timer;
  struct gyre_post closing; /* posted when another thread closes the connection */
  struct gyre_deferred_send sends;
  struct gyre_busy_poll busy; /* polls for the reply to a command that was sent alone */
  struct gyre_list room;      /* waiters that wait until ..._has_room is true */
};

/* A thread's wait, on the thread's stack. */
struct gyre_memcached_reader {
  struct gyre_list node; /* in `sleeping`, while another thread reads */
  struct gyre_memcached_connection *connection;
  const struct gyre_memcached_call *call; /* waits for this call; NULL: for room */
  VALUE thread;
};

/* State of the connection that threads without a loop drive. */
struct gyre_memcached_on_threads {
  struct gyre_memcached_reader *reading; /* the thread that reads, or NULL */
  struct gyre_list sleeping;             /* the other waiting threads, oldest first */
};

struct gyre_memcached_connection {
  VALUE self, transport_object, io, scheduler_object;
  struct gyre_transport *transport;
  struct gyre_scheduler *scheduler; /* NULL: the threads' connection */
  struct gyre_memcached_pipeline pipeline;
  struct gyre_memcached_on_loop on_loop;
  struct gyre_memcached_on_threads on_threads;
  int64_t timeout_ns;
  int64_t moved_ns;  /* start of the next reply's time limit: bytes came or commands were sent */
  uint64_t greeting; /* bytes received until the version was known, without other replies */
  int64_t used_ns;   /* coarse time since which no reply is due */
  bool failed;       /* it is unusable: it neither sends nor receives */
  bool stores;       /* its server's version is known to take values with their length */
  bool ended;        /* the kernel has reported that the server ended its side */
  ID cause;          /* of the failure: "closed" by the client, a "broken" reply; 0: any other */
  char reason[160];  /* the cause in words */
};

/* A fiber's wait in a loop, on the fiber's stack. */
struct gyre_memcached_waiter {
  struct gyre_list node; /* in `room` */
  struct gyre_wait wait;
  struct gyre_memcached_connection *connection;
  struct gyre_memcached_call *call; /* waits for this call; NULL: for room */
};

#define GYRE_MEMCACHED_PENDING_LIMIT (UINT32_C(1) << 16) /* maximum commands in a pipeline */
#define GYRE_MEMCACHED_OUTPUT_BYTES (4 << 20)            /* unsent bytes that make callers wait */

/* Functions of memcached_connection.c: none waits or runs Ruby code. */
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
/* Reserves `length` bytes. Returns NULL if memory runs out, or after a failure. */
char *gyre_memcached_connection_reserve(struct gyre_memcached_connection *connection, size_t length);
/* Queues `length` reserved bytes for the call. `call` is NULL for a quiet command, because it gets
 * no reply. Returns 0, or -ENOMEM if it queued nothing. */
int gyre_memcached_connection_queue(struct gyre_memcached_connection *connection, struct gyre_memcached_call *call,
                                    enum gyre_memcached_verb verb, uint32_t index, size_t length);
/* Sends the queue: at once if `alone` (no other command can come in this turn), or at the turn's
 * end. */
void gyre_memcached_connection_send(struct gyre_memcached_connection *connection, bool alone);
/* In a forked child, marks the connection as failed, because it belongs to the parent. */
void gyre_memcached_connection_forked(struct gyre_memcached_connection *connection);
void gyre_memcached_connection_read(struct gyre_memcached_connection *connection);
void gyre_memcached_connection_fail(struct gyre_memcached_connection *connection, ID cause, const char *reason);
void gyre_memcached_connection_expire(struct gyre_memcached_connection *connection);
/* Wakes threads whose waits are over and, if no thread reads, the thread that reads next. */
void gyre_memcached_connection_wake_threads(struct gyre_memcached_connection *connection);
/* Drops the replies that are still due to the call. */
void gyre_memcached_call_leave(struct gyre_memcached_call *call);

/* memcached_threads.c: waits for the call's end; if `call` is NULL, for room. */
void gyre_memcached_threads_wait(struct gyre_memcached_connection *connection, const struct gyre_memcached_call *call);

/* memcached_call.c */
void gyre_memcached_call_init(struct gyre_memcached_call *call, VALUE server, enum gyre_memcached_kind kind,
                              const char *command);
struct gyre_memcached_call *gyre_memcached_call_get(VALUE object);
/* Returns a copy of the call; a Ruby object owns the copy. */
struct gyre_memcached_call *gyre_memcached_call_keep(const struct gyre_memcached_call *call);
void gyre_memcached_call_take(struct gyre_memcached_call *call, const struct gyre_memcached_reply *reply,
                              uint32_t index);
