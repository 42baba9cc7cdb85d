/*
 * The pool of fibers: a finished one is kept for the next job, for making one costs some microseconds
 * and reusing one a tenth of that. Jobs are functions in C; what an exception of one becomes is decided
 * here. Nothing of a job (fiber-locals, storage, pending unblocks and interrupts) reaches the next.
 */
#include "fibers.h"

#include <ruby/thread.h>
#include <stdlib.h>
#include <unistd.h>

static ID id_report, id_keys, id_new, id_storage, id_aset;
static VALUE fiber_options[2], fiber_class;

void gyre_init_workers(void) {
  id_report = rb_intern("report");
  id_keys = rb_intern("keys");
  id_new = rb_intern("new");
  id_storage = rb_intern("storage");
  id_aset = rb_intern("[]=");
  fiber_class = rb_const_get(rb_cObject, rb_intern("Fiber"));
  rb_gc_register_mark_object(fiber_class);
  for (int blocking = 0; blocking <= 1; blocking++) {
    VALUE options = fiber_options[blocking] = rb_hash_new();
    rb_hash_aset(options, ID2SYM(rb_intern("blocking")), blocking ? Qtrue : Qfalse);
    rb_gc_register_mark_object(rb_obj_freeze(options));
  }
}

void gyre_workers_init(struct gyre_scheduler *scheduler) {
  gyre_list_init(&scheduler->busy);
  gyre_list_init(&scheduler->idle);
  scheduler->busy_count = scheduler->idle_count = 0;
  scheduler->starting = NULL;
  scheduler->worker_block = Qnil;
}

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
  if (rb_obj_is_kind_of(error, rb_const_get(gyre_mGyre, rb_intern("Stop"))))
    return Qnil; /* that it ends was asked for */
  return rb_funcall(scheduler->self, id_report, 2, error, rb_fiber_current());
}

/* An exception to report, not one that ends the program or the thread. */
static bool reportable(void) {
  VALUE error = rb_errinfo();
  return rb_obj_is_kind_of(error, rb_eException) && !rb_obj_is_kind_of(error, rb_eSystemExit) &&
         !rb_obj_is_kind_of(error, rb_eSignal);
}

/* Nothing that was meant for the job that has ended may reach the fiber's next one. */
static void release(struct gyre_scheduler *scheduler, struct gyre_worker *worker) {
  gyre_list_remove(&worker->node);
  scheduler->busy_count--;
  gyre_interrupts_drop(scheduler, worker->fiber);
  gyre_forget_early(scheduler, worker->fiber);
}

/* Leaves the idle worker's fiber until it has a job. Returns early when there is nobody to go to: then somebody entered the
 * fiber past us (Fiber#raise), and Ruby finds back to the thread's root fiber when this one ends. */
static VALUE wait_for_job(VALUE argument) {
  struct gyre_worker *worker = (struct gyre_worker *)argument;
  struct gyre_scheduler *scheduler = (struct gyre_scheduler *)worker->argument;
  while (!worker->function) {
    VALUE next = gyre_ready_next(scheduler);
    if (NIL_P(next)) next = gyre_ready_take(scheduler);
    if (NIL_P(next)) break;
    rb_fiber_transfer(next, 0, NULL);
  }
  return Qnil;
}

/* --- stacks ---
 *
 * Ruby takes fibers' stacks from one pool for all Ractors, without a lock (3.1 and 3.4): two that take one at the same
 * time crash. So only one Ractor at a time enters a worker's fiber for the first time. The owner is a process, for a
 * forked child may find it taken by a thread that it does not have. */

static pid_t stacks_owner; /* atomic; 0: nobody takes one */

