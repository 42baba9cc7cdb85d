/*
 * How fibers move: park and wake, the queue of ready ones, the pool of finished ones, and the turns
 * of whoever drives the loop (see scheduler.h). Everything here runs with the GVL; gyre_wake and
 * gyre_interrupt_fiber may be called by any thread that holds it.
 */
#include "scheduler.h"

#include <stdlib.h>

#define INTERRUPT_RETRY_NS 1000000

static ID id_report, id_keys, id_new, id_storage, id_aref, id_aset;
static VALUE fiber_options, fiber_class, fiber_error;

static void wake_loop(struct gyre_scheduler *scheduler) {
  if (scheduler->loop.waiting) gyre_loop_wake(&scheduler->loop);
}

void gyre_fibers_init(struct gyre_scheduler *scheduler) {
  if (!id_report) {
    id_report = rb_intern("report");
    id_keys = rb_intern("keys");
    id_new = rb_intern("new");
    id_storage = rb_intern("storage");
    id_aref = rb_intern("[]");
    id_aset = rb_intern("[]=");
    fiber_class = rb_const_get(rb_cObject, rb_intern("Fiber"));
    fiber_error = rb_const_get(rb_cObject, rb_intern("FiberError"));
    rb_gc_register_mark_object(fiber_class);
    rb_gc_register_mark_object(fiber_error);
    fiber_options = rb_hash_new();
    rb_hash_aset(fiber_options, ID2SYM(rb_intern("blocking")), Qfalse);
    rb_obj_freeze(fiber_options);
    rb_gc_register_mark_object(fiber_options);
  }
  gyre_list_init(&scheduler->parked);
  gyre_list_init(&scheduler->ready);
  gyre_list_init(&scheduler->interrupts);
  gyre_list_init(&scheduler->deferred);
  gyre_list_init(&scheduler->busy);
  gyre_list_init(&scheduler->idle);
  scheduler->parked_count = scheduler->ready_count = scheduler->busy_count = scheduler->idle_count = 0;
  scheduler->driver = scheduler->entered = Qnil;
  scheduler->budget = GYRE_READY_BUDGET;
  scheduler->starting = NULL;
}

/* --- parking --- */

void gyre_park_begin(struct gyre_scheduler *scheduler, struct gyre_parked *parked) {
  parked->fiber = rb_fiber_current();
  parked->entered = NIL_P(scheduler->entered) ? parked->fiber : scheduler->entered;
  parked->state = GYRE_PARKED;
  gyre_list_append(&scheduler->parked, &parked->node);
  scheduler->parked_count++;
}

static void leave_lists(struct gyre_scheduler *scheduler, struct gyre_parked *parked, enum gyre_parked_state state) {
  if (parked->state == GYRE_PARKED) scheduler->parked_count--;
  if (parked->state == GYRE_READY) scheduler->ready_count--;
  gyre_list_remove(&parked->node);
  parked->state = state;
}

void gyre_park_end(struct gyre_scheduler *scheduler, struct gyre_parked *parked) {
  leave_lists(scheduler, parked, GYRE_RUNNING);
}

static void make_ready(struct gyre_scheduler *scheduler, struct gyre_parked *parked, bool first) {
  leave_lists(scheduler, parked, GYRE_READY);
  if (first) {
    gyre_list_prepend(&scheduler->ready, &parked->node);
  } else {
    gyre_list_append(&scheduler->ready, &parked->node);
  }
  scheduler->ready_count++;
}

void gyre_wake(struct gyre_scheduler *scheduler, struct gyre_parked *parked) {
  if (parked->state != GYRE_PARKED) return;
  make_ready(scheduler, parked, false);
  wake_loop(scheduler);
}

/* Takes the next ready fiber off the queue, or returns undef. */
static VALUE take_ready(struct gyre_scheduler *scheduler) {
  if (gyre_list_empty(&scheduler->ready)) return Qundef;
  struct gyre_parked *parked = GYRE_CONTAINER(scheduler->ready.next, struct gyre_parked, node);
  leave_lists(scheduler, parked, GYRE_RUNNING);
  scheduler->entered = parked->entered;
  return parked->fiber;
}

