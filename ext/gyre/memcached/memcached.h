/*
 * The memcached client in C: a connection (memcached_connection.c) has the commands of one home in
 * one pipeline, a call (memcached_call.c) is what one caller waits for, a server
 * (memcached_server.c) has the connections of its homes and Ruby's methods.
 *
 * A home is a thread's loop: its fibers share a pipeline, which the loop reads. All threads that
 * have no loop are one more home: they share a pipeline, too, and one of those that wait reads for
 * all (memcached_threads.c).
 */
#ifndef GYRE_MEMCACHED_H
#define GYRE_MEMCACHED_H

#include "fiber/scheduler.h"
#include "gyre.h"
#include "memcached/memcached_wire.h"
#include "net/late_send.h"
#include "net/transport.h"

struct gyre_memcached_connection;

/* What the replies of a call are made into. */
enum gyre_memcached_kind {
  GYRE_MEMCACHED_GET,    /* one value, or nil */
  GYRE_MEMCACHED_STATUS, /* one code, and a CAS number */
  GYRE_MEMCACHED_WHOLE,  /* one reply with all it has */
  GYRE_MEMCACHED_LINES,  /* one word of the text protocol and what follows it, or a table of words */
  GYRE_MEMCACHED_VALUES, /* many values: a Hash */
  GYRE_MEMCACHED_QUIET,  /* many commands whose success has no reply: how many were refused */
};

/* What was sent, for the replies that it may have. */
enum gyre_memcached_verb {
  GYRE_MEMCACHED_VERB_MG,
  GYRE_MEMCACHED_VERB_MS,
  GYRE_MEMCACHED_VERB_MD,
  GYRE_MEMCACHED_VERB_MA,
  GYRE_MEMCACHED_VERB_MN, /* and all quiet commands before it */
  GYRE_MEMCACHED_VERB_STATS,
  GYRE_MEMCACHED_VERB_WORD, /* version, flush_all, … */
};

/* Of one caller; on its stack while it waits, or in a Ruby object (a Gyre::Memcached::Call).
 *
 *   new --commands are queued--> outstanding --last reply, or the connection fails--> over
 *                                     \---its caller leaves: the replies are dropped---> over
 */
struct gyre_memcached_call {
  struct gyre_memcached_connection *connection; /* of its first command on; the caller keeps it */
  uint64_t first;                               /* the number of its first command */
  uint64_t start;                               /* where in the stream that begins */
  uint32_t outstanding;                         /* replies that have not come; 0: it is over, or has not begun */
  uint32_t flags;                               /* of the value */
  uint32_t refused;                             /* QUIET: commands that were not carried out */
  uint8_t kind;                                 /* enum gyre_memcached_kind */
  uint8_t code;                                 /* enum gyre_memcached_code, of the last reply */
  bool failed;                                  /* the connection has */
  bool unsent;                                  /* and not a byte of it had left */
  uint64_t cas;
  VALUE value;            /* the bytes; the Hash; the text */
  VALUE keys;             /* VALUES: by which names the values are returned */
  VALUE coded;            /* VALUES: keys, flags and bytes of what is to be decoded, by turns; nil: none */
  VALUE error;            /* the server's first error line, or nil */
  struct gyre_wait *wait; /* of its fiber while that is parked */
  VALUE waiters;          /* Gyre::Waiters of threads that wait for the one that reads: an Array, or nil */
  VALUE owner;            /* the Ruby object around it, marked by the connection; nil: it is on a stack */
};

struct gyre_memcached_entry {
  struct gyre_memcached_call *call; /* NULL: nothing waits for the reply any more */
  uint32_t index;                   /* which one of the call's */
  uint8_t verb;                     /* enum gyre_memcached_verb */
};

struct gyre_memcached_connection {
  VALUE self, transport_object, scheduler_object, name; /* scheduler nil: the threads' */
  struct gyre_transport *transport;
  struct gyre_scheduler *scheduler;
  struct gyre_memcached_entry *entries; /* a ring: commands whose replies have not come, in order */
  uint32_t capacity;                    /* a power of 2 */
  uint64_t head, tail;                  /* numbers of commands */
  uint64_t offered;                     /* up to which one they were given to the socket */
  size_t wanted;                        /* bytes of input without which its first reply is not whole */
  int64_t timeout_ns;
  int64_t moved_ns; /* when something came last, or the first of these commands left */
  int64_t used_ns;  /* when there was last nothing to wait for, by the coarse clock */
  unsigned forks;   /* gyre_forks, when it was made */
  bool failed;      /* nothing can be sent or come any more */
  bool ended;       /* the server will send no more */
  bool linked;      /* it is in the loop's lists, and marked by the scheduler */
  bool waits;       /* the loop's clock is told that replies are to come */
  bool taking;      /* replies are being handed out */
  bool guests;      /* fibers of another library's scheduler use it: they may be let go without an exception */
  uint64_t leader;  /* the number of the thread or fiber that reads for all; 0: none does */
  uint64_t leaders; /* how many have done so */
  int64_t led_ns;   /* when the one that reads was last seen to run */
  char reason[160]; /* why it has failed */
  VALUE woken;      /* waiters of threads whose calls are over, until the one that reads wakes them */
  VALUE crowd;      /* waiters of threads that wait for room */
  struct gyre_client client;
  struct gyre_watch watch;
  struct gyre_timer timer;
  struct gyre_post closing; /* another thread has closed it */
  struct gyre_late_send late;
  struct gyre_busy_poll busy; /* of a lone command's reply */
  struct gyre_list room;      /* struct gyre_memcached_room */
};

