/*
 * Operations (see backend.h): memory, end, and closing. loop.c submits them; waiters (wait.c) free
 * them at the end, or leave them to the loop by cancelling. Never raises.
 */
#include "loop/loop.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* How long a closing loop waits for operations in flight, awaited by a fiber or not. It holds
 * the GVL, and the collector may be running. */
#define END_NS INT64_C(1000000000)
#define UNAWAITED_END_NS INT64_C(10000000)

struct gyre_operation *gyre_operation_new(enum gyre_operation_kind kind, size_t length) {
  struct gyre_operation *operation = malloc(sizeof(*operation) + length);
  if (!operation) return NULL;
  memset(operation, 0, sizeof(*operation));
  operation->kind = kind;
  gyre_list_init(&operation->node);
  return operation;
}

void gyre_operation_free(struct gyre_operation *operation) {
  if (!operation->lost) free(operation);
}

void gyre_loop_cancel(struct gyre_loop *loop, struct gyre_operation *operation) {
  operation->complete = NULL;
  if (loop->backend_state) loop->backend->cancel(loop->backend_state, operation);
}

void gyre_operation_complete(struct gyre_operation *operation) {
  gyre_list_remove(&operation->node);
  if (operation->complete) {
    operation->complete(operation);
  } else {
    gyre_operation_free(operation);
  }
}

void gyre_loop_orphan(struct gyre_loop *loop) {
  GYRE_EACH(struct gyre_operation, operation, &loop->operations, node) operation->complete = NULL;
}

void gyre_loop_end_operations(struct gyre_loop *loop) {
  int64_t limit_ns = UNAWAITED_END_NS;
  GYRE_EACH(struct gyre_operation, operation, &loop->operations, node) {
    if (operation->complete) limit_ns = END_NS;
    loop->backend->cancel(loop->backend_state, operation);
  }
  int64_t now_ns = gyre_timers_now(), deadline_ns = now_ns + limit_ns;
  while (!gyre_list_empty(&loop->operations) && now_ns < deadline_ns) {
    struct gyre_event events[16];
    int count = loop->backend->wait(loop->backend_state, events, 16, deadline_ns - now_ns);
    if (count < 0) break;
    for (int i = 0; i < count; i++) {
      if (events[i].fd == GYRE_OPERATION_ENDED) gyre_operation_complete(events[i].operation);
    }
    now_ns = gyre_timers_now();
  }
  while (!gyre_list_empty(&loop->operations)) {
    struct gyre_operation *operation = GYRE_CONTAINER(loop->operations.next, struct gyre_operation, node);
    operation->lost = true;
    operation->result = -EIO;
    gyre_operation_complete(operation);
  }
}