/* Where a fiber that stops running goes: the next ready one while the budget lasts, else the driver. */
static VALUE next_fiber(struct gyre_scheduler *scheduler) {
  if (scheduler->budget > 0 && gyre_list_empty(&scheduler->interrupts)) {
    VALUE fiber = take_ready(scheduler);
    if (fiber != Qundef) {
      scheduler->budget--;
      return fiber;
    }
  }
  return scheduler->driver;
}

static bool is_running(struct gyre_scheduler *scheduler, void *parked) {
  (void)scheduler;
  return ((struct gyre_parked *)parked)->state == GYRE_RUNNING;
}

void gyre_park(struct gyre_scheduler *scheduler, struct gyre_parked *parked) {
  /* Again when somebody else's transfer entered the fiber before it was woken. */
  while (parked->state != GYRE_RUNNING) {
    VALUE next = next_fiber(scheduler);
    if (parked->state == GYRE_RUNNING) break;
    if (NIL_P(next) || next == parked->fiber) {
      gyre_drive(scheduler, is_running, parked);
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
  make_ready(scheduler, &yielding.parked, false);
  rb_ensure(park_body, (VALUE)&yielding, park_ensure, (VALUE)&yielding);
}

/* --- the pool --- */

static VALUE run_job(VALUE argument) {
  struct gyre_worker *worker = (struct gyre_worker *)argument;
  if (RB_TYPE_P(worker->storage, T_HASH) && RHASH_SIZE(worker->storage) > 0) {
    VALUE keys = rb_funcall(worker->storage, id_keys, 0);
    for (long i = 0; i < RARRAY_LEN(keys); i++) {
      VALUE key = RARRAY_AREF(keys, i);
      rb_funcall(fiber_class, id_aset, 2, key, rb_hash_aref(worker->storage, key));
    }
  }
  return worker->function(worker->argument);
}

/* Fiber-locals and fiber storage of one job must not show in the next one. */
static VALUE forget_job(VALUE argument) {
  struct gyre_scheduler *scheduler = (struct gyre_scheduler *)argument;
  VALUE thread = rb_thread_current();
  VALUE keys = rb_funcall(thread, id_keys, 0);
  for (long i = 0; i < RARRAY_LEN(keys); i++) {
    rb_thread_local_aset(thread, rb_to_id(RARRAY_AREF(keys, i)), Qnil);
  }
  if (scheduler->reset_storage) {
    VALUE storage = rb_funcall(rb_fiber_current(), id_storage, 0);
    if (RB_TYPE_P(storage, T_HASH) && RHASH_SIZE(storage) > 0) {
      keys = rb_funcall(storage, id_keys, 0);
      for (long i = 0; i < RARRAY_LEN(keys); i++) {
        rb_funcall(fiber_class, id_aset, 2, RARRAY_AREF(keys, i), Qnil);
      }
    }
  }
  return Qnil;
}

static VALUE report_error(VALUE argument) {
  struct gyre_scheduler *scheduler = (struct gyre_scheduler *)argument;
  VALUE error = rb_errinfo();
  rb_set_errinfo(Qnil);
  return rb_funcall(scheduler->self, id_report, 2, error, rb_fiber_current());
}

/* An exception to report, not one that ends the program or the thread. */
static bool reportable(void) {
  VALUE error = rb_errinfo();
  return rb_obj_is_kind_of(error, rb_eException) && !rb_obj_is_kind_of(error, rb_eSystemExit) &&
         !rb_obj_is_kind_of(error, rb_eSignal);
}

static void release(struct gyre_scheduler *scheduler, struct gyre_worker *worker) {
  gyre_list_remove(&worker->node);
  scheduler->busy_count--;
  if (scheduler->blocked) {
    st_data_t key = (st_data_t)worker->fiber;
    st_delete(scheduler->blocked, &key, NULL);
  }
}

static bool has_job(struct gyre_scheduler *scheduler, void *worker) {
  (void)scheduler;
  return ((struct gyre_worker *)worker)->function != NULL;
}

static VALUE wait_for_job(VALUE argument) {
  struct gyre_worker *worker = (struct gyre_worker *)argument;
  struct gyre_scheduler *scheduler = (struct gyre_scheduler *)worker->argument;
  while (!worker->function) {
    VALUE next = next_fiber(scheduler);
    if (NIL_P(next) || next == worker->fiber) {
      gyre_drive(scheduler, has_job, worker);
    } else {
      rb_fiber_transfer(next, 0, NULL);
    }
  }
  return Qnil;
}

static VALUE worker_main(RB_BLOCK_CALL_FUNC_ARGLIST(yielded, self)) {
  (void)yielded;
  struct gyre_scheduler *scheduler = gyre_scheduler_get(self);
  struct gyre_worker *worker = scheduler->starting;
  scheduler->starting = NULL;

  for (;;) {
    int state = 0;
    rb_protect(run_job, (VALUE)worker, &state);
    worker->function = NULL;
    worker->argument = worker->storage = Qnil;
    if (state && reportable()) {
      rb_protect(report_error, (VALUE)scheduler, &state);
      if (state && reportable()) {
        rb_set_errinfo(Qnil);
        state = 0;
      }
    }
    if (!state) rb_protect(forget_job, (VALUE)scheduler, &state);

    release(scheduler, worker);
    if (state || scheduler->idle_count >= GYRE_IDLE_WORKERS_LIMIT || scheduler->closed) {
      free(worker);
      if (state) rb_jump_tag(state);
      return Qnil;
    }
    gyre_list_prepend(&scheduler->idle, &worker->node);
    scheduler->idle_count++;

    do {
      /* An exception for the job that has ended comes too late and means nothing to the next one. */
      rb_set_errinfo(Qnil);
      worker->argument = (VALUE)scheduler;
      rb_protect(wait_for_job, (VALUE)worker, &state);
    } while (state && reportable() && !worker->function);
    if (state) {
      bool acquired = worker->function != NULL;
      gyre_list_remove(&worker->node);
      if (acquired) {
        scheduler->busy_count--;
      } else {
        scheduler->idle_count--;
      }
      free(worker);
      rb_jump_tag(state);
    }
  }
}

static struct gyre_worker *acquire(struct gyre_scheduler *scheduler) {
  while (!gyre_list_empty(&scheduler->idle)) {
    struct gyre_worker *worker = GYRE_CONTAINER(scheduler->idle.next, struct gyre_worker, node);
    gyre_list_remove(&worker->node);
    scheduler->idle_count--;
    if (RTEST(rb_fiber_alive_p(worker->fiber))) return worker;
    free(worker);
  }

  VALUE block = rb_proc_new(worker_main, scheduler->self);
  VALUE fiber = rb_funcall_with_block_kw(fiber_class, id_new, 1, &fiber_options, block, RB_PASS_KEYWORDS);
  struct gyre_worker *worker = calloc(1, sizeof(*worker));
  if (!worker) rb_memerror();
  gyre_list_init(&worker->node);
  worker->fiber = fiber;
  scheduler->starting = worker;
  return worker;
}

struct spawning {
  struct gyre_scheduler *scheduler;
  struct gyre_parked parked;
  VALUE fiber;
};

static VALUE spawn_body(VALUE argument) {
  struct spawning *spawning = (struct spawning *)argument;
  rb_fiber_transfer(spawning->fiber, 0, NULL);
  gyre_park(spawning->scheduler, &spawning->parked);
  return Qnil;
}

static VALUE spawn_ensure(VALUE argument) {
  struct spawning *spawning = (struct spawning *)argument;
  gyre_park_end(spawning->scheduler, &spawning->parked);
  return Qnil;
}

VALUE gyre_spawn(struct gyre_scheduler *scheduler, VALUE (*function)(VALUE), VALUE argument, VALUE storage) {
  struct gyre_worker *worker = acquire(scheduler);
  worker->function = function;
  worker->argument = argument;
  worker->storage = storage;
  gyre_list_append(&scheduler->busy, &worker->node);
  scheduler->busy_count++;

  VALUE fiber = worker->fiber;
  scheduler->entered = fiber;
  if (rb_fiber_current() == scheduler->driver) {
    /* The driver needs no place in the queue: whoever finds nothing ready comes back to it. */
    rb_fiber_transfer(fiber, 0, NULL);
  } else {
    struct spawning spawning = {.scheduler = scheduler, .fiber = fiber};
    gyre_park_begin(scheduler, &spawning.parked);
    make_ready(scheduler, &spawning.parked, true);
    rb_ensure(spawn_body, (VALUE)&spawning, spawn_ensure, (VALUE)&spawning);
  }
  return fiber;
}

/* --- interrupts --- */

struct gyre_interrupt *gyre_interrupt_fiber(struct gyre_scheduler *scheduler, VALUE fiber, VALUE exception) {
  struct gyre_interrupt *interrupt = calloc(1, sizeof(*interrupt));
  if (!interrupt) rb_memerror();
  interrupt->fiber = fiber;
  interrupt->exception = exception;
  gyre_list_append(&scheduler->interrupts, &interrupt->node);
  wake_loop(scheduler);
  return interrupt;
}

void gyre_interrupt_cancel(struct gyre_scheduler *scheduler, struct gyre_interrupt *interrupt) {
  gyre_list_remove(&interrupt->node);
  gyre_timers_cancel(&scheduler->loop.timers, &interrupt->retry);
  free(interrupt);
}

struct delivery {
  VALUE fiber, exception;
};

static VALUE deliver_interrupt(VALUE argument) {
  struct delivery *delivery = (struct delivery *)argument;
  return rb_fiber_raise(delivery->fiber, 1, &delivery->exception);
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
  if (gyre_timers_arm(&scheduler->loop.timers, &interrupt->retry, gyre_timers_now() + INTERRUPT_RETRY_NS) < 0) rb_memerror();
}

/* Raises what is due in its fiber, one after the other: each may run other fibers and add or cancel some. */
static void deliver_interrupts(struct gyre_scheduler *scheduler) {
  size_t due = 0;
  for (struct gyre_list *node = scheduler->interrupts.next; node != &scheduler->interrupts; node = node->next) due++;

  for (; due > 0 && !gyre_list_empty(&scheduler->interrupts); due--) {
    struct gyre_interrupt *interrupt = GYRE_CONTAINER(scheduler->interrupts.next, struct gyre_interrupt, node);
    struct delivery delivery = {interrupt->fiber, interrupt->exception};
    struct gyre_interrupt **owner = interrupt->owner;
    gyre_list_remove(&interrupt->node);
    if (owner) *owner = NULL;

    int state = 0;
    if (RTEST(rb_fiber_alive_p(delivery.fiber))) rb_protect(deliver_interrupt, (VALUE)&delivery, &state);
    if (state && rb_obj_is_kind_of(rb_errinfo(), fiber_error) && RTEST(rb_fiber_alive_p(delivery.fiber))) {
      rb_set_errinfo(Qnil);
      state = 0;
      delivery.fiber = inner_fiber(scheduler, delivery.fiber);
      if (NIL_P(delivery.fiber)) {
        if (owner) *owner = interrupt;
        defer_interrupt(scheduler, interrupt);
        continue;
      }
      rb_protect(deliver_interrupt, (VALUE)&delivery, &state);
    }
    free(interrupt);
    if (state) rb_jump_tag(state);
  }
}

/* --- driving --- */

bool gyre_nothing_left(struct gyre_scheduler *scheduler, void *unused) {
  (void)unused;
  return scheduler->parked_count == 0 && scheduler->ready_count == 0 && gyre_list_empty(&scheduler->interrupts) &&
         gyre_list_empty(&scheduler->keepers);
}

struct driving {
  struct gyre_scheduler *scheduler;
  bool (*done)(struct gyre_scheduler *, void *);
  void *context;
  VALUE fiber, before;
};

static void turn(struct driving *driving) {
  struct gyre_scheduler *scheduler = driving->scheduler;
  scheduler->driver = driving->fiber;
  if (!gyre_list_empty(&scheduler->interrupts)) deliver_interrupts(scheduler);

  scheduler->budget = GYRE_READY_BUDGET;
  while (scheduler->budget > 0) {
    VALUE fiber = take_ready(scheduler);
    if (fiber == Qundef) break;
    scheduler->budget--;
    if (fiber == driving->fiber) return; /* the parked fiber that drives is woken itself */
    rb_fiber_transfer(fiber, 0, NULL);
    if (!gyre_list_empty(&scheduler->interrupts)) break;
  }
  rb_thread_check_ints();
  if (driving->done(scheduler, driving->context)) return;

  /* What is ready now, or was made so by an event, runs in the next turn. */
  scheduler->budget = GYRE_READY_BUDGET;
  bool wait = scheduler->ready_count == 0 && gyre_list_empty(&scheduler->interrupts);
  gyre_loop_poll(&scheduler->loop, wait);
}

static VALUE drive_body(VALUE argument) {
  struct driving *driving = (struct driving *)argument;
  while (!driving->done(driving->scheduler, driving->context)) turn(driving);
  return Qnil;
}

static VALUE drive_ensure(VALUE argument) {
  struct driving *driving = (struct driving *)argument;
  if (driving->scheduler->driver == driving->fiber) driving->scheduler->driver = driving->before;
  return Qnil;
}

void gyre_drive(struct gyre_scheduler *scheduler, bool (*done)(struct gyre_scheduler *, void *), void *context) {
  struct driving driving = {scheduler, done, context, rb_fiber_current(), scheduler->driver};
  rb_ensure(drive_body, (VALUE)&driving, drive_ensure, (VALUE)&driving);
}

/* --- memory --- */

static void mark_workers(struct gyre_list *list, bool busy) {
  for (struct gyre_list *node = list->next; node != list; node = node->next) {
    struct gyre_worker *worker = GYRE_CONTAINER(node, struct gyre_worker, node);
    rb_gc_mark(worker->fiber);
    if (!busy) continue;
    rb_gc_mark(worker->argument);
    rb_gc_mark(worker->storage);
  }
}

static void mark_parked(struct gyre_list *list) {
  for (struct gyre_list *node = list->next; node != list; node = node->next) {
    rb_gc_mark(GYRE_CONTAINER(node, struct gyre_parked, node)->fiber);
  }
}

static void mark_interrupts(struct gyre_list *list) {
  for (struct gyre_list *node = list->next; node != list; node = node->next) {
    struct gyre_interrupt *interrupt = GYRE_CONTAINER(node, struct gyre_interrupt, node);
    rb_gc_mark(interrupt->fiber);
    rb_gc_mark(interrupt->exception);
  }
}

/* Everything is pinned: the addresses of fibers are keys and stand on C stacks. */
void gyre_fibers_mark(struct gyre_scheduler *scheduler) {
  rb_gc_mark(scheduler->driver);
  mark_parked(&scheduler->parked);
  mark_parked(&scheduler->ready);
  mark_workers(&scheduler->busy, true);
  mark_workers(&scheduler->idle, false);
  mark_interrupts(&scheduler->interrupts);
  mark_interrupts(&scheduler->deferred);
}

static void free_workers(struct gyre_list *list) {
  while (!gyre_list_empty(list)) {
    struct gyre_worker *worker = GYRE_CONTAINER(list->next, struct gyre_worker, node);
    gyre_list_remove(&worker->node);
    free(worker);
  }
}

static void free_interrupts(struct gyre_list *list) {
  while (!gyre_list_empty(list)) {
    struct gyre_interrupt *interrupt = GYRE_CONTAINER(list->next, struct gyre_interrupt, node);
    gyre_list_remove(&interrupt->node);
    free(interrupt);
  }
}

void gyre_fibers_free(struct gyre_scheduler *scheduler) {
  free_workers(&scheduler->busy);
  free_workers(&scheduler->idle);
  free_interrupts(&scheduler->interrupts);
  free_interrupts(&scheduler->deferred);
}

/* In a forked child only the fiber that forked goes on: forget all others. */
void gyre_fibers_forked(struct gyre_scheduler *scheduler) {
  gyre_list_init(&scheduler->parked);
  gyre_list_init(&scheduler->ready);
  scheduler->parked_count = scheduler->ready_count = 0;
  gyre_list_init(&scheduler->interrupts);
  gyre_list_init(&scheduler->deferred);
  free_workers(&scheduler->idle);
  scheduler->idle_count = 0;
  scheduler->driver = scheduler->entered = Qnil;
  scheduler->budget = GYRE_READY_BUDGET;
}

size_t gyre_fibers_memory(const struct gyre_scheduler *scheduler) {
  return (scheduler->busy_count + scheduler->idle_count) * sizeof(struct gyre_worker);
}
