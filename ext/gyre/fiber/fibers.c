/* Parks and wakes fibers, and keeps the ready queue (scheduler.h). Any thread with the GVL may call
 * gyre_wake. */
#include "fiber/fibers.h"

void gyre_fibers_wake_loop(struct gyre_scheduler *scheduler) {
  if (scheduler->loop.waiting) gyre_loop_wake(&scheduler->loop);
}

static void forget_waits(struct gyre_scheduler *scheduler) {
  gyre_list_init(&scheduler->waits.parked);
  gyre_list_init(&scheduler->waits.ready);
  gyre_list_init(&scheduler->waits.foreign);
  gyre_list_init(&scheduler->posts);
  gyre_list_init(&scheduler->due_posts);
  scheduler->waits.parked_count = scheduler->waits.ready_count = 0;
  scheduler->drivers = (struct gyre_drivers){.fiber = Qnil};
  scheduler->running.question = NULL;
  gyre_budget_refill(scheduler);
}

/* Allocates nothing: an allocation may start the collector, which marks the scheduler. */
void gyre_fibers_init(struct gyre_scheduler *scheduler) {
  forget_waits(scheduler);
  scheduler->thread = Qnil;
  gyre_workers_init(scheduler);
  gyre_interrupts_init(scheduler);
  scheduler->running.entered = Qnil;
  scheduler->running.worker = NULL;
}

/* If the scheduler's thread has ended, or exists only in the parent of a fork, this thread takes
 * over the scheduler, but not its pooled fibers. */
void gyre_thread_check(struct gyre_scheduler *scheduler) {
  VALUE thread = rb_thread_current();
  if (scheduler->thread == thread) return;
  if (!NIL_P(scheduler->thread) && RTEST(rb_funcall(scheduler->thread, rb_intern("alive?"), 0)))
    rb_raise(rb_eThreadError,
             "this scheduler's fibers belong to another thread, and the present one cannot wait on it");
  if (!NIL_P(scheduler->thread)) {
    scheduler->running.worker = NULL;
    scheduler->running.entered = Qnil;
    gyre_sight_leave(&scheduler->sight);
    gyre_workers_forked(scheduler);
  }
  scheduler->thread = thread;
}

void gyre_post(struct gyre_scheduler *scheduler, struct gyre_post *post) {
  if (!gyre_list_empty(&post->node)) return;
  gyre_list_append(&scheduler->posts, &post->node);
  gyre_loop_wake(&scheduler->loop);
}

/* Lists a foreign (not pooled) fiber, so that the collector marks it. */
void gyre_parked_mark(struct gyre_scheduler *scheduler, struct gyre_parked *parked, bool foreign) {
  parked->foreign = foreign;
  if (foreign) gyre_list_append(&scheduler->waits.foreign, &parked->foreign_node);
}

void gyre_entered(struct gyre_scheduler *scheduler, const struct gyre_parked *parked) {
  scheduler->running.entered = parked->entered;
  scheduler->running.worker = parked->worker;
  gyre_sight_switch(&scheduler->sight, gyre_sight_of(scheduler, parked->worker));
}

void gyre_park_begin(struct gyre_scheduler *scheduler, struct gyre_parked *parked, VALUE blocker) {
  parked->scheduler = scheduler;
  parked->blocker = blocker;
  parked->fiber = rb_fiber_current();
  /* The scheduler enters fibers only in its own thread, so these need no check. */
  if (__builtin_expect(parked->fiber != scheduler->running.entered, 0)) gyre_thread_check(scheduler);
  parked->entered = NIL_P(scheduler->running.entered) ? parked->fiber : scheduler->running.entered;
  parked->worker = scheduler->running.worker;
  parked->interrupt = NULL;
  if (parked->worker) {
    parked->outer = parked->worker->parked;
    parked->worker->parked = parked;
  }
  gyre_parked_mark(scheduler, parked, !(parked->worker && parked->entered == parked->fiber));
  parked->state = GYRE_PARKED;
  gyre_list_append(&scheduler->waits.parked, &parked->node);
  scheduler->waits.parked_count++;
  if (__builtin_expect(!gyre_list_empty(&scheduler->interrupts.held), 0)) gyre_interrupts_release(scheduler, parked);
}

