/*
 * The loop: which descriptor is watched by whom, which timers run, and one question to the backend
 * a turn. All bookkeeping is here, once, whatever the backend. It knows nothing of fibers: what is
 * watched or timed brings a function that is called on the loop's thread when the time has come.
 */
#ifndef GYRE_LOOP_H
#define GYRE_LOOP_H

#include "backend.h"
#include "list.h"
#include "timers.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GYRE_LOOP_EVENTS 256        /* asked from the kernel at once */
#define GYRE_LOOP_BUFFER (64 * 1024) /* the receive buffer that the loop lends */

struct gyre_loop;

/* One party's interest in one descriptor. Stays until gyre_loop_unwatch; `ready` is called each time. */
struct gyre_watch {
  struct gyre_watch *next, *previous; /* of the same descriptor */
  struct gyre_list unverified;
  int fd; /* -1 when not watching */
  unsigned interest;
  void (*ready)(struct gyre_loop *loop, struct gyre_watch *watch, unsigned ready);
};

struct gyre_descriptor {
  struct gyre_watch *first;
  uint32_t generation;
  uint8_t registered; /* what the kernel was last told to report */
  uint8_t drained;    /* a call answered "would block", and nothing was reported since */
};

struct gyre_loop_statistics {
  uint64_t turns, waits, events;
};

struct gyre_loop {
  const struct gyre_backend_operations *backend;
  void *backend_state;
  struct gyre_timers timers;
  int64_t now_ns; /* of this turn */

  struct gyre_descriptor *descriptors; /* by number */
  int descriptor_capacity;
  struct gyre_list unverified; /* watches that trust an earlier registration */
  int64_t verified_ns;         /* when they were last verified (coarse) */

  struct gyre_event events[GYRE_LOOP_EVENTS];
  int event_next, event_count, error;
  struct gyre_watch *cursor; /* the next to be told of the present event */

  bool waiting; /* without the GVL */
  int woken;    /* atomic: the next wait is not to begin */
  char *buffer; /* lent to whoever receives, until he gives the thread away */
  struct gyre_loop_statistics statistics;
};

/* 0 or -errno. */
int gyre_loop_open(struct gyre_loop *loop, const struct gyre_backend_operations *backend);
void gyre_loop_close(struct gyre_loop *loop);

/* Starts anew in a forked child: nothing is watched or timed; the parent's kernel objects are untouched. */
int gyre_loop_reopen(struct gyre_loop *loop);

/* Begins a watch; 0 or -errno (-EPERM: the descriptor is always ready, as a regular file is). */
int gyre_loop_watch(struct gyre_loop *loop, struct gyre_watch *watch, int fd, unsigned interest);

/* Ends it; harmless when it is not watching. */
void gyre_loop_unwatch(struct gyre_loop *loop, struct gyre_watch *watch);

/* A call on `fd` just answered "would block": the next readiness will be reported as a change. */
void gyre_loop_drained(struct gyre_loop *loop, int fd, unsigned interest);

/* `fd` is about to be closed by us: its registration ends with it. */
void gyre_loop_forget(struct gyre_loop *loop, int fd);

/* `fd` is about to be closed by the program: its watches are called, then it is forgotten. */
void gyre_loop_abandon(struct gyre_loop *loop, int fd);

/* Asks the backend once, at first without waiting; gives the GVL up only to wait. Then tells the
 * watches what happened and fires the timers. Raises what a signal or another thread raises here. */
void gyre_loop_poll(struct gyre_loop *loop, bool wait);

/* From any thread, or a signal handler. */
void gyre_loop_wake(struct gyre_loop *loop);

#endif