/* Lets Ruby stop this Ractor while it waits: the owner may be collecting garbage. */
static void stacks_take(void) {
  pid_t me = getpid(), before = 0;
  while (!__atomic_compare_exchange_n(&stacks_owner, &before, me, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
    if (before != me) continue;
    rb_thread_schedule();
    before = 0;
  }
}

static void stacks_give_back(void) { __atomic_store_n(&stacks_owner, 0, __ATOMIC_RELEASE); }

static VALUE worker_main(RB_BLOCK_CALL_FUNC_ARGLIST(yielded, self)) {
  stacks_give_back();
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
    if (state || !worker->function) {
      bool acquired = worker->function != NULL;
      gyre_list_remove(&worker->node);
      if (acquired) {
        scheduler->busy_count--;
      } else {
        scheduler->idle_count--;
      }
      free(worker);
      if (state) rb_jump_tag(state);
      return Qnil;
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

  if (NIL_P(scheduler->worker_block)) scheduler->worker_block = rb_proc_new(worker_main, scheduler->self);
  VALUE options = fiber_options[blocking];
  VALUE fiber = rb_funcall_with_block_kw(fiber_class, id_new, 1, &options, scheduler->worker_block, RB_PASS_KEYWORDS);
  struct gyre_worker *worker = calloc(1, sizeof(*worker));
  if (!worker) rb_memerror();
  gyre_list_init(&worker->node);
  worker->fiber = fiber;
  worker->blocking = blocking;
  scheduler->starting = worker;
  return worker;
}

struct entering {
  struct gyre_scheduler *scheduler;
  struct gyre_worker *worker;
  bool stacks_taken;
};

static VALUE enter_body(VALUE argument) {
  struct entering *entering = (struct entering *)argument;
  stacks_take();
  entering->stacks_taken = true;
  entering->scheduler->starting =
      entering->worker; /* while it waited for the stacks, a signal's handler may have started another */
  gyre_enter(entering->scheduler, entering->worker->fiber);
  return Qnil;
}

/* Enters the worker's fiber. A new one may fail to begin: no memory for its stack, too many memory maps. */
static void enter(struct gyre_scheduler *scheduler, struct gyre_worker *worker, VALUE fiber) {
  if (scheduler->starting != worker) {
    gyre_enter(scheduler, fiber);
    return;
  }
  int state = 0;
  struct entering entering = {.scheduler = scheduler, .worker = worker};
  rb_protect(enter_body, (VALUE)&entering, &state);
  if (!state) return;
  if (scheduler->starting == worker) {
    if (entering.stacks_taken) stacks_give_back();
    scheduler->starting = NULL;
    gyre_list_remove(&worker->node);
    scheduler->busy_count--;
    free(worker);
  }
  rb_jump_tag(state);
}

struct spawning {
  struct gyre_scheduler *scheduler;
  struct gyre_worker *worker;
  struct gyre_parked parked;
  VALUE fiber;
};

static VALUE spawn_body(VALUE argument) {
  struct spawning *spawning = (struct spawning *)argument;
  enter(spawning->scheduler, spawning->worker, spawning->fiber);
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

VALUE gyre_spawn_kind(struct gyre_scheduler *scheduler, VALUE (*function)(VALUE), VALUE argument, VALUE storage,
                      bool blocking) {
  gyre_thread_check(scheduler);
  struct gyre_worker *worker = acquire(scheduler, blocking);
  worker->function = function;
  worker->argument = argument;
  worker->storage = storage;
  gyre_list_append(&scheduler->busy, &worker->node);
  scheduler->busy_count++;

  VALUE fiber = worker->fiber;
  gyre_forget_early(scheduler, fiber); /* an unblock that came for its last job */
  if (rb_fiber_current() == scheduler->driver) {
    /* The driver needs no place in the queue: whoever finds nothing ready comes back to it. */
    scheduler->entered = fiber;
    scheduler->entered_is_worker = true;
    enter(scheduler, worker, fiber);
  } else {
    struct spawning spawning = {.scheduler = scheduler, .worker = worker, .fiber = fiber};
    gyre_park_begin(scheduler, &spawning.parked, Qundef);
    gyre_parked_make_ready(scheduler, &spawning.parked, true);
    scheduler->entered = fiber;
    scheduler->entered_is_worker = true;
    rb_ensure(spawn_body, (VALUE)&spawning, spawn_ensure, (VALUE)&spawning);
  }
  return fiber;
}

bool gyre_worker_is_idle(struct gyre_scheduler *scheduler, VALUE fiber) {
  for (struct gyre_list *node = scheduler->idle.next; node != &scheduler->idle; node = node->next) {
    if (GYRE_CONTAINER(node, struct gyre_worker, node)->fiber == fiber) return true;
  }
  return false;
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

void gyre_workers_mark(struct gyre_scheduler *scheduler) {
  rb_gc_mark(scheduler->worker_block);
  mark_workers(&scheduler->busy, true);
  mark_workers(&scheduler->idle, false);
}

static void free_workers(struct gyre_list *list) {
  while (!gyre_list_empty(list)) {
    struct gyre_worker *worker = GYRE_CONTAINER(list->next, struct gyre_worker, node);
    gyre_list_remove(&worker->node);
    free(worker);
  }
}

void gyre_workers_free(struct gyre_scheduler *scheduler) {
  free_workers(&scheduler->busy);
  free_workers(&scheduler->idle);
}

/* The fiber that forked may be one of the busy ones; idle ones are of no use any more. */
void gyre_workers_forked(struct gyre_scheduler *scheduler) {
  free_workers(&scheduler->idle);
  scheduler->idle_count = 0;
}
