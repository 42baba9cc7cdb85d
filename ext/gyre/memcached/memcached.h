/* The memcached client in C. A connection (memcached_connection.c) pipelines the commands of one
 * home. A call (memcached_call.c) is the wait of one caller. A server (memcached_server.c) has its
 * homes' connections and Ruby's methods.
 *
 * A home is a thread's loop: its fibers share a pipeline, which the loop reads. All threads without
 * a loop are one more home; one waiting thread reads for all (memcached_threads.c). */
#ifndef GYRE_MEMCACHED_H
#define GYRE_MEMCACHED_H

#include "fiber/scheduler.h"
#include "gyre.h"
#include "memcached/memcached_wire.h"
#include "net/deferred_send.h"
#include "net/transport.h"

#define GYRE_MEMCACHED_CODED 3 /* flags of serialized or compressed values, as in Dalli */
#define GYRE_MEMCACHED_UTF8 4

struct gyre_memcached_connection;

/* The value of a call: */
enum gyre_memcached_kind {
  GYRE_MEMCACHED_GET,    /* the stored value; nil */
  GYRE_MEMCACHED_SET,    /* the CAS number; false */
  GYRE_MEMCACHED_DELETE, /* true; false */
  GYRE_MEMCACHED_WHOLE,  /* a Gyre::Memcached::Reply */
  GYRE_MEMCACHED_LINES,  /* the text after a word of the text protocol, or a Hash of statistics */
  GYRE_MEMCACHED_VALUES, /* a Hash of the stored values */
  GYRE_MEMCACHED_QUIET,  /* the number of successful commands, which have no reply */
};

/* The kind of command sent, which decides the valid replies. */
enum gyre_memcached_verb {
  GYRE_MEMCACHED_VERB_MG,
  GYRE_MEMCACHED_VERB_MS,
  GYRE_MEMCACHED_VERB_MD,
  GYRE_MEMCACHED_VERB_MA,
  GYRE_MEMCACHED_VERB_MN, /* its reply stands for all quiet commands before it */
  GYRE_MEMCACHED_VERB_STATS,
  GYRE_MEMCACHED_VERB_WORD, /* version, flush_all, … */
};

/* One caller's wait, on its stack or in a Ruby object (a Gyre::Memcached::Call).
 *
 *   new --commands are queued--> outstanding --last reply, or the connection fails--> over
 *                                     \---its caller leaves: the replies are dropped---> over */
struct gyre_memcached_call {
  struct gyre_memcached_connection *connection; /* connection, from the first command on; kept alive by the caller */
  uint64_t first;                               /* the number of its first command */
  uint64_t start;                               /* position of that command in the stream */
  uint32_t outstanding;                         /* replies still due; 0: done or not begun */
  uint32_t flags;                               /* of the value */
  uint32_t refused;                             /* QUIET: failed commands */
  uint8_t kind;                                 /* enum gyre_memcached_kind */
  uint8_t code;                                 /* enum gyre_memcached_code, of the last reply */
  bool failed;                                  /* the connection has failed */
  bool unsent;                                  /* failed before any byte was sent */
  uint64_t cas;
  long count;             /* QUIET: commands */
  const char *command;    /* the client's method, for errors */
  VALUE server;           /* the asked server */
  VALUE value;            /* the bytes; the Hash; the text */
  VALUE keys;             /* VALUES: the names of the values */
  VALUE coded;            /* VALUES: key, flags and bytes in turn, to be decoded; nil: none */
  VALUE error;            /* the server's first error line, or nil */
  struct gyre_wait *wait; /* entry of its fiber while parked in a loop */
  VALUE owner;            /* its Ruby object, marked by the connection; nil: on a stack */
};

struct gyre_memcached_entry {
  struct gyre_memcached_call *call; /* NULL: the reply is dropped */
  uint32_t index;                   /* the command's index in the call */
  uint8_t verb;                     /* enum gyre_memcached_verb */
};

/* A ring of commands without replies yet, in order. */
struct gyre_memcached_pipeline {
  struct gyre_memcached_entry *entries;
  uint32_t capacity;   /* a power of 2 */
  uint64_t head, tail; /* numbers of commands */
  uint64_t offered;    /* number of the last command passed to the socket */
  size_t wanted;       /* input bytes that complete the first reply */
  bool taking;         /* replies are being delivered */
};

/* The part of a connection that a loop drives. */
struct gyre_memcached_on_loop {
  bool linked; /* in the loop's lists, and marked by the scheduler */
  bool waits;  /* a timer runs for due replies */
  struct gyre_client client;
  struct gyre_watch watch;
  struct gyre_timer timer;
  struct gyre_post closing; /* another thread has closed it */
  struct gyre_deferred_send sends;
  struct gyre_busy_poll busy; /* busy polling for the reply of a lone command */
  struct gyre_list room;      /* struct gyre_memcached_room: fibers waiting for room */
};

/* A waiting thread, on its stack. */
struct gyre_memcached_reader {
  struct gyre_list node; /* in the connection's `sleeping` while another thread reads */
  struct gyre_memcached_connection *connection;
  const struct gyre_memcached_call *call; /* NULL: waits for room */
  VALUE thread;
  int64_t until_ns; /* of gyre_timers_now; -1: no limit */
};

