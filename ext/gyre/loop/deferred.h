/* Work for the end of a loop's turn. Runs once, after the ready fibers and before the kernel is
 * asked, so that the output of several fibers is sent together. */
#pragma once

#include "loop/list.h"

struct gyre_loop;

/* Embedded in its owner. Must be cancelled before the owner is freed. */
struct gyre_deferred {
  struct gyre_list node; /* in loop->deferred */
  /* Called in the loop's thread, with the GVL. Must not raise or switch fibers; may wake fibers and
   * defer work. */
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

/* Makes the work run at the end of this turn, or of the next turn if this turn's end has begun.
 * Ignores pending work. */
void gyre_loop_defer(struct gyre_loop *loop, struct gyre_deferred *deferred);

/* Ignores work that is not pending. */
static inline void gyre_deferred_cancel(struct gyre_deferred *deferred) { gyre_list_remove(&deferred->node); }

/* Runs pending work; work deferred meanwhile stays pending. */
void gyre_loop_run_deferred(struct gyre_loop *loop);

/* For loop.c: drops pending work when the loop closes. */
void gyre_loop_drop_deferred(struct gyre_loop *loop);
