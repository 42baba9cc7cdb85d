/*
 * How fibers wait: park and wake, and the queue of ready ones (see scheduler.h). Everything here runs
 * with the GVL; gyre_wake may be called by any thread that holds it.
 */
#include "fibers.h"

void gyre_fibers_wake_loop(struct gyre_scheduler *scheduler) {
  if (scheduler->loop.waiting) gyre_loop_wake(&scheduler->loop);
}

void gyre_init_fibers(void) {
  gyre_init_workers();
  gyre_init_interrupts();
}

/* Allocates nothing: the scheduler may be marked from its first moment on. */
void gyre_fibers_init(struct gyre_scheduler *scheduler) {
  gyre_list_init(&scheduler->parked);
  gyre_list_init(&scheduler->ready);
  scheduler->parked_count = scheduler->ready_count = 0;
  gyre_workers_init(scheduler);
  gyre_interrupts_init(scheduler);
  scheduler->driving = NULL;
  scheduler->overtaken_count = 0;
  scheduler->driver = scheduler->entered = Qnil;
  gyre_budget_refill(scheduler);
}

/* --- parking --- */

void gyre_park_begin(struct gyre_scheduler *scheduler, struct gyre_parked *parked) {
  parked->fiber = rb_fiber_current();
  parked->entered = NIL_P(scheduler->entered) ? parked->fiber : scheduler->entered;
  parked->state = GYRE_PARKED;
  gyre_list_append(&scheduler->parked, &parked->node);
  scheduler->parked_count++;
}

void gyre_parked_leave(struct gyre_scheduler *scheduler, struct gyre_parked *parked, enum gyre_parked_state state) {
  if (parked->state == GYRE_PARKED) scheduler->parked_count--;
  if (parked->state == GYRE_READY) scheduler->ready_count--;
  gyre_list_remove(&parked->node);
  parked->state = state;
}

void gyre_park_end(struct gyre_scheduler *scheduler, struct gyre_parked *parked) {
  gyre_parked_leave(scheduler, parked, GYRE_RUNNING);
}

void gyre_parked_make_ready(struct gyre_scheduler *scheduler, struct gyre_parked *parked, bool first) {
  gyre_parked_leave(scheduler, parked, GYRE_READY);
  if (first) {
    gyre_list_prepend(&scheduler->ready, &parked->node);
  } else {
    gyre_list_append(&scheduler->ready, &parked->node);
  }
  scheduler->ready_count++;
}

void gyre_wake(struct gyre_scheduler *scheduler, struct gyre_parked *parked) {
  if (parked->state != GYRE_PARKED) return;
  gyre_parked_make_ready(scheduler, parked, false);
  gyre_fibers_wake_loop(scheduler);
}

/* Takes the next ready fiber off the queue, or returns nil. */
VALUE gyre_ready_take(struct gyre_scheduler *scheduler) {
  if (gyre_list_empty(&scheduler->ready)) return Qnil;
  struct gyre_parked *parked = GYRE_CONTAINER(scheduler->ready.next, struct gyre_parked, node);
  gyre_parked_leave(scheduler, parked, GYRE_RUNNING);
  scheduler->switches++;
  scheduler->entered = parked->entered;
  return parked->fiber;
}

/* Whether it is time to ask the kernel: after so many switches, or when the coarse clock has ticked. */
bool gyre_budget_is_spent(struct gyre_scheduler *scheduler) {
  if (scheduler->budget == 0) return true;
  if (gyre_timers_coarse_now() != scheduler->slice_ns) scheduler->budget = 0;
  return scheduler->budget == 0;
}

void gyre_budget_refill(struct gyre_scheduler *scheduler) {
  scheduler->budget = GYRE_READY_BUDGET;
  scheduler->slice_ns = gyre_timers_coarse_now();
}

/* Where a fiber that stops running goes: the next ready one while the budget lasts, else the driver; nil
 * when nobody drives the loop, and it has to be asked. */
VALUE gyre_ready_next(struct gyre_scheduler *scheduler) {
  if (!gyre_budget_is_spent(scheduler) && gyre_list_empty(&scheduler->interrupts)) {
    VALUE fiber = gyre_ready_take(scheduler);
    if (!NIL_P(fiber)) {
      scheduler->budget--;
      return fiber;
    }
  }
  return scheduler->driver;
}

bool gyre_parked_is_running(struct gyre_scheduler *scheduler, struct gyre_driving *driving) {
  (void)scheduler;
  return ((struct gyre_parked *)driving->context)->state == GYRE_RUNNING;
}

void gyre_park(struct gyre_scheduler *scheduler, struct gyre_parked *parked) {
  /* Again when somebody else's transfer entered the fiber before it was woken. */
  while (parked->state != GYRE_RUNNING) {
    VALUE next = gyre_ready_next(scheduler);
    if (parked->state == GYRE_RUNNING) break;
    if (NIL_P(next) || next == parked->fiber) {
      gyre_drive(scheduler, gyre_parked_is_running, parked);
    } else {
      rb_fiber_transfer(next, 0, NULL);
    }
  }
}

struct yielding {
  struct gyre_scheduler *scheduler;
  struct gyre_parked parked;
};

static VALUE park_body(VALUE argument) {
  struct yielding *yielding = (struct yielding *)argument;
  gyre_park(yielding->scheduler, &yielding->parked);
  return Qnil;
}

static VALUE park_ensure(VALUE argument) {
  struct yielding *yielding = (struct yielding *)argument;
  gyre_park_end(yielding->scheduler, &yielding->parked);
  return Qnil;
}

void gyre_yield(struct gyre_scheduler *scheduler) {
  struct yielding yielding = {.scheduler = scheduler};
  gyre_park_begin(scheduler, &yielding.parked);
  gyre_parked_make_ready(scheduler, &yielding.parked, false);
  rb_ensure(park_body, (VALUE)&yielding, park_ensure, (VALUE)&yielding);
}

/* --- memory --- */

static void mark_parked(struct gyre_list *list) {
  for (struct gyre_list *node = list->next; node != list; node = node->next) {
    rb_gc_mark(GYRE_CONTAINER(node, struct gyre_parked, node)->fiber);
  }
}

/* Everything is pinned: the addresses of fibers are keys and stand on C stacks. */
void gyre_fibers_mark(struct gyre_scheduler *scheduler) {
  rb_gc_mark(scheduler->driver);
  mark_parked(&scheduler->parked);
  mark_parked(&scheduler->ready);
  gyre_workers_mark(scheduler);
  gyre_interrupts_mark(scheduler);
}

void gyre_fibers_free(struct gyre_scheduler *scheduler) {
  gyre_workers_free(scheduler);
  gyre_interrupts_free(scheduler);
}

/* In a forked child only the fiber that forked goes on: forget all others. */
void gyre_fibers_forked(struct gyre_scheduler *scheduler) {
  gyre_list_init(&scheduler->parked);
  gyre_list_init(&scheduler->ready);
  scheduler->parked_count = scheduler->ready_count = 0;
  gyre_interrupts_forked(scheduler);
  gyre_workers_forked(scheduler);
  scheduler->driving = NULL;
  scheduler->overtaken_count = 0;
  scheduler->driver = scheduler->entered = Qnil;
  gyre_budget_refill(scheduler);
}

size_t gyre_fibers_memory(const struct gyre_scheduler *scheduler) {
  return (scheduler->busy_count + scheduler->idle_count) * sizeof(struct gyre_worker);
}