/* One that waits until the pipeline has room. */
struct gyre_memcached_room {
  struct gyre_list node;
  struct gyre_wait *wait;
};

/* A connection's reason, which lib/gyre/memcached/server.rb knows, too. */
#define GYRE_MEMCACHED_CLOSED "the client was closed"

#define GYRE_MEMCACHED_PENDING_LIMIT (UINT32_C(1) << 16) /* commands in a pipeline */
#define GYRE_MEMCACHED_OUTPUT_BYTES (4 << 20)            /* unsent at which callers wait */

/* memcached_connection.c. These never wait, and run no Ruby code. */
struct gyre_memcached_connection *gyre_memcached_connection_get(VALUE connection);
static inline uint64_t gyre_memcached_pending(const struct gyre_memcached_connection *connection) {
  return connection->tail - connection->head;
}
/* Whether it can be used by this process and thread. */
bool gyre_memcached_connection_usable(const struct gyre_memcached_connection *connection);
bool gyre_memcached_connection_has_room(const struct gyre_memcached_connection *connection);
/* Where so many bytes of commands go; NULL: no memory, or it has failed. */
char *gyre_memcached_connection_reserve(struct gyre_memcached_connection *connection, size_t length);
/* So many bytes were written there: a command, with a reply for the call, or for a quiet group no
 * reply yet (call NULL). -ENOMEM: nothing was queued. */
int gyre_memcached_connection_queue(struct gyre_memcached_connection *connection, struct gyre_memcached_call *call,
                                    enum gyre_memcached_verb verb, uint32_t index, size_t length);
/* Sends what is queued: at once when nothing else could be queued in this turn, else at its end. */
void gyre_memcached_connection_send(struct gyre_memcached_connection *connection, bool alone);
/* In a child: the connection is the parent's, and so are its calls. */
void gyre_memcached_connection_forked(struct gyre_memcached_connection *connection);
/* Receives what has come, and hands out whole replies. */
void gyre_memcached_connection_read(struct gyre_memcached_connection *connection);
/* Every call fails. */
void gyre_memcached_connection_fail(struct gyre_memcached_connection *connection, const char *reason);
/* Likewise, for no reply has come in time. */
void gyre_memcached_connection_expire(struct gyre_memcached_connection *connection);
/* Whether a thread reads for all, under which the socket cannot be closed. One that is lost does
 * not: it has not run for twice the time (leads_ns) after which it does; trusted_ns are left. */
bool gyre_memcached_connection_is_led(struct gyre_memcached_connection *connection);
int64_t gyre_memcached_connection_leads_ns(const struct gyre_memcached_connection *connection);
int64_t gyre_memcached_connection_trusted_ns(const struct gyre_memcached_connection *connection);
/* The call's replies are dropped when they come. */
void gyre_memcached_call_leave(struct gyre_memcached_call *call);
void gyre_init_memcached_connection(void);

/* memcached_threads.c: until the call is over, or where it is NULL, until there is room, or until
 * that time of gyre_timers_now; -1: without a limit. */
void gyre_memcached_threads_wait(struct gyre_memcached_connection *connection, struct gyre_memcached_call *call,
                                 int64_t until_ns);
/* A thread of this connection leaves: another one reads. */
void gyre_memcached_threads_hand_over(struct gyre_memcached_connection *connection);
void gyre_init_memcached_threads(void);

/* memcached_call.c */
void gyre_memcached_call_init(struct gyre_memcached_call *call, enum gyre_memcached_kind kind);
void gyre_memcached_call_mark(const struct gyre_memcached_call *call);
void gyre_init_memcached_call(void);
/* One reply of the call's has come. */
void gyre_memcached_call_take(struct gyre_memcached_call *call, const struct gyre_memcached_reply *reply,
                              uint32_t index);

void gyre_init_memcached_server(void);

#endif
