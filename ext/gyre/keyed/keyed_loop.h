/* The keyed loop, Gyre::Loop: watches have the program's keys, which it gets back in the order of
 * events. keyed_loop.c has object, waits and methods, keyed_watch.c the watches.
 *
 * With a native scheduler it uses that loop, and waits park their fiber; otherwise it drives its
 * own.
 *
 *     watch ──► active ──(one-shot fires)──► resting ──(watched again in the same turn)──► active
 *                 │  ▲                          └──(before the next wait)──► released
 *       (fires again while its event is queued)
 *                 ▼  │
 *               paused ──(its event was taken)──► active
 *
 * A resting watch has freed its key, but stays registered until the next wait or, while events are
 * queued, the second look at the kernel: a server that watches a connection again makes no system
 * call. */
#pragma once

#include "fiber/scheduler.h"

enum gyre_keyed_state {
  GYRE_KEYED_FREE,
  GYRE_KEYED_ACTIVE, /* a descriptor */
  GYRE_KEYED_TIMED,  /* a timer, or a helper's key */
  GYRE_KEYED_PAUSED,
  GYRE_KEYED_RESTING,
  GYRE_KEYED_ALWAYS,
  GYRE_KEYED_FAILED,
  GYRE_KEYED_ENDING /* being released while the key's methods run */
};

struct gyre_keyed_watch {
  struct gyre_list node; /* in the list of its state */
  struct gyre_keyed *keyed;
  struct gyre_watch watch; /* fd is -1 while unwatched by the loop */
  struct gyre_timer timer;
  VALUE key, io, helper; /* called when the event is taken and at the watch's end; usually nil */
  int fd;                /* -1: a timer, or a helper's key */
  unsigned interest;
  int64_t interval_ns; /* interval of a repeating timer, else 0 */
  enum gyre_keyed_state state;
  bool oneshot, timed;
  bool queued;   /* its event is queued */
  bool trusted;  /* reuses its registration without asking the kernel */
  bool identity; /* in the table by address */
  bool overdue;  /* rested at the last poll, too */
};

struct gyre_keyed_event {
  VALUE key, helper;
  struct gyre_keyed_watch *watch; /* NULL if over, or for an emitted event */
};

/* A fiber waiting in `each` or `next_event`. */
struct gyre_keyed_waiter {
  struct gyre_list node;    /* in keyed->waiters */
  struct gyre_keyed *keyed; /* NULL once the wait has ended without an exception */
  struct gyre_wait wait;
};

struct gyre_keyed {
  VALUE self;
  VALUE backend;          /* for `own`; nil before initialize */
  struct gyre_loop *loop; /* own or the scheduler's; NULL: none yet */
  struct gyre_loop own;
  struct gyre_scheduler *scheduler; /* whose loop it is */
  struct gyre_client client;
  VALUE thread; /* thread of the scheduler, or of the caller of `each` */
  int depth;

  st_table *identity;                        /* key => watch, for keys that equal only themselves */
  VALUE equality;                            /* Hash key => watch as an Integer, for other keys */
  struct gyre_list lists[GYRE_KEYED_ENDING]; /* of watches, by state */
  size_t watch_count, free_count;
  struct gyre_timer sweep;
  bool sweep_due, active_since_sweep;

  struct gyre_keyed_event *events; /* a ring of events, at most one per watch */
  size_t first, count, capacity;   /* capacity: a power of two */
  struct gyre_list waiters;        /* struct gyre_keyed_waiter */
  int64_t polled_ns;               /* coarse time of the last look at the kernel */
  bool stopped, signalled, closed;
  bool handed_back; /* another thread has emitted since the last wait: it handles events */
};

/* The queue of events. */

/* Needs room by gyre_keyed_reserve. */
void gyre_keyed_push(struct gyre_keyed *keyed, VALUE key, VALUE helper, struct gyre_keyed_watch *watch);
/* From any thread with the GVL. */
void gyre_keyed_wake(struct gyre_keyed *keyed);
/* Wakes one waiter for the queue; it wakes the next one if it leaves events. */
void gyre_keyed_wake_one(struct gyre_keyed *keyed);
/* Reserves room for `more` events plus one per watch. Raises NoMemoryError. */
void gyre_keyed_reserve(struct gyre_keyed *keyed, size_t more);

/* keyed_watch.c */
/* May call the key's `hash` and `eql?`. */
struct gyre_keyed_watch *gyre_keyed_find(struct gyre_keyed *keyed, VALUE key);
void gyre_keyed_watches_init(struct gyre_keyed *keyed);
void gyre_keyed_watches_mark(struct gyre_keyed *keyed);
void gyre_keyed_watches_free(struct gyre_keyed *keyed);
/* Returns a watch to the pool, after its event. */
void gyre_keyed_recycle(struct gyre_keyed *keyed, struct gyre_keyed_watch *watch);
/* Take all watches off the loop; put them there. */
void gyre_keyed_detach(struct gyre_keyed *keyed);
void gyre_keyed_attach(struct gyre_keyed *keyed);
void gyre_keyed_clear(struct gyre_keyed *keyed);
/* Prepares to ask the kernel; `waits`: the queue is empty, so resting watches end. Raises IOError
 * for a closed io; may call helpers and keys' methods. */
void gyre_keyed_prepare(struct gyre_keyed *keyed, bool waits);
/* Queues events of always ready descriptors, such as regular files. */
void gyre_keyed_queue_always(struct gyre_keyed *keyed);

/* Begin a watch on the settled loop; raise for a used key or an unwatchable IO. */
void gyre_keyed_watch_descriptor(struct gyre_keyed *keyed, VALUE key, VALUE io, int fd, unsigned interest, bool oneshot,
                                 VALUE helper);
void gyre_keyed_watch_time(struct gyre_keyed *keyed, VALUE key, VALUE helper, int64_t duration_ns, int64_t interval_ns);
void gyre_keyed_watch_key(struct gyre_keyed *keyed, VALUE key, VALUE helper);
/* Calls the key's methods, then the helper. */
void gyre_keyed_release(struct gyre_keyed *keyed, struct gyre_keyed_watch *watch);