void gyre_parked_leave(struct gyre_scheduler *scheduler, struct gyre_parked *parked, enum gyre_parked_state state) {
  if (parked->state == GYRE_PARKED) scheduler->waits.parked_count--;
  if (parked->state == GYRE_READY) scheduler->waits.ready_count--;
  gyre_list_remove(&parked->node);
  if (state == GYRE_RUNNING && parked->foreign) gyre_list_remove(&parked->foreign_node);
  parked->state = state;
}

void gyre_park_end(struct gyre_parked *parked) {
  struct gyre_scheduler *scheduler = parked->scheduler;
  gyre_parked_leave(scheduler, parked, GYRE_RUNNING);
  gyre_entered(scheduler, parked); /* Fiber#raise may have entered the fiber without this note */
  if (parked->worker && parked->worker->parked == parked) parked->worker->parked = parked->outer;
  if (__builtin_expect(parked->interrupt != NULL, 0)) gyre_interrupt_return(scheduler, parked);
}

void gyre_parked_make_ready(struct gyre_scheduler *scheduler, struct gyre_parked *parked, bool first) {
  gyre_parked_leave(scheduler, parked, GYRE_READY);
  parked->first = first;
  if (first) {
    gyre_list_prepend(&scheduler->waits.ready, &parked->node);
  } else {
    gyre_list_append(&scheduler->waits.ready, &parked->node);
  }
  scheduler->waits.ready_count++;
}

void gyre_wake(struct gyre_scheduler *scheduler, struct gyre_parked *parked) {
  if (parked->state != GYRE_PARKED) return;
  gyre_parked_make_ready(scheduler, parked, false);
  gyre_fibers_wake_loop(scheduler);
}

/* Draws a ready fiber at random (xorshift64*), unless the queue's head is marked `first`. */
static struct gyre_parked *draw(struct gyre_scheduler *scheduler) {
  struct gyre_list *node = scheduler->waits.ready.next;
  if (scheduler->waits.ready_count < 2 || GYRE_CONTAINER(node, struct gyre_parked, node)->first)
    return GYRE_CONTAINER(node, struct gyre_parked, node);
  scheduler->slice.random ^= scheduler->slice.random >> 12;
  scheduler->slice.random ^= scheduler->slice.random << 25;
  scheduler->slice.random ^= scheduler->slice.random >> 27;
  uint64_t place = ((scheduler->slice.random * UINT64_C(2685821657736338717)) >> 33) % scheduler->waits.ready_count;
  while (place--) node = node->next;
  return GYRE_CONTAINER(node, struct gyre_parked, node);
}

/* Takes the next ready fiber from the queue; nil if there is none. */
VALUE gyre_ready_take(struct gyre_scheduler *scheduler) {
  if (gyre_list_empty(&scheduler->waits.ready)) return Qnil;
  struct gyre_parked *parked = GYRE_CONTAINER(scheduler->waits.ready.next, struct gyre_parked, node);
  if (__builtin_expect(scheduler->slice.random != 0, 0)) parked = draw(scheduler);
  gyre_parked_leave(scheduler, parked, GYRE_RUNNING);
  scheduler->slice.switches++;
  gyre_entered(scheduler, parked);
  return parked->fiber;
}

/* The budget is spent after GYRE_READY_BUDGET switches, or when the coarse clock has ticked. Reads
 * the clock every few switches. */
bool gyre_budget_is_spent(struct gyre_scheduler *scheduler) {
  if (scheduler->slice.budget % GYRE_CLOCK_INTERVAL) return false;
  if (scheduler->slice.budget && !scheduler->slice.random && gyre_timers_coarse_now() != scheduler->slice.began_ns)
    scheduler->slice.budget = 0;
  return scheduler->slice.budget == 0;
}

