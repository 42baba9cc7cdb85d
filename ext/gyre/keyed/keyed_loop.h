/*
 * The keyed loop, Gyre::Loop: watches have keys of the program's own, and the program gets the keys
 * back in the order of events. keyed_loop.c has the object and the waits, keyed_watch.c the
 * watches.
 *
 * On a thread with a native scheduler it uses the scheduler's loop, and waits park their fiber.
 * Elsewhere it has and drives its own loop.
 *
 *     watch ──► active ──(one-shot fires)──► resting ──(watched again in the same turn)──► active
 *                 │  ▲                          └──(before the next wait)──► released
 *       (fires again while its event is queued)
 *                 ▼  │
 *               paused ──(its event was taken)──► active
 *
 * A resting watch is over for the program: its key is free. Its registration stays until the next
 * wait or, while events are queued, until the kernel has been asked twice. A server that watches a
 * connection again after each request thus makes no system call.
 */
#ifndef GYRE_KEYED_LOOP_H
#define GYRE_KEYED_LOOP_H

#include "fiber/scheduler.h"

enum gyre_keyed_state {
  GYRE_KEYED_FREE,
  GYRE_KEYED_ACTIVE, /* a descriptor */
  GYRE_KEYED_TIMED,  /* a timer, or a helper's key */
  GYRE_KEYED_PAUSED,
  GYRE_KEYED_RESTING,
  GYRE_KEYED_ALWAYS,
  GYRE_KEYED_FAILED,
  GYRE_KEYED_ENDING /* being released while the key's methods run; in no list */
};

struct gyre_keyed_watch {
  struct gyre_list node; /* in the list of its state */
  struct gyre_keyed *keyed;
  struct gyre_watch watch; /* fd is -1 while unwatched by the loop */
  struct gyre_timer timer;
  VALUE key, io, helper; /* helper, called when the event is taken and when the watch ends; usually nil */
  int fd;                /* -1: a timer, or a helper's key */
  unsigned interest;
  int64_t interval_ns; /* interval of a repeating timer, else 0 */
  enum gyre_keyed_state state;
  bool oneshot, timed;
  bool queued;   /* its event is in the queue */
  bool trusted;  /* the registration was reused without asking the kernel */
  bool identity; /* the table that has the key */
  bool overdue;  /* was resting already when the kernel was last asked */
};

struct gyre_keyed_event {
  VALUE key, helper;
  struct gyre_keyed_watch *watch; /* NULL if over, or for an emitted event */
};

/* A fiber in each or next_event. */
struct gyre_keyed_waiter {
  struct gyre_list node;    /* in keyed->waiters */
  struct gyre_keyed *keyed; /* NULL once the wait has ended without an exception */
  struct gyre_wait wait;
};

struct gyre_keyed {
  VALUE self;
  VALUE backend;          /* requested, or nil */
  struct gyre_loop *loop; /* its own loop or the scheduler's; NULL: none yet */
  struct gyre_loop own;
  struct gyre_scheduler *scheduler; /* whose loop it is */
  struct gyre_client client;
  VALUE thread; /* thread of the scheduler, or inside each or next_event */
  int depth;
  unsigned forks; /* number of forks at its last use */

  st_table *identity;                        /* key => watch, for keys that equal only themselves */
  VALUE equality;                            /* Hash key => watch as an Integer, for all others */
  struct gyre_list lists[GYRE_KEYED_ENDING]; /* of watches, by state */
  size_t watch_count, free_count;
  struct gyre_timer sweep;
  bool sweep_due, active_since_sweep;

  struct gyre_keyed_event *events; /* a ring with room for one event of each watch */
  size_t first, count, capacity;   /* capacity: a power of two */
  struct gyre_list waiters;        /* struct gyre_keyed_waiter */
  int64_t polled_ns;               /* coarse: when the kernel was last asked */
  bool stopped, signalled, closed;
  bool handed_back; /* another thread has emitted since the last wait: threads handle this loop's events */
};

/* keyed_queue.c */

/* Queues an event; gyre_keyed_reserve has made room. */
void gyre_keyed_push(struct gyre_keyed *keyed, VALUE key, VALUE helper, struct gyre_keyed_watch *watch);
/* With the GVL, from any thread. */
void gyre_keyed_wake(struct gyre_keyed *keyed);
/* Wakes one waiter for the queue; it wakes the next one if it leaves events. */
void gyre_keyed_wake_one(struct gyre_keyed *keyed);
/* Reserves room for `more` events plus one per watch. Raises NoMemoryError. */
void gyre_keyed_reserve(struct gyre_keyed *keyed, size_t more);

/* keyed_loop.c; other files add methods to the class. */
VALUE gyre_init_keyed_loop(void);
/* Moves the watches to the loop for this thread. Raises if another thread uses it. */
void gyre_keyed_settle(struct gyre_keyed *keyed);
/* Leaves the scheduler's loop if there is nothing to do on it. */
void gyre_keyed_unsettle(struct gyre_keyed *keyed);
struct gyre_keyed *gyre_keyed_get(VALUE self);

/* keyed_keys.c: these may call the key's `hash` and `eql?`. */
struct gyre_keyed_watch *gyre_keyed_find(struct gyre_keyed *keyed, VALUE key);
void gyre_keyed_insert(struct gyre_keyed *keyed, VALUE key, struct gyre_keyed_watch *watch);
void gyre_keyed_delete(struct gyre_keyed *keyed, VALUE key, struct gyre_keyed_watch *watch);

/* keyed_watch.c */
void gyre_init_keyed_watch(void);
void gyre_keyed_watches_init(struct gyre_keyed *keyed);
void gyre_keyed_watches_mark(struct gyre_keyed *keyed);
void gyre_keyed_watches_free(struct gyre_keyed *keyed);
/* Returns a watch to the pool, once its event was taken. */
void gyre_keyed_recycle(struct gyre_keyed *keyed, struct gyre_keyed_watch *watch);
/* Takes all watches off the loop, or puts them there. */
void gyre_keyed_detach(struct gyre_keyed *keyed);
void gyre_keyed_attach(struct gyre_keyed *keyed);
/* Ends all watches. */
void gyre_keyed_clear(struct gyre_keyed *keyed);
/* Prepares to ask the kernel; `waits`: the queue is empty, so resting watches end. Raises the
 * IOError of a watch whose io is closed; may call helpers and keys' methods. */
void gyre_keyed_prepare(struct gyre_keyed *keyed, bool waits);
/* Queues events of descriptors that are always ready, such as regular files. */
void gyre_keyed_queue_always(struct gyre_keyed *keyed);

/* Begin a watch on the settled loop. Raise if the key is in use, or if it cannot be watched. */
void gyre_keyed_watch_descriptor(struct gyre_keyed *keyed, VALUE key, VALUE io, int fd, unsigned interest, bool oneshot,
                                 VALUE helper);
void gyre_keyed_watch_time(struct gyre_keyed *keyed, VALUE key, VALUE helper, int64_t duration_ns, int64_t interval_ns);
void gyre_keyed_watch_key(struct gyre_keyed *keyed, VALUE key, VALUE helper);
/* Ends a watch. Calls the key's methods, then the helper. */
void gyre_keyed_release(struct gyre_keyed *keyed, struct gyre_keyed_watch *watch);
/* keyed_requests.c, keyed_helper.c */
void gyre_init_keyed_requests(VALUE class);
void gyre_init_keyed_helper(void);

#endif
