/*
 * Exceptions for other fibers: fiber_interrupt, timeouts, the end of the scheduler. They are queued, from
 * any thread that holds the GVL, and raised by whoever drives the loop, in the turn's beginning.
 */
#include "fibers.h"

#include <stdlib.h>

#define INTERRUPT_RETRY_NS 1000000

static VALUE fiber_error;

void gyre_init_interrupts(void) {
  fiber_error = rb_const_get(rb_cObject, rb_intern("FiberError"));
  rb_gc_register_mark_object(fiber_error);
}

void gyre_interrupts_init(struct gyre_scheduler *scheduler) {
  gyre_list_init(&scheduler->interrupts);
  gyre_list_init(&scheduler->deferred);
  gyre_list_init(&scheduler->postponed);
}

struct gyre_interrupt *gyre_interrupt_fiber(struct gyre_scheduler *scheduler, VALUE fiber, VALUE exception) {
  /* Its job has ended: the exception comes to nobody, not to the pool and not to the next job. */
  if (gyre_worker_is_idle(scheduler, fiber)) return NULL;
  struct gyre_interrupt *interrupt = calloc(1, sizeof(*interrupt));
  if (!interrupt) rb_memerror();
  interrupt->fiber = fiber;
  interrupt->exception = exception;
  gyre_list_append(&scheduler->interrupts, &interrupt->node);
  gyre_fibers_wake_loop(scheduler);
  return interrupt;
}

void gyre_interrupt_cancel(struct gyre_scheduler *scheduler, struct gyre_interrupt *interrupt) {
  if (interrupt->delivering) { /* further down the stack, which frees it */
    interrupt->owner = NULL;
    return;
  }
  gyre_list_remove(&interrupt->node);
  gyre_timers_cancel(&scheduler->loop.timers, &interrupt->retry);
  free(interrupt);
}

static VALUE raise_in_body(VALUE argument) {
  const VALUE *pair = (const VALUE *)argument;
  return rb_fiber_raise(pair[0], 1, &pair[1]);
}

/* Raises the exception in a fiber; what comes out here is the tag of another one, or 0. */
static int raise_in(struct gyre_interrupt *interrupt, VALUE fiber) {
  VALUE pair[] = {fiber, interrupt->exception};
  int state = 0;
  if (fiber == rb_fiber_current()) { /* it drives, and waits itself */
    if (interrupt->owner) *interrupt->owner = NULL;
    free(interrupt);
    rb_exc_raise(pair[1]);
  }
  if (RTEST(rb_fiber_alive_p(fiber))) rb_protect(raise_in_body, (VALUE)pair, &state);
  RB_GC_GUARD(pair[0]);
  RB_GC_GUARD(pair[1]);
  return state;
}

/* Whether Ruby would not raise in that fiber. */
static bool is_refused(int state, VALUE fiber) {
  if (!state || !rb_obj_is_kind_of(rb_errinfo(), fiber_error) || !RTEST(rb_fiber_alive_p(fiber))) return false;
  rb_set_errinfo(Qnil);
  return true;
}

static void retry_interrupt(struct gyre_timer *timer, void *context) {
  struct gyre_interrupt *interrupt = GYRE_CONTAINER(timer, struct gyre_interrupt, retry);
  gyre_list_remove(&interrupt->node);
  gyre_list_append(&gyre_scheduler_of(context)->interrupts, &interrupt->node);
}

/* Ruby 3.1 and 3.2 cannot raise into a fiber that is resuming another one; so the exception goes to
 * the inner one, which waits in the outer one's name. */
static VALUE inner_fiber(struct gyre_scheduler *scheduler, VALUE outer) {
  struct gyre_list *lists[] = {&scheduler->parked, &scheduler->ready};
  for (int i = 0; i < 2; i++) {
    for (struct gyre_list *node = lists[i]->next; node != lists[i]; node = node->next) {
      struct gyre_parked *parked = GYRE_CONTAINER(node, struct gyre_parked, node);
      if (parked->entered == outer && parked->fiber != outer) return parked->fiber;
    }
  }
  return Qnil;
}

/* Neither was possible: it is tried again shortly after. */
static void defer_interrupt(struct gyre_scheduler *scheduler, struct gyre_interrupt *interrupt) {
  gyre_list_append(&scheduler->deferred, &interrupt->node);
  interrupt->retry.fire = retry_interrupt;
  if (gyre_timers_arm(&scheduler->loop.timers, &interrupt->retry,
                      gyre_loop_now(&scheduler->loop) + INTERRUPT_RETRY_NS) < 0)
    rb_memerror();
}

/* A fiber that was unblocked and has not run yet has been given something (a lock, an element of a
 * queue) that would be lost if it were interrupted now: first it runs, up to its next wait. */