void gyre_budget_refill(struct gyre_scheduler *scheduler) {
  scheduler->slice.budget = GYRE_READY_BUDGET;
  scheduler->slice.began_ns = gyre_timers_coarse_now();
}

VALUE gyre_ready_next(struct gyre_scheduler *scheduler) {
  if (!gyre_budget_is_spent(scheduler) && gyre_list_empty(&scheduler->interrupts.due)) {
    VALUE fiber = gyre_ready_take(scheduler);
    if (!NIL_P(fiber)) {
      scheduler->slice.budget--;
      return fiber;
    }
  }
  return scheduler->drivers.fiber;
}

bool gyre_parked_is_running(struct gyre_scheduler *scheduler, struct gyre_driving *driving) {
  return ((struct gyre_parked *)driving->context)->state == GYRE_RUNNING;
}

static VALUE answer_body(VALUE block) { return rb_proc_call_with_block(block, 0, NULL, Qnil); }

/* Runs the question's block. An exception (such as Interrupt) goes to the asking fiber. */
static void answer(struct gyre_scheduler *scheduler) {
  struct gyre_question *question = scheduler->running.question;
  int state = 0;
  scheduler->running.question = NULL;
  VALUE before = rb_errinfo();
  question->answer = rb_protect(answer_body, question->block, &state);
  if (state) {
    question->error = rb_errinfo();
    rb_set_errinfo(before);
  }
  gyre_transfer(question->asker);
}

VALUE gyre_transfer(VALUE fiber) {
  VALUE value = rb_fiber_transfer(fiber, 0, NULL);
  RB_GC_GUARD(fiber);
  return value;
}

void gyre_enter(struct gyre_scheduler *scheduler, VALUE fiber) {
  gyre_transfer(fiber);
  while (__builtin_expect(scheduler->running.question != NULL, 0)) answer(scheduler);
}

void gyre_park(struct gyre_parked *parked) {
  struct gyre_scheduler *scheduler = parked->scheduler;
  /* Parks again if a transfer entered the fiber before it was woken. */
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

static VALUE park_body(VALUE parked) {
  gyre_park((struct gyre_parked *)parked);
  return Qnil;
}

VALUE gyre_park_ensure(VALUE parked) {
  gyre_park_end((struct gyre_parked *)parked);
  return Qnil;
}

void gyre_yield(struct gyre_scheduler *scheduler) {
  struct gyre_parked parked;
  gyre_park_begin(scheduler, &parked, Qundef);
  gyre_parked_make_ready(scheduler, &parked, false);
  rb_ensure(park_body, (VALUE)&parked, gyre_park_ensure, (VALUE)&parked);
}

void gyre_yield_if_due(struct gyre_scheduler *scheduler) {
  if (!gyre_slice_is_over(scheduler)) return;
  scheduler->slice.budget = 0;
  gyre_yield(scheduler);
}

/* Pins fibers, because tables and C stacks have their addresses. The other objects of a wait are on
 * the stack of its fiber. */
void gyre_fibers_mark(struct gyre_scheduler *scheduler) {
  GYRE_MARK(scheduler->thread, scheduler->drivers.fiber);
  gyre_sight_mark(&scheduler->sight);
  GYRE_EACH(struct gyre_parked, parked, &scheduler->waits.foreign, foreign_node) rb_gc_mark(parked->fiber);
  gyre_workers_mark(scheduler);
  gyre_interrupts_mark(scheduler);
}

/* Makes the forked child continue only the forking fiber. */
void gyre_fibers_forked(struct gyre_scheduler *scheduler) {
  for (struct gyre_driving *driving = scheduler->drivers.newest, *before; driving; driving = before) {
    before = driving->before;
    driving->before = NULL;
    driving->parked.foreign = false;
    driving->parked.interrupt = NULL;
    driving->parked.state = GYRE_RUNNING;
    gyre_list_init(&driving->parked.node);
  }
  forget_waits(scheduler);
  gyre_interrupts_forked(scheduler);
  gyre_workers_forked(scheduler);
  gyre_sight_forked(scheduler);
}
