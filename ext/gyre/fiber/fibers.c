/*
 * How fibers wait: park and wake, and the queue of ready ones (see scheduler.h). Everything here
 * runs with the GVL; gyre_wake may be called by any thread that holds it.
 */
#include "fiber/fibers.h"

void gyre_fibers_wake_loop(struct gyre_scheduler *scheduler) {
  if (scheduler->loop.waiting) gyre_loop_wake(&scheduler->loop);
}

void gyre_init_fibers(void) {
  gyre_init_workers();
  gyre_init_interrupts();
}

static void forget_parked(struct gyre_scheduler *scheduler) {
  gyre_list_init(&scheduler->parked);
  gyre_list_init(&scheduler->ready);
  gyre_list_init(&scheduler->foreign);
  gyre_list_init(&scheduler->posts);
  scheduler->parked_count = scheduler->ready_count = 0;
}

/* Allocates nothing: the scheduler may be marked from its first moment on. */
void gyre_fibers_init(struct gyre_scheduler *scheduler) {
  forget_parked(scheduler);
  scheduler->thread = Qnil;
  gyre_workers_init(scheduler);
  gyre_interrupts_init(scheduler);
  scheduler->driving = NULL;
  scheduler->overtaken_count = 0;
  scheduler->driver = scheduler->entered = Qnil;
  scheduler->worker = NULL;
  scheduler->question = NULL;
  gyre_budget_refill(scheduler);
}

/* --- threads --- */

/* A scheduler of a thread that has ended, or was left behind by a fork, may be taken over, but not
 * the fibers of its pool. */
void gyre_thread_check(struct gyre_scheduler *scheduler) {
  VALUE thread = rb_thread_current();
  if (scheduler->thread == thread) return;
  if (!NIL_P(scheduler->thread) && RTEST(rb_funcall(scheduler->thread, rb_intern("alive?"), 0)))
    rb_raise(rb_eThreadError,
             "this scheduler's fibers belong to another thread, and the present one cannot wait on it");
  if (!NIL_P(scheduler->thread)) {
    scheduler->worker = NULL;
    scheduler->entered = Qnil;
    gyre_workers_forked(scheduler);
  }
  scheduler->thread = thread;
}

void gyre_post(struct gyre_scheduler *scheduler, struct gyre_post *post) {
  if (!gyre_list_empty(&post->node)) return;
  gyre_list_append(&scheduler->posts, &post->node);
  gyre_loop_wake(&scheduler->loop);
}

/* --- parking --- */

/* Whether it has to be marked while it is in a list. */
void gyre_parked_mark(struct gyre_scheduler *scheduler, struct gyre_parked *parked, bool foreign) {
  parked->foreign = foreign;
  if (foreign) gyre_list_append(&scheduler->foreign, &parked->foreign_node);
}

void gyre_entered(struct gyre_scheduler *scheduler, const struct gyre_parked *parked) {
  scheduler->entered = parked->entered;
  scheduler->worker = parked->worker;
}

void gyre_park_begin(struct gyre_scheduler *scheduler, struct gyre_parked *parked, VALUE blocker) {
  parked->blocker = blocker;
  parked->fiber = rb_fiber_current();
  /* A fiber that was entered from here is in the right thread. */
  if (__builtin_expect(parked->fiber != scheduler->entered, 0)) gyre_thread_check(scheduler);
  parked->entered = NIL_P(scheduler->entered) ? parked->fiber : scheduler->entered;
  parked->worker = scheduler->worker;
  parked->interrupt = NULL;
  if (parked->worker) {
    parked->outer = parked->worker->parked;
    parked->worker->parked = parked;
  }
  gyre_parked_mark(scheduler, parked, !(parked->worker && parked->entered == parked->fiber));
  parked->state = GYRE_PARKED;
  gyre_list_append(&scheduler->parked, &parked->node);
  scheduler->parked_count++;
  if (__builtin_expect(!gyre_list_empty(&scheduler->held), 0)) gyre_interrupts_release(scheduler, parked);
}

void gyre_parked_leave(struct gyre_scheduler *scheduler, struct gyre_parked *parked, enum gyre_parked_state state) {
  if (parked->state == GYRE_PARKED) scheduler->parked_count--;
  if (parked->state == GYRE_READY) scheduler->ready_count--;
  gyre_list_remove(&parked->node);
  if (state == GYRE_RUNNING && parked->foreign) gyre_list_remove(&parked->foreign_node);
  parked->state = state;
}

void gyre_park_end(struct gyre_scheduler *scheduler, struct gyre_parked *parked) {
  gyre_parked_leave(scheduler, parked, GYRE_RUNNING);
  gyre_entered(scheduler, parked); /* also when an exception entered it */
  if (parked->worker && parked->worker->parked == parked) parked->worker->parked = parked->outer;
  if (__builtin_expect(parked->interrupt != NULL, 0)) gyre_interrupt_return(scheduler, parked);
}

