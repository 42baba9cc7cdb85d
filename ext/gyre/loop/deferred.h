/* Work for the end of a loop's turn: runs once, after ready fibers and before the kernel is asked,
 * so that output of several fibers (bytes, frames) leaves together. */
#pragma once

#include "loop/list.h"

#include <stdbool.h>

struct gyre_loop;

/* Embedded in its owner, which cancels it before freeing. Allocates nothing. */
struct gyre_deferred {
  struct gyre_list node; /* in loop->deferred */
  /* In the loop's thread with the GVL. Must not raise or switch fibers; may wake them and defer
   * again. */
  void (*run)(struct gyre_loop *loop, struct gyre_deferred *deferred);
};

static inline void gyre_deferred_init(struct gyre_deferred *deferred,
                                      void (*run)(struct gyre_loop *loop, struct gyre_deferred *deferred)) {
  gyre_list_init(&deferred->node);
  deferred->run = run;
}

static inline bool gyre_deferred_waits(const struct gyre_deferred *deferred) {
  return !gyre_list_empty(&deferred->node);
}

/* Runs it at this turn's end, or if that has begun at the next one's. Ignores pending work. */
void gyre_loop_defer(struct gyre_loop *loop, struct gyre_deferred *deferred);

/* Ignores work that is not pending. */
static inline void gyre_deferred_cancel(struct gyre_deferred *deferred) { gyre_list_remove(&deferred->node); }

/* Work deferred meanwhile stays pending. */
void gyre_loop_run_deferred(struct gyre_loop *loop);

/* For loop.c, when the loop closes: pending work never runs. */
void gyre_loop_drop_deferred(struct gyre_loop *loop);
