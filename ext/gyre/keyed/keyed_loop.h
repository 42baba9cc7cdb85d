/*
 * The keyed loop, Gyre::Loop: what is watched has a key of the program's own, and the
 * program gets the keys back in the order in which things happened. keyed_loop.c has the object,
 * the queue and the waits, keyed_watch.c what is watched.
 *
 * On a thread with a native scheduler it works on that one's loop: a wait for an event parks its
 * fiber. Elsewhere it has a loop of its own and asks it itself.
 *
 *     watch ──► active ──(one-shot fires)──► resting ──(watched again in the same turn)──► active
 *                 │  ▲                          └──(before the next wait)──► released
 *       (fires again while its event is queued)
 *                 ▼  │
 *               paused ──(its event was taken)──► active
 *
 * A resting watch is over for the program: its key is free. Its registration with the kernel stands
 * until the next wait, or the second look at the kernel while events are queued, so a server that
 * watches a connection again after each request makes no system call for that.
 */
#ifndef GYRE_KEYED_LOOP_H
#define GYRE_KEYED_LOOP_H

#include "fiber/scheduler.h"

struct gyre_keyed_watch {
  struct gyre_list node; /* in the list of its state */
  struct gyre_keyed *keyed;
  struct gyre_watch watch; /* its fd is -1 while the loop does not watch it */
  struct gyre_timer timer;
  VALUE key, io, helper; /* helper: asked when the event is taken, notified when the watch ends; nil for most */
  int fd;                /* -1: a timer, or a key that a helper holds */
  unsigned interest;
  int64_t interval_ns; /* of a timer that comes again, else 0 */
  enum {
    GYRE_KEYED_FREE,
    GYRE_KEYED_ACTIVE,
    GYRE_KEYED_PAUSED,
    GYRE_KEYED_RESTING,
    GYRE_KEYED_ALWAYS,
    GYRE_KEYED_FAILED,
    GYRE_KEYED_ENDING /* is being released; the key's methods may wait meanwhile */
  } state;
  bool oneshot, timed;
  bool queued;   /* its event is in the queue */
  bool trusted;  /* the registration was used again without asking the kernel */
  bool identity; /* which table has the key */
  bool overdue;  /* rests since before the last look at the kernel */
};

struct gyre_keyed_event {
  VALUE key, helper;
  struct gyre_keyed_watch *watch; /* NULL for what is over, or was emitted */
};

/* A fiber in each or next_event. */
struct gyre_keyed_waiter {
  struct gyre_list node; /* in keyed->waiters */
  struct gyre_wait wait;
};

struct gyre_keyed {
  VALUE self;
  VALUE backend;          /* asked for, or nil */
  struct gyre_loop *loop; /* where the watches are: its own or the scheduler's; NULL: nowhere yet */
  struct gyre_loop own;
  struct gyre_scheduler *scheduler; /* whose loop it is */
  struct gyre_client client;
  VALUE thread; /* whose scheduler it is, or which is inside each or next_event */
  int depth;
  unsigned forks; /* of the process when it was last used */

  st_table *identity; /* key => watch, for keys that equal only themselves */
  VALUE equality;     /* Hash key => watch as an Integer, for all others */
  struct gyre_list active, timed, paused, resting, always, failed, free;
  size_t watch_count, free_count;
  struct gyre_timer sweep;
  bool sweep_due, active_since_sweep;

  struct gyre_keyed_event *events; /* a ring; has room for an event of each watch at any time */
  size_t first, count, capacity;   /* capacity: a power of two */
  struct gyre_list waiters;        /* struct gyre_keyed_waiter */
  int64_t polled_ns;               /* coarse: when the kernel was last asked */
  bool stopped, signalled, closed;
  bool handed_back; /* another thread has emitted since the last wait: threads work on what was reported */
};

/* keyed_queue.c */

/* Puts an event into the queue; there is room, see gyre_keyed_reserve. */
void gyre_keyed_push(struct gyre_keyed *keyed, VALUE key, VALUE helper, struct gyre_keyed_watch *watch);
/* With the GVL, from any thread. */
void gyre_keyed_wake(struct gyre_keyed *keyed);
/* Makes room for `more` events beside one of each watch. Raises NoMemoryError. */
void gyre_keyed_reserve(struct gyre_keyed *keyed, size_t more);

/* keyed_loop.c; the class, to which the inits of the other files add their methods. */
VALUE gyre_init_keyed_loop(void);
/* Finds the loop to be used by this thread and brings the watches there. Raises when another thread
 * uses it. */
void gyre_keyed_settle(struct gyre_keyed *keyed);
/* Leaves the scheduler's loop when there is nothing to do on it. */
void gyre_keyed_unsettle(struct gyre_keyed *keyed);
struct gyre_keyed *gyre_keyed_get(VALUE self);

/* keyed_keys.c: these may call the key's `hash` and `eql?`. */
void gyre_init_keyed_keys(void);
struct gyre_keyed_watch *gyre_keyed_find(struct gyre_keyed *keyed, VALUE key);
void gyre_keyed_insert(struct gyre_keyed *keyed, VALUE key, struct gyre_keyed_watch *watch);
void gyre_keyed_delete(struct gyre_keyed *keyed, VALUE key, struct gyre_keyed_watch *watch);

/* keyed_watch.c */
void gyre_init_keyed_watch(void);
void gyre_keyed_watches_init(struct gyre_keyed *keyed);
void gyre_keyed_watches_mark(struct gyre_keyed *keyed);
void gyre_keyed_watches_free(struct gyre_keyed *keyed);
/* Gives a watch that is over and whose event was taken back to the pool. */
void gyre_keyed_recycle(struct gyre_keyed *keyed, struct gyre_keyed_watch *watch);
/* Takes all watches off the loop, or brings them there. */
void gyre_keyed_detach(struct gyre_keyed *keyed);
void gyre_keyed_attach(struct gyre_keyed *keyed);
/* Ends all watches. */
void gyre_keyed_clear(struct gyre_keyed *keyed);
/* What has to be done before the kernel is asked; `waits`: nothing is queued that could watch again
 * what rests. Raises the IOError of a watch whose io is closed; may call helpers and keys'
 * methods. */
void gyre_keyed_prepare(struct gyre_keyed *keyed, bool waits);
/* Queues what is always ready, such as a regular file. */
void gyre_keyed_queue_always(struct gyre_keyed *keyed);

/* Begin a watch, on the loop that was settled for. Raise when the key is in use, and when it cannot
 * be watched. */
void gyre_keyed_watch_descriptor(struct gyre_keyed *keyed, VALUE key, VALUE io, int fd, unsigned interest, bool oneshot,
                                 VALUE helper);
void gyre_keyed_watch_time(struct gyre_keyed *keyed, VALUE key, VALUE helper, int64_t duration_ns, int64_t interval_ns);
void gyre_keyed_watch_key(struct gyre_keyed *keyed, VALUE key, VALUE helper);
/* Ends a watch altogether. Calls the key's methods, and the helper at last. */
void gyre_keyed_release(struct gyre_keyed *keyed, struct gyre_keyed_watch *watch);
/* keyed_requests.c, keyed_helper.c */
void gyre_init_keyed_requests(VALUE class);
void gyre_init_keyed_helper(void);

#endif