/* The part of a connection that threads without a loop drive. */
struct gyre_memcached_on_threads {
  struct gyre_memcached_reader *reading; /* the reading thread; NULL: none */
  struct gyre_list sleeping;             /* other waiting threads, in order */
};

struct gyre_memcached_connection {
  VALUE self, transport_object, io, scheduler_object, name;
  struct gyre_transport *transport;
  struct gyre_scheduler *scheduler; /* NULL: the threads' */
  struct gyre_memcached_pipeline pipeline;
  struct gyre_memcached_on_loop on_loop;
  struct gyre_memcached_on_threads on_threads;
  int64_t timeout_ns;
  int64_t moved_ns; /* when the last bytes came, or when the first of these commands was sent */
  int64_t used_ns;  /* when it last had no command, by the coarse clock */
  unsigned forks;   /* gyre_forks at its creation */
  bool failed;      /* sends and receives nothing any more */
  bool ended;       /* the server has ended its side */
  char reason[160]; /* reason of the failure */
};

struct gyre_memcached_room {
  struct gyre_list node;
  struct gyre_wait *wait;
};

/* The reason of a failed connection, also in lib/gyre/memcached/server.rb. */
#define GYRE_MEMCACHED_CLOSED "the client was closed"

#define GYRE_MEMCACHED_PENDING_LIMIT (UINT32_C(1) << 16) /* commands in a pipeline */
#define GYRE_MEMCACHED_OUTPUT_BYTES (4 << 20)            /* unsent bytes at which callers wait */

/* memcached_connection.c. These functions never wait, and run no Ruby code. */
struct gyre_memcached_connection *gyre_memcached_connection_get(VALUE connection);
static inline uint64_t gyre_memcached_pending(const struct gyre_memcached_connection *connection) {
  return connection->pipeline.tail - connection->pipeline.head;
}
/* True if this process can use the connection. */
bool gyre_memcached_connection_usable(const struct gyre_memcached_connection *connection);
bool gyre_memcached_connection_has_room(const struct gyre_memcached_connection *connection);
/* True if a wait is over: the wait for `call`, or with NULL the wait for room. */
static inline bool gyre_memcached_is_over(const struct gyre_memcached_connection *connection,
                                          const struct gyre_memcached_call *call) {
  return call ? call->outstanding == 0 : connection->failed || gyre_memcached_connection_has_room(connection);
}
/* Reserves `length` bytes for commands. Returns NULL if memory is short, or the connection has
 * failed. */
char *gyre_memcached_connection_reserve(struct gyre_memcached_connection *connection, size_t length);
/* Queues a command of `length` bytes from the reserved memory. Its reply is for the call, or for a
 * quiet group without a call yet (NULL). -ENOMEM: queued nothing. */
int gyre_memcached_connection_queue(struct gyre_memcached_connection *connection, struct gyre_memcached_call *call,
                                    enum gyre_memcached_verb verb, uint32_t index, size_t length);
/* Sends the queue: at once if no other command can join in this turn, else at the end of the
 * turn. */
void gyre_memcached_connection_send(struct gyre_memcached_connection *connection, bool alone);
/* In a forked child: leaves the connection and its calls to the parent. */
void gyre_memcached_connection_forked(struct gyre_memcached_connection *connection);
/* Receives bytes and delivers whole replies. */
void gyre_memcached_connection_read(struct gyre_memcached_connection *connection);
/* Fails every call. */
void gyre_memcached_connection_fail(struct gyre_memcached_connection *connection, const char *reason);
/* Fails the connection after a late reply. */
void gyre_memcached_connection_expire(struct gyre_memcached_connection *connection);
/* Wakes threads whose waits are over and, if no thread reads, the next reader. */
void gyre_memcached_connection_wake_threads(struct gyre_memcached_connection *connection);
/* Drops replies of the call that are still to come. */
void gyre_memcached_call_leave(struct gyre_memcached_call *call);
void gyre_init_memcached_connection(void);

/* memcached_threads.c: waits until the call is over, or (NULL) until room is free, at most
 * `timeout_ns`; -1: no limit. */
void gyre_memcached_threads_wait(struct gyre_memcached_connection *connection, const struct gyre_memcached_call *call,
                                 int64_t timeout_ns);
void gyre_init_memcached_threads(void);

/* memcached_call.c */
void gyre_memcached_call_init(struct gyre_memcached_call *call, VALUE server, enum gyre_memcached_kind kind,
                              const char *command);
struct gyre_memcached_call *gyre_memcached_call_get(VALUE object);
/* Copies the call into a Ruby object, its owner. */
struct gyre_memcached_call *gyre_memcached_call_keep(const struct gyre_memcached_call *call);
/* Takes a reply of the call. */
void gyre_memcached_call_take(struct gyre_memcached_call *call, const struct gyre_memcached_reply *reply,
                              uint32_t index);
void gyre_init_memcached_call(void);

void gyre_init_memcached_server(void);

#endif
