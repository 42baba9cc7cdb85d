/*
 * How fibers move: park and wake, the queue of ready ones, the pool of finished ones, and the turns
 * of whoever drives the loop (see scheduler.h). Everything here runs with the GVL; gyre_wake and
 * gyre_interrupt_fiber may be called by any thread that holds it.
 */
#include "scheduler.h"

#include <stdlib.h>

#define INTERRUPT_RETRY_NS 1000000
#define UNWIND_NS INT64_C(1000000000) /* for what is stopped when the scheduler closes, to clean up */
#define UNWIND_ROUNDS 3

static ID id_report, id_keys, id_new, id_storage, id_aref, id_aset;
static VALUE fiber_options[2], fiber_class, fiber_error;

static void wake_loop(struct gyre_scheduler *scheduler) {
  if (scheduler->loop.waiting) gyre_loop_wake(&scheduler->loop);
}

void gyre_init_fibers(void) {
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
  for (int blocking = 0; blocking <= 1; blocking++) {
    VALUE options = fiber_options[blocking] = rb_hash_new();
    rb_hash_aset(options, ID2SYM(rb_intern("blocking")), blocking ? Qtrue : Qfalse);
    rb_gc_register_mark_object(rb_obj_freeze(options));
  }
}

/* Allocates nothing: the scheduler may be marked from its first moment on. */
void gyre_fibers_init(struct gyre_scheduler *scheduler) {
  gyre_list_init(&scheduler->parked);
  gyre_list_init(&scheduler->ready);
  gyre_list_init(&scheduler->interrupts);
  gyre_list_init(&scheduler->deferred);
  gyre_list_init(&scheduler->postponed);
  gyre_list_init(&scheduler->busy);
  gyre_list_init(&scheduler->idle);
  scheduler->parked_count = scheduler->ready_count = scheduler->busy_count = scheduler->idle_count = 0;
  scheduler->driving = NULL;
  scheduler->overtaken_count = 0;
  scheduler->driver = scheduler->entered = Qnil;
  scheduler->budget = GYRE_READY_BUDGET;
  scheduler->slice_ns = gyre_timers_coarse_now();
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

/* Takes the next ready fiber off the queue, or returns nil. */
static VALUE take_ready(struct gyre_scheduler *scheduler) {
  if (gyre_list_empty(&scheduler->ready)) return Qnil;
  struct gyre_parked *parked = GYRE_CONTAINER(scheduler->ready.next, struct gyre_parked, node);
  leave_lists(scheduler, parked, GYRE_RUNNING);
  scheduler->switches++;
  scheduler->entered = parked->entered;
  return parked->fiber;
}

/* Whether it is time to ask the kernel: after so many switches, or when the coarse clock has ticked. */
static bool budget_is_spent(struct gyre_scheduler *scheduler) {
  if (scheduler->budget == 0) return true;
  if (gyre_timers_coarse_now() != scheduler->slice_ns) scheduler->budget = 0;
  return scheduler->budget == 0;
}

static void refill_budget(struct gyre_scheduler *scheduler) {
  scheduler->budget = GYRE_READY_BUDGET;
  scheduler->slice_ns = gyre_timers_coarse_now();
}

/* Where a fiber that stops running goes: the next ready one while the budget lasts, else the driver; nil
 * when nobody drives the loop, and it has to be asked. */
static VALUE next_fiber(struct gyre_scheduler *scheduler) {
  if (!budget_is_spent(scheduler) && gyre_list_empty(&scheduler->interrupts)) {
    VALUE fiber = take_ready(scheduler);
    if (!NIL_P(fiber)) {
      scheduler->budget--;
      return fiber;
    }
  }
  return scheduler->driver;
}

static bool is_running(struct gyre_scheduler *scheduler, struct gyre_driving *driving) {
  (void)scheduler;
  return ((struct gyre_parked *)driving->context)->state == GYRE_RUNNING;
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

static void drop_interrupts(struct gyre_scheduler *scheduler, struct gyre_list *list, VALUE fiber) {
  for (struct gyre_list *node = list->next, *next; node != list; node = next) {
    next = node->next;
    struct gyre_interrupt *interrupt = GYRE_CONTAINER(node, struct gyre_interrupt, node);
    if (interrupt->fiber != fiber) continue;
    if (interrupt->owner) *interrupt->owner = NULL;
    gyre_interrupt_cancel(scheduler, interrupt);
  }
}

/* Nothing that was meant for the job that has ended may reach the fiber's next one. */
static void release(struct gyre_scheduler *scheduler, struct gyre_worker *worker) {
  gyre_list_remove(&worker->node);
  scheduler->busy_count--;
  drop_interrupts(scheduler, &scheduler->interrupts, worker->fiber);
  drop_interrupts(scheduler, &scheduler->deferred, worker->fiber);
  drop_interrupts(scheduler, &scheduler->postponed, worker->fiber);
  if (scheduler->blocked) {
    st_data_t key = (st_data_t)worker->fiber;
    st_delete(scheduler->blocked, &key, NULL);
  }
}

static bool has_job(struct gyre_scheduler *scheduler, struct gyre_driving *driving) {
  (void)scheduler;
  return ((struct gyre_worker *)driving->context)->function != NULL;
}

static VALUE wait_for_job(VALUE argument) {
  struct gyre_worker *worker = (struct gyre_worker *)argument;
  struct gyre_scheduler *scheduler = (struct gyre_scheduler *)worker->argument;
  while (!worker->function) {
    VALUE next = next_fiber(scheduler);
    if (NIL_P(next)) next = take_ready(scheduler); /* an idle fiber drives only when there is nobody else */
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
    if (state || scheduler->idle_count >= GYRE_IDLE_WORKERS_LIMIT || scheduler->closed || worker->blocking) {
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

static struct gyre_worker *acquire(struct gyre_scheduler *scheduler, bool blocking) {
  while (!blocking && !gyre_list_empty(&scheduler->idle)) {
    struct gyre_worker *worker = GYRE_CONTAINER(scheduler->idle.next, struct gyre_worker, node);
    gyre_list_remove(&worker->node);
    scheduler->idle_count--;
    if (RTEST(rb_fiber_alive_p(worker->fiber))) return worker;
    free(worker);
  }

  VALUE block = rb_proc_new(worker_main, scheduler->self);
  VALUE options = fiber_options[blocking];
  VALUE fiber = rb_funcall_with_block_kw(fiber_class, id_new, 1, &options, block, RB_PASS_KEYWORDS);
  RB_GC_GUARD(block);
  struct gyre_worker *worker = calloc(1, sizeof(*worker));
  if (!worker) rb_memerror();
  gyre_list_init(&worker->node);
  worker->fiber = fiber;
  worker->blocking = blocking;
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
  return gyre_spawn_kind(scheduler, function, argument, storage, false);
}

VALUE gyre_spawn_kind(struct gyre_scheduler *scheduler, VALUE (*function)(VALUE), VALUE argument, VALUE storage, bool blocking) {
  struct gyre_worker *worker = acquire(scheduler, blocking);
  worker->function = function;
  worker->argument = argument;
  worker->storage = storage;
  gyre_list_append(&scheduler->busy, &worker->node);
  scheduler->busy_count++;

  VALUE fiber = worker->fiber;
  scheduler->entered = fiber;
  if (scheduler->blocked->num_entries) { /* an unblock that came for its last job */
    st_data_t key = (st_data_t)fiber;
    st_delete(scheduler->blocked, &key, NULL);
  }
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

/* An exception for a job that has ended comes to nobody: not to the pool, not to the next job. */
static bool is_idle(struct gyre_scheduler *scheduler, VALUE fiber) {
  for (struct gyre_list *node = scheduler->idle.next; node != &scheduler->idle; node = node->next) {
    if (GYRE_CONTAINER(node, struct gyre_worker, node)->fiber == fiber) return true;
  }
  return false;
}

struct gyre_interrupt *gyre_interrupt_fiber(struct gyre_scheduler *scheduler, VALUE fiber, VALUE exception) {
  if (is_idle(scheduler, fiber)) return NULL;
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

/* A fiber that was unblocked and has not run yet has been given something (a lock, an element of a
 * queue) that would be lost if it were interrupted now: first it runs, up to its next wait. */
static bool has_been_given_something(struct gyre_scheduler *scheduler, VALUE fiber) {
  struct gyre_parked *parked = gyre_blocked(scheduler, fiber);
  return parked && parked->state == GYRE_READY;
}

/* Raises what is due in its fiber, one after the other: each may run other fibers and add or cancel some. */
static void deliver_interrupts(struct gyre_scheduler *scheduler) {
  size_t due = 0;
  for (struct gyre_list *node = scheduler->interrupts.next; node != &scheduler->interrupts; node = node->next) due++;

  for (; due > 0 && !gyre_list_empty(&scheduler->interrupts); due--) {
    struct gyre_interrupt *interrupt = GYRE_CONTAINER(scheduler->interrupts.next, struct gyre_interrupt, node);
    if (has_been_given_something(scheduler, interrupt->fiber)) {
      gyre_list_remove(&interrupt->node);
      gyre_list_append(&scheduler->postponed, &interrupt->node);
      continue;
    }
    struct delivery delivery = {interrupt->fiber, interrupt->exception};
    struct gyre_interrupt **owner = interrupt->owner;
    gyre_list_remove(&interrupt->node);
    if (owner) *owner = NULL;

    if (delivery.fiber == rb_fiber_current()) { /* it drives, and waits itself */
      VALUE exception = delivery.exception;
      free(interrupt);
      rb_exc_raise(exception);
    }
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

/* The newest one also waits for those that it has overtaken; they do not wait for each other. */
bool gyre_nothing_left(struct gyre_scheduler *scheduler, struct gyre_driving *driving) {
  size_t parked_count = scheduler->parked_count;
  if (scheduler->driving != driving) parked_count -= scheduler->overtaken_count;
  return parked_count == 0 && scheduler->ready_count == 0 && gyre_list_empty(&scheduler->interrupts) &&
         gyre_list_empty(&scheduler->keepers);
}

/* From now on it waits like any parked fiber; but an idle worker's driving is no work that is left. */
static void displace(struct gyre_scheduler *scheduler, struct gyre_driving *driving) {
  if (driving->done == has_job) return;
  driving->parked.state = GYRE_PARKED;
  gyre_list_append(&scheduler->parked, &driving->parked.node);
  scheduler->parked_count++;
  scheduler->overtaken_count++;
}

static void go_on(struct gyre_scheduler *scheduler, struct gyre_driving *driving, enum gyre_parked_state state) {
  if (driving->parked.state == GYRE_PARKED) scheduler->overtaken_count--;
  if (state == GYRE_READY) {
    make_ready(scheduler, &driving->parked, false);
  } else {
    leave_lists(scheduler, &driving->parked, state);
  }
}

static void set_driving(struct gyre_scheduler *scheduler, struct gyre_driving *driving) {
  scheduler->driving = driving;
  scheduler->driver = driving ? driving->parked.fiber : Qnil;
}

/* Whoever was overtaken goes on when what it drives for has come true. */
static void ask_for_overtaken(struct gyre_scheduler *scheduler) {
  for (struct gyre_driving *driving = scheduler->driving->before; driving; driving = driving->before) {
    if (driving->parked.state != GYRE_PARKED || !driving->done(scheduler, driving)) continue;
    go_on(scheduler, driving, GYRE_READY);
  }
}

static void turn(struct gyre_scheduler *scheduler, struct gyre_driving *driving) {
  if (!gyre_list_empty(&scheduler->interrupts)) deliver_interrupts(scheduler);

  refill_budget(scheduler);
  while (!budget_is_spent(scheduler)) {
    VALUE fiber = take_ready(scheduler);
    if (NIL_P(fiber)) break;
    scheduler->budget--;
    if (fiber == driving->parked.fiber) return; /* the parked fiber that drives is woken itself */
    rb_fiber_transfer(fiber, 0, NULL);
    if (scheduler->driving != driving) return; /* overtaken meanwhile */
    if ((driving->done == has_job || driving->done == is_running) && driving->done(scheduler, driving)) return;
    if (!gyre_list_empty(&scheduler->interrupts)) break;
  }
  while (!gyre_list_empty(&scheduler->postponed)) {
    struct gyre_list *node = scheduler->postponed.next;
    gyre_list_remove(node);
    gyre_list_append(&scheduler->interrupts, node);
  }
  rb_thread_check_ints();
  if (driving->done(scheduler, driving)) return;
  if (driving->before) ask_for_overtaken(scheduler);

  /* What is ready now, or was made so by an event, runs in the next turn. */
  refill_budget(scheduler);
  bool wait = scheduler->ready_count == 0 && gyre_list_empty(&scheduler->interrupts);
  if (wait) gyre_sweep_descriptors(scheduler);
  gyre_loop_poll(&scheduler->loop, wait);
}

struct drive {
  struct gyre_scheduler *scheduler;
  struct gyre_driving driving;
};

static VALUE drive_body(VALUE argument) {
  struct drive *drive = (struct drive *)argument;
  struct gyre_scheduler *scheduler = drive->scheduler;
  struct gyre_driving *driving = &drive->driving;
  while (!driving->done(scheduler, driving)) {
    if (scheduler->driving == driving) {
      turn(scheduler, driving);
    } else if (driving->done == has_job) {
      break;
    } else {
      gyre_park(scheduler, &driving->parked);
      if (scheduler->driving != driving && driving->parked.state == GYRE_RUNNING) displace(scheduler, driving);
    }
  }
  return Qnil;
}

static VALUE drive_ensure(VALUE argument) {
  struct drive *drive = (struct drive *)argument;
  struct gyre_scheduler *scheduler = drive->scheduler;
  struct gyre_driving *driving = &drive->driving;
  go_on(scheduler, driving, GYRE_RUNNING);
  if (scheduler->driving == driving) {
    set_driving(scheduler, driving->before);
    /* Its fiber is entered again when nothing is ready. */
    if (driving->before) go_on(scheduler, driving->before, GYRE_RUNNING);
  } else {
    struct gyre_driving *newer = scheduler->driving;
    while (newer && newer->before != driving) newer = newer->before;
    if (newer) newer->before = driving->before;
  }
  return Qnil;
}

void gyre_drive(struct gyre_scheduler *scheduler, bool (*done)(struct gyre_scheduler *, struct gyre_driving *), void *context) {
  struct drive drive = {.scheduler = scheduler, .driving = {.before = scheduler->driving, .done = done, .context = context}};
  drive.driving.parked.fiber = drive.driving.parked.entered = rb_fiber_current();
  drive.driving.parked.state = GYRE_RUNNING;
  gyre_list_init(&drive.driving.parked.node);
  if (drive.driving.before && drive.driving.before->parked.fiber != drive.driving.parked.fiber) displace(scheduler, drive.driving.before);
  set_driving(scheduler, &drive.driving);
  rb_ensure(drive_body, (VALUE)&drive, drive_ensure, (VALUE)&drive);
}

/* Raises Gyre::Stop in all that waits, and gives it some time to clean up. */
static bool unwound(struct gyre_scheduler *scheduler, struct gyre_driving *driving) {
  return (scheduler->parked_count == 0 && scheduler->ready_count == 0) || gyre_timers_now() > *(int64_t *)driving->context;
}

static void unwind_time_is_over(struct gyre_timer *timer, void *context) {
  (void)timer;
  (void)context; /* the turn that it causes sees that the time is over */
}

void gyre_unwind(struct gyre_scheduler *scheduler) {
  VALUE class = rb_const_get(gyre_mGyre, rb_intern("Stop"));
  for (int round = 0; round < UNWIND_ROUNDS && scheduler->parked_count > 0; round++) {
    VALUE me = rb_fiber_current();
    for (struct gyre_list *node = scheduler->parked.next; node != &scheduler->parked; node = node->next) {
      VALUE fiber = GYRE_CONTAINER(node, struct gyre_parked, node)->fiber;
      VALUE message = rb_str_new_cstr("the scheduler closes");
      if (fiber != me) gyre_interrupt_fiber(scheduler, fiber, rb_class_new_instance(1, &message, class));
    }
    int64_t deadline_ns = gyre_timers_now() + UNWIND_NS;
    struct gyre_timer timer = {.fire = unwind_time_is_over};
    (void)gyre_timers_arm(&scheduler->loop.timers, &timer, deadline_ns + 1);
    gyre_drive(scheduler, unwound, &deadline_ns);
    gyre_timers_cancel(&scheduler->loop.timers, &timer);
  }
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
  mark_interrupts(&scheduler->postponed);
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
  free_interrupts(&scheduler->postponed);
}

/* In a forked child only the fiber that forked goes on: forget all others. */
void gyre_fibers_forked(struct gyre_scheduler *scheduler) {
  gyre_list_init(&scheduler->parked);
  gyre_list_init(&scheduler->ready);
  scheduler->parked_count = scheduler->ready_count = 0;
  gyre_list_init(&scheduler->interrupts);
  gyre_list_init(&scheduler->deferred);
  gyre_list_init(&scheduler->postponed);
  free_workers(&scheduler->idle);
  scheduler->idle_count = 0;
  scheduler->driving = NULL;
  scheduler->overtaken_count = 0;
  scheduler->driver = scheduler->entered = Qnil;
  scheduler->budget = GYRE_READY_BUDGET;
}

size_t gyre_fibers_memory(const struct gyre_scheduler *scheduler) {
  return (scheduler->busy_count + scheduler->idle_count) * sizeof(struct gyre_worker);
}
