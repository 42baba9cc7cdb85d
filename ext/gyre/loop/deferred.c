/* Work for a turn's end (deferred.h). The scheduler runs it; the loop never sleeps while it is
 * pending. */
#include "loop/loop.h"

void gyre_loop_defer(struct gyre_loop *loop, struct gyre_deferred *deferred) {
  if (!gyre_deferred_waits(deferred)) gyre_list_append(&loop->deferred, &deferred->node);
}

/* First moves all work to another list, so that later work waits for the next turn. Cancelling
 * removes work from either list. */
void gyre_loop_run_deferred(struct gyre_loop *loop) {
  struct gyre_list due = {&due, &due};
  gyre_list_splice(&due, &loop->deferred);
  GYRE_EACH_TAKEN(struct gyre_deferred, deferred, &due, node) deferred->run(loop, deferred);
}

void gyre_loop_drop_deferred(struct gyre_loop *loop) {
  while (!gyre_list_empty(&loop->deferred)) gyre_list_remove(loop->deferred.next);
}
