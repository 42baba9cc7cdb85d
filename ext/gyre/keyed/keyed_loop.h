/* The keyed loop, Gyre::Loop. Each watch has a key; the program receives the keys in the order of
 * events. keyed_loop.c has the object and its methods; keyed_watch.c has watches and queue.
 *
 * In a thread that has a native scheduler, a keyed loop uses the scheduler's loop, and a wait parks
 * its fiber. Otherwise it drives a loop of its own.
 *
 *     watch ──► active ──(one-shot fires)──► resting ──(watched again in the same turn)──► active
 *                 │  ▲                          └──(before the next wait)──► released
 *       (fires again while its event is queued)
 *                 ▼  │
 *               paused ──(its event was taken)──► active
 *
 * A resting watch has freed its key, but stays registered until the next wait, or until the kernel
 * was asked twice while events were queued. So watching a connection again needs no system call. */
#pragma once

#include "fiber/scheduler.h"

enum gyre_keyed_state {
  GYRE_KEYED_FREE,
  GYRE_KEYED_ACTIVE, /* watches a descriptor */
  GYRE_KEYED_TIMED,  /* a timer, or a helper's key */
  GYRE_KEYED_PAUSED,
  GYRE_KEYED_RESTING,
  GYRE_KEYED_ALWAYS,
  GYRE_KEYED_FAILED,
  GYRE_KEYED_ENDING /* is being released; the key's methods may run meanwhile */
};

struct gyre_keyed_watch {
  struct gyre_list node; /* in keyed->lists[state] */
  struct gyre_keyed *keyed;
  struct gyre_watch watch; /* fd is -1 while unwatched by the loop */
  struct gyre_timer timer;
  VALUE key, io, helper; /* helper: see watch_helper; usually nil */
  int fd;                /* -1: a timer, or a helper's key */
  unsigned interest;
  int64_t interval_ns; /* interval of a repeating timer, or 0 */
  enum gyre_keyed_state state;
  bool oneshot, timed;
  bool queued;   /* its event is queued */
  bool trusted;  /* reuses its registration without asking the kernel */
  bool identity; /* its key is in keyed->identity */
  bool overdue;  /* was already resting at the last poll */
};

struct gyre_keyed_event {
  VALUE key, helper;
  struct gyre_keyed_watch *watch; /* NULL if the watch is over or the event was emitted */
};

/* A fiber waiting in `each` or `next_event`. */
struct gyre_keyed_waiter {
  struct gyre_list node;    /* in keyed->waiters */
  struct gyre_keyed *keyed; /* NULL once the wait has ended without an exception */
  struct gyre_wait wait;
};

struct gyre_keyed {
  VALUE self;
  VALUE backend;          /* the backend's name, for `own`; nil before initialize */
  struct gyre_loop *loop; /* `own` or the scheduler's loop; NULL if neither is in use */
  struct gyre_loop own;
  struct gyre_scheduler *scheduler; /* scheduler whose loop is in use, or NULL */
  struct gyre_client client;
  VALUE thread; /* thread of the scheduler, or of the running `each` or `next_event` */
  int depth;

  st_table *identity;                        /* key => watch, for keys that equal only themselves */
  VALUE equality;                            /* Hash key => watch as an Integer, for other keys */
  struct gyre_list lists[GYRE_KEYED_ENDING]; /* the watches, by state */
  size_t watch_count, free_count;
  struct gyre_timer sweep;
  bool sweep_due, active_since_sweep;

  struct gyre_keyed_event *events; /* a ring: emitted events, and at most one event per watch */
  size_t first, count, capacity;   /* capacity: a power of two */
  struct gyre_list waiters;        /* struct gyre_keyed_waiter */
  int64_t polled_ns;               /* coarse time when the kernel was last asked */
  bool stopped, signalled, closed;
  bool handed_back; /* another thread has emitted an event since the last wait */
};

/* The queue of events. */

/* Queues an event. Call gyre_keyed_reserve before. */
void gyre_keyed_push(struct gyre_keyed *keyed, VALUE key, VALUE helper, struct gyre_keyed_watch *watch);
/* Wakes all waiters. Any thread with the GVL may call it. */
void gyre_keyed_wake(struct gyre_keyed *keyed);
/* Wakes one waiter, which wakes the next waiter if it leaves events in the queue. */
void gyre_keyed_wake_one(struct gyre_keyed *keyed);
/* Reserves room for `more` events plus one per watch. Raises NoMemoryError. */
void gyre_keyed_reserve(struct gyre_keyed *keyed, size_t more);

/* keyed_watch.c */
/* Returns the key's watch, or NULL. May call the key's `hash` and `eql?`. */
struct gyre_keyed_watch *gyre_keyed_find(struct gyre_keyed *keyed, VALUE key);
void gyre_keyed_watches_init(struct gyre_keyed *keyed);
void gyre_keyed_watches_mark(struct gyre_keyed *keyed);
void gyre_keyed_watches_free(struct gyre_keyed *keyed);
/* Returns a released watch to the pool. Its event must not be queued. */
void gyre_keyed_recycle(struct gyre_keyed *keyed, struct gyre_keyed_watch *watch);
/* Take all watches off `loop`, or put them on it. */
void gyre_keyed_detach(struct gyre_keyed *keyed);
void gyre_keyed_attach(struct gyre_keyed *keyed);
void gyre_keyed_clear(struct gyre_keyed *keyed);
/* Prepares to ask the kernel. If `waits` (the queue is empty), ends all resting watches, otherwise
 * only overdue ones. Raises IOError if a watched IO was closed. May call helpers and keys'
 * methods. */
void gyre_keyed_prepare(struct gyre_keyed *keyed, bool waits);
/* Queues events of descriptors that are always ready, such as regular files. */
void gyre_keyed_queue_always(struct gyre_keyed *keyed);

/* Begin a watch on `loop`. Raise if the key is in use or the IO cannot be watched. */
void gyre_keyed_watch_descriptor(struct gyre_keyed *keyed, VALUE key, VALUE io, int fd, unsigned interest, bool oneshot,
                                 VALUE helper);
void gyre_keyed_watch_time(struct gyre_keyed *keyed, VALUE key, VALUE helper, int64_t duration_ns, int64_t interval_ns);
void gyre_keyed_watch_key(struct gyre_keyed *keyed, VALUE key, VALUE helper);
/* Ends a watch. Calls methods of the key, then of the helper. */
void gyre_keyed_release(struct gyre_keyed *keyed, struct gyre_keyed_watch *watch);
