/* Work for the end of a turn (see deferred.h). The scheduler's turn runs it; a poll does not sleep
 * while work is pending. */
#include "loop/loop.h"

void gyre_loop_defer(struct gyre_loop *loop, struct gyre_deferred *deferred) {
  if (!gyre_deferred_waits(deferred)) gyre_list_append(&loop->deferred, &deferred->node);
}

/* Moves the work to a separate list first: later work is for the next turn, and cancelled work
 * leaves either list. */
void gyre_loop_run_deferred(struct gyre_loop *loop) {
  struct gyre_list due = {&due, &due};
  gyre_list_splice(&due, &loop->deferred);
  while (!gyre_list_empty(&due)) {
    struct gyre_deferred *deferred = GYRE_CONTAINER(due.next, struct gyre_deferred, node);
    gyre_list_remove(&deferred->node);
    deferred->run(loop, deferred);
  }
}

void gyre_loop_drop_deferred(struct gyre_loop *loop) {
  while (!gyre_list_empty(&loop->deferred)) gyre_list_remove(loop->deferred.next);
}