static bool has_been_given_something(struct gyre_scheduler *scheduler, VALUE fiber) {
  struct gyre_parked *parked = gyre_blocked(scheduler, fiber);
  return parked && parked->state == GYRE_READY;
}

/* Raises what is due in its fiber, one after the other: each may run other fibers and add or cancel some. */
void gyre_interrupts_deliver(struct gyre_scheduler *scheduler) {
  size_t due = 0;
  for (struct gyre_list *node = scheduler->interrupts.next; node != &scheduler->interrupts; node = node->next) due++;

  for (; due > 0 && !gyre_list_empty(&scheduler->interrupts); due--) {
    struct gyre_interrupt *interrupt = GYRE_CONTAINER(scheduler->interrupts.next, struct gyre_interrupt, node);
    if (has_been_given_something(scheduler, interrupt->fiber)) {
      gyre_list_remove(&interrupt->node);
      gyre_list_append(&scheduler->postponed, &interrupt->node);
      continue;
    }
    gyre_list_remove(&interrupt->node);
    interrupt->delivering = true;
    int state = raise_in(interrupt, interrupt->fiber);
    if (is_refused(state, interrupt->fiber)) {
      VALUE inner = inner_fiber(scheduler, interrupt->fiber);
      state = NIL_P(inner) ? 0 : raise_in(interrupt, inner);
      if (NIL_P(inner)) {
        interrupt->delivering = false;
        defer_interrupt(scheduler, interrupt);
        continue;
      }
    }
    if (interrupt->owner) *interrupt->owner = NULL;
    free(interrupt);
    if (state) rb_jump_tag(state);
  }
}

static void drop_interrupts(struct gyre_scheduler *scheduler, struct gyre_list *list, VALUE fiber) {
  for (struct gyre_list *node = list->next, *next; node != list; node = next) {
    next = node->next;
    struct gyre_interrupt *interrupt = GYRE_CONTAINER(node, struct gyre_interrupt, node);
    if (interrupt->fiber != fiber) continue;
    if (interrupt->owner) *interrupt->owner = NULL;
    gyre_interrupt_cancel(scheduler, interrupt);
  }
}

void gyre_interrupts_drop(struct gyre_scheduler *scheduler, VALUE fiber) {
  drop_interrupts(scheduler, &scheduler->interrupts, fiber);
  drop_interrupts(scheduler, &scheduler->deferred, fiber);
  drop_interrupts(scheduler, &scheduler->postponed, fiber);
}

void gyre_interrupts_resume(struct gyre_scheduler *scheduler) {
  while (!gyre_list_empty(&scheduler->postponed)) {
    struct gyre_list *node = scheduler->postponed.next;
    gyre_list_remove(node);
    gyre_list_append(&scheduler->interrupts, node);
  }
}

/* In a forked child: most of their fibers are gone. */
static void forget_interrupts(struct gyre_scheduler *scheduler, struct gyre_list *list) {
  while (!gyre_list_empty(list)) {
    struct gyre_interrupt *interrupt = GYRE_CONTAINER(list->next, struct gyre_interrupt, node);
    if (interrupt->owner) *interrupt->owner = NULL;
    gyre_interrupt_cancel(scheduler, interrupt);
  }
}

void gyre_interrupts_forked(struct gyre_scheduler *scheduler) {
  forget_interrupts(scheduler, &scheduler->interrupts);
  forget_interrupts(scheduler, &scheduler->deferred);
  forget_interrupts(scheduler, &scheduler->postponed);
}

/* --- memory --- */

static void mark_interrupts(struct gyre_list *list) {
  for (struct gyre_list *node = list->next; node != list; node = node->next) {
    struct gyre_interrupt *interrupt = GYRE_CONTAINER(node, struct gyre_interrupt, node);
    rb_gc_mark(interrupt->fiber);
    rb_gc_mark(interrupt->exception);
  }
}

void gyre_interrupts_mark(struct gyre_scheduler *scheduler) {
  mark_interrupts(&scheduler->interrupts);
  mark_interrupts(&scheduler->deferred);
  mark_interrupts(&scheduler->postponed);
}

static void free_interrupts(struct gyre_list *list) {
  while (!gyre_list_empty(list)) {
    struct gyre_interrupt *interrupt = GYRE_CONTAINER(list->next, struct gyre_interrupt, node);
    gyre_list_remove(&interrupt->node);
    free(interrupt);
  }
}

void gyre_interrupts_free(struct gyre_scheduler *scheduler) {
  free_interrupts(&scheduler->interrupts);
  free_interrupts(&scheduler->deferred);
  free_interrupts(&scheduler->postponed);
}
