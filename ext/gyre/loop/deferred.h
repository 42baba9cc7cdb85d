/*
 * Work for the end of a loop's present turn: run once, when what was ready has run and before the
 * kernel is asked. What several fibers do in one turn (bytes for one socket, frames for one
 * connection) leaves together there.
 */
#ifndef GYRE_DEFERRED_H
#define GYRE_DEFERRED_H

#include "loop/list.h"

#include <stdbool.h>

struct gyre_loop;

/* Embedded in what it is run for. It allocates nothing; the owner cancels it before its memory is
 * freed. */
struct gyre_deferred {
  struct gyre_list node; /* in loop->deferred */
  /* On the loop's thread, with the GVL. It neither raises nor switches fibers; it may wake them,
   * and defer again. */
  void (*run)(struct gyre_loop *loop, struct gyre_deferred *deferred);
};

static inline void gyre_deferred_init(struct gyre_deferred *deferred,
                                      void (*run)(struct gyre_loop *loop, struct gyre_deferred *deferred)) {
  gyre_list_init(&deferred->node);
  deferred->run = run;
}

/* Whether it is going to run. */
static inline bool gyre_deferred_waits(const struct gyre_deferred *deferred) {
  return !gyre_list_empty(&deferred->node);
}

/* Has it run at the end of the turn, or of the next one where the end has begun. Nothing happens to
 * one that waits already. */
void gyre_loop_defer(struct gyre_loop *loop, struct gyre_deferred *deferred);

/* It does not run; harmless when it was not going to. */
static inline void gyre_deferred_cancel(struct gyre_deferred *deferred) { gyre_list_remove(&deferred->node); }

/* The end of a turn: runs all but those that are deferred meanwhile. */
void gyre_loop_run_deferred(struct gyre_loop *loop);

/* For loop.c: the loop closes, none of them runs. */
void gyre_loop_drop_deferred(struct gyre_loop *loop);

#endif
