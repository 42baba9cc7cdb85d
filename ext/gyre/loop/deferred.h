/* Work for the end of a loop's turn: runs once, after the ready fibers and before the kernel is
 * asked. Lets output of several fibers (bytes for a socket, frames for a connection) leave
 * together. */
#ifndef GYRE_DEFERRED_H
#define GYRE_DEFERRED_H

#include "loop/list.h"

#include <stdbool.h>

struct gyre_loop;

/* Embedded in its owner, which cancels it before freeing its memory. Allocates nothing. */
struct gyre_deferred {
  struct gyre_list node; /* in loop->deferred */
  /* Runs on the loop's thread, with the GVL. Must not raise or switch fibers; may wake them and
   * defer again. */
  void (*run)(struct gyre_loop *loop, struct gyre_deferred *deferred);
};

static inline void gyre_deferred_init(struct gyre_deferred *deferred,
                                      void (*run)(struct gyre_loop *loop, struct gyre_deferred *deferred)) {
  gyre_list_init(&deferred->node);
  deferred->run = run;
}

/* True if it is pending. */
static inline bool gyre_deferred_waits(const struct gyre_deferred *deferred) {
  return !gyre_list_empty(&deferred->node);
}

/* Runs it at the end of this turn; if that has begun, at the end of the next. Ignores work that is
 * pending already. */
void gyre_loop_defer(struct gyre_loop *loop, struct gyre_deferred *deferred);

/* Does nothing if it is not pending. */
static inline void gyre_deferred_cancel(struct gyre_deferred *deferred) { gyre_list_remove(&deferred->node); }

/* Runs all work that is pending now; work deferred meanwhile stays pending. */
void gyre_loop_run_deferred(struct gyre_loop *loop);

/* For loop.c: the loop closes; pending work never runs. */
void gyre_loop_drop_deferred(struct gyre_loop *loop);

#endif