void gyre_parked_make_ready(struct gyre_scheduler *scheduler, struct gyre_parked *parked, bool first) {
  gyre_parked_leave(scheduler, parked, GYRE_READY);
  parked->first = first;
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

/* Any of the ready ones, by the seed (xorshift64*). A fiber that has just started another goes on
 * before all others, seed or not. */
static struct gyre_parked *draw(struct gyre_scheduler *scheduler) {
  struct gyre_list *node = scheduler->ready.next;
  if (scheduler->ready_count < 2 || GYRE_CONTAINER(node, struct gyre_parked, node)->first)
    return GYRE_CONTAINER(node, struct gyre_parked, node);
  scheduler->random ^= scheduler->random >> 12;
  scheduler->random ^= scheduler->random << 25;
  scheduler->random ^= scheduler->random >> 27;
  uint64_t place = ((scheduler->random * UINT64_C(2685821657736338717)) >> 33) % scheduler->ready_count;
  while (place--) node = node->next;
  return GYRE_CONTAINER(node, struct gyre_parked, node);
}

/* Takes the next ready fiber off the queue, or returns nil. */
VALUE gyre_ready_take(struct gyre_scheduler *scheduler) {
  if (gyre_list_empty(&scheduler->ready)) return Qnil;
  struct gyre_parked *parked = GYRE_CONTAINER(scheduler->ready.next, struct gyre_parked, node);
  if (__builtin_expect(scheduler->random != 0, 0)) parked = draw(scheduler);
  gyre_parked_leave(scheduler, parked, GYRE_RUNNING);
  scheduler->switches++;
  gyre_entered(scheduler, parked);
  return parked->fiber;
}

/* Whether it is time to ask the kernel: after so many switches, or when the coarse clock has
 * ticked, which is looked at now and then. */
bool gyre_budget_is_spent(struct gyre_scheduler *scheduler) {
  if (scheduler->budget % GYRE_CLOCK_INTERVAL) return false;
  if (scheduler->budget && !scheduler->random && gyre_timers_coarse_now() != scheduler->slice_ns) scheduler->budget = 0;
  return scheduler->budget == 0;
}

void gyre_budget_refill(struct gyre_scheduler *scheduler) {
  scheduler->budget = GYRE_READY_BUDGET;
  scheduler->slice_ns = gyre_timers_coarse_now();
}

/* Where a fiber that stops running goes: the next ready one while the budget lasts, else the
 * driver; nil when no fiber drives the loop, and it has to be asked. */
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

static VALUE answer_body(VALUE block) { return rb_proc_call_with_block(block, 0, NULL, Qnil); }

/* What it raises (an Interrupt, perhaps) is not for this fiber, but for the one that asks. */
static void answer(struct gyre_scheduler *scheduler) {
  struct gyre_question *question = scheduler->question;
  int state = 0;
  scheduler->question = NULL;
  VALUE before = rb_errinfo();
  question->answer = rb_protect(answer_body, question->block, &state);
  if (state) {
    question->error = rb_errinfo();
    rb_set_errinfo(before);
  }
  rb_fiber_transfer(question->asker, 0, NULL);
}

void gyre_enter(struct gyre_scheduler *scheduler, VALUE fiber) {
  rb_fiber_transfer(fiber, 0, NULL);
  while (__builtin_expect(scheduler->question != NULL, 0)) answer(scheduler);
}

void gyre_park(struct gyre_scheduler *scheduler, struct gyre_parked *parked) {
  /* Again when another transfer entered the fiber before it was woken. */
  while (parked->state != GYRE_RUNNING) {
    VALUE next = gyre_ready_next(scheduler);
    if (parked->state == GYRE_RUNNING) break;
    if (NIL_P(next) || next == parked->fiber) {
      gyre_drive(scheduler, gyre_parked_is_running, parked);
    } else {
      gyre_enter(scheduler, next);
    }
  }
  if (__builtin_expect(parked->interrupt != NULL, 0)) gyre_interrupt_raise(parked);
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
  gyre_park_begin(scheduler, &yielding.parked, Qundef);
  gyre_parked_make_ready(scheduler, &yielding.parked, false);
  rb_ensure(park_body, (VALUE)&yielding, park_ensure, (VALUE)&yielding);
}

void gyre_yield_if_due(struct gyre_scheduler *scheduler) {
  if (!gyre_slice_is_over(scheduler)) return;
  scheduler->budget = 0;
  gyre_yield(scheduler);
}

/* --- memory --- */

/* What else a wait holds stands on its fiber's stack. */
static void mark_foreign(struct gyre_scheduler *scheduler) {
  for (struct gyre_list *node = scheduler->foreign.next; node != &scheduler->foreign; node = node->next) {
    rb_gc_mark(GYRE_CONTAINER(node, struct gyre_parked, foreign_node)->fiber);
  }
}

/* Everything is pinned: the addresses of fibers are keys and stand on C stacks. */
void gyre_fibers_mark(struct gyre_scheduler *scheduler) {
  rb_gc_mark(scheduler->thread);
  rb_gc_mark(scheduler->driver);
  mark_foreign(scheduler);
  gyre_workers_mark(scheduler);
  gyre_interrupts_mark(scheduler);
}

void gyre_fibers_free(struct gyre_scheduler *scheduler) {
  gyre_workers_free(scheduler);
  gyre_interrupts_free(scheduler);
}

/* In a forked child only the fiber that forked goes on: all others are dropped. */
void gyre_fibers_forked(struct gyre_scheduler *scheduler) {
  forget_parked(scheduler);
  gyre_interrupts_forked(scheduler);
  gyre_workers_forked(scheduler);
  for (struct gyre_driving *driving = scheduler->driving, *before; driving; driving = before) {
    before = driving->before;
    driving->before = NULL;
    driving->parked.foreign = false;
    driving->parked.interrupt = NULL;
    driving->parked.state = GYRE_RUNNING;
    gyre_list_init(&driving->parked.node);
  }
  scheduler->driving = NULL;
  scheduler->overtaken_count = 0;
  scheduler->driver = Qnil;
  scheduler->question = NULL;
  gyre_budget_refill(scheduler);
}

size_t gyre_fibers_memory(const struct gyre_scheduler *scheduler) {
  return (scheduler->busy_count + scheduler->idle_count) * sizeof(struct gyre_worker);
}
