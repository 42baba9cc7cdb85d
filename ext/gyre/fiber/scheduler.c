/* Gyre::Scheduler on the native engine: the object and its methods. Most of Ruby's hooks are in
 * scheduler_{block,io,process,select,timeout}.c. */
#include "fiber/fibers.h"
#include "loop/forks.h"

#include <ruby/fiber/scheduler.h>

VALUE gyre_cScheduler;
static VALUE blocking;

static void scheduler_mark(void *opaque) {
  struct gyre_scheduler *scheduler = opaque;
  rb_gc_mark(scheduler->self); /* pinned: C keeps its address */
  gyre_fibers_mark(scheduler);
  gyre_block_mark(scheduler);
  GYRE_EACH(struct gyre_client, client, &scheduler->clients, node) rb_gc_mark(client->self);
}

static void scheduler_free(void *opaque) {
  struct gyre_scheduler *scheduler = opaque;
  gyre_timeouts_free(scheduler);
  gyre_workers_free(scheduler);
  gyre_interrupts_free(scheduler);
  gyre_loop_close(&scheduler->loop);
  gyre_block_free(scheduler);
  xfree(scheduler);
}

static size_t scheduler_size(const void *opaque) {
  const struct gyre_scheduler *scheduler = opaque;
  return sizeof(*scheduler) + (scheduler->pool.busy_count + scheduler->pool.idle_count) * sizeof(struct gyre_worker) +
         (size_t)scheduler->loop.descriptor_capacity * sizeof(struct gyre_descriptor) +
         scheduler->loop.timers.capacity * sizeof(struct gyre_timers_entry);
}

/* Has no write barriers: the marked objects are on fibers' stacks and change at every switch. */
GYRE_TYPE(scheduler_type, "Gyre::Scheduler", scheduler_mark, scheduler_free, scheduler_size, 0);

static VALUE scheduler_allocate(VALUE class) {
  struct gyre_scheduler *scheduler;
  VALUE self = TypedData_Make_Struct(class, struct gyre_scheduler, &scheduler_type, scheduler);
  scheduler->self = self;
  gyre_fibers_init(scheduler);
  gyre_list_init(&scheduler->keepers);
  gyre_list_init(&scheduler->clients);
  gyre_list_init(&scheduler->sweeping.descriptor_waits);
  gyre_list_init(&scheduler->loop.unverified.watches);
  gyre_list_init(&scheduler->loop.deferred);
  scheduler->closed = true;
  return self;
}

bool gyre_scheduler_is_native(VALUE object) {
  return rb_typeddata_is_kind_of(object, &scheduler_type) && gyre_scheduler_get(object)->is_native;
}

struct gyre_scheduler *gyre_scheduler_here(void) {
  VALUE self = rb_fiber_scheduler_get();
  if (!rb_typeddata_is_kind_of(self, &scheduler_type)) return NULL;
  struct gyre_scheduler *scheduler = gyre_scheduler_get(self);
  return scheduler->closed ? NULL : scheduler;
}

VALUE gyre_sight_label(void) {
  const struct gyre_scheduler *scheduler = gyre_scheduler_here();
  return scheduler ? gyre_sight_label_of(&scheduler->sight) : Qnil;
}

static struct gyre_loop *loop_here(void) {
  struct gyre_scheduler *scheduler = gyre_scheduler_here();
  return scheduler ? &scheduler->loop : NULL;
}

struct gyre_scheduler *gyre_scheduler_current(void) {
  VALUE scheduler = rb_fiber_scheduler_get();
  if (!gyre_scheduler_is_native(scheduler)) {
    rb_raise(rb_eRuntimeError, "no native Gyre scheduler on this thread: call Gyre.run { … } around it");
  }
  return gyre_scheduler_opened(scheduler);
}

/* Opens the loop on a native backend, for Gyre::Scheduler#initialize. On the portable engine the
 * loop stays closed, and Ruby code replaces this file's methods (scheduler/portable.rb). */
static VALUE scheduler_open_native(VALUE self, VALUE name) {
  struct gyre_scheduler *scheduler = gyre_scheduler_get(self);
  if (!scheduler->closed) rb_raise(rb_eRuntimeError, "initialized twice");

  gyre_loop_open_on(&scheduler->loop, name);
  if (gyre_blocked_init(&scheduler->pool.workers) < 0) rb_memerror();
  gyre_block_init(scheduler);
  gyre_sight_open(scheduler);
  scheduler->sweeping.switches = UINT64_MAX;
  scheduler->sweeping.before_sleep = gyre_sweep;
  scheduler->closed = false;
  scheduler->is_native = true;
  return self;
}

/* Lets the other ready fibers run first (Fiber::Scheduler#yield). */
static VALUE scheduler_yield(VALUE self) {
  gyre_yield(gyre_scheduler_opened(self));
  return Qnil;
}

static VALUE call_job(VALUE job) {
  if (rb_obj_is_proc(job)) return rb_proc_call_with_block(job, 0, NULL, Qnil); /* saves stack */
  if (!RB_TYPE_P(job, T_ARRAY)) return rb_funcallv(job, rb_intern("call"), 0, NULL);
  long count = RARRAY_LEN(job);
  VALUE callable = rb_ary_entry(job, 0);
  return rb_funcallv(callable, rb_intern("call"), (int)count - 1, RARRAY_CONST_PTR(job) + 1);
}

/* Runs the block in a new fiber up to its first wait (Fiber::Scheduler#fiber, for Fiber.schedule).
 * Raises ThreadError if another thread calls it. */
static VALUE scheduler_fiber(int argc, VALUE *argv, VALUE self) {
  struct gyre_scheduler *scheduler = gyre_scheduler_opened(self);
  VALUE options = Qnil, block = rb_block_proc();
  rb_scan_args(argc, argv, "0:", &options);
  if (!NIL_P(options) && NIL_P(rb_hash_lookup2(options, blocking, Qnil))) {
    options = rb_hash_dup(options);
    rb_hash_aset(options, blocking, Qfalse);
  }
  return gyre_spawn_once(scheduler, call_job, block, options);
}

/* Runs callable.call(*arguments) in a pooled fiber up to its first wait. Raises ThreadError if
 * another thread calls it. */
static VALUE scheduler_spawn(int argc, VALUE *argv, VALUE self) {
  struct gyre_scheduler *scheduler = gyre_scheduler_opened(self);
  VALUE job = argc > 0 && !NIL_P(argv[0]) ? argv[0] : rb_block_proc();
  if (argc > 1 || RB_TYPE_P(job, T_ARRAY)) {
    VALUE callable = job;
    job = rb_ary_new_from_values(argc, argv);
    rb_ary_store(job, 0, callable);
  }
  return gyre_spawn(scheduler, call_job, job, gyre_present_storage());
}

/* Raises an exception in a fiber at its present or next wait (Fiber::Scheduler#fiber_interrupt);
 * nil ends the fiber like Fiber#kill. Any thread may call it. */
static VALUE scheduler_fiber_interrupt(VALUE self, VALUE fiber, VALUE exception) {
  if (!rb_obj_is_fiber(fiber)) rb_raise(rb_eTypeError, "fiber expected, not %" PRIsVALUE, rb_obj_class(fiber));
  if (!NIL_P(exception) && !rb_obj_is_kind_of(exception, rb_eException))
    rb_raise(rb_eTypeError, "exception expected, not %" PRIsVALUE, rb_obj_class(exception));
  gyre_interrupt_fiber(gyre_scheduler_opened(self), fiber, exception);
  return Qnil;
}

/* Returns `fiber`, or a fiber that it has resumed, whichever waits; nil if neither does. */
static VALUE scheduler_waiting_in(VALUE self, VALUE fiber) {
  struct gyre_scheduler *scheduler = gyre_scheduler_get(self);
  const struct gyre_parked *parked = scheduler->closed ? NULL : gyre_wait_of(scheduler, fiber);
  return parked ? parked->fiber : Qnil;
}

/* True if the pooled fiber has a job (scheduler/pooled_fiber.rb). */
static VALUE scheduler_working_p(VALUE self, VALUE fiber) {
  return gyre_fiber_is_working(gyre_scheduler_get(self), fiber) ? Qtrue : Qfalse;
}

/* Drives the loop until no fiber waits and no socket listens. */
static VALUE scheduler_run(VALUE self) {
  struct gyre_scheduler *scheduler = gyre_scheduler_opened(self);
  const struct gyre_worker *worker = scheduler->running.worker;
  bool inner = worker && worker->fiber != rb_fiber_current();
  if (!NIL_P(rb_fiber_scheduler_current())) rb_funcall(self, rb_intern("refuse_run"), 1, inner ? Qtrue : Qfalse);
  gyre_drive(scheduler, gyre_nothing_left, NULL);
  return self;
}

static bool block_is_true(struct gyre_scheduler *scheduler, struct gyre_driving *driving) {
  return RTEST(rb_funcallv((VALUE)driving->context, rb_intern("call"), 0, NULL));
}

/* Drives the loop until the block returns true. Calls the block once per turn. */
static VALUE scheduler_run_until(VALUE self) {
  struct gyre_scheduler *scheduler = gyre_scheduler_opened(self);
  VALUE block = rb_block_proc();
  gyre_drive(scheduler, block_is_true, (void *)block);
  RB_GC_GUARD(block);
  return self;
}

static VALUE scheduler_loop_running_p(VALUE self) {
  return NIL_P(gyre_scheduler_get(self)->drivers.fiber) ? Qfalse : Qtrue;
}

/* Ends the loop's present or next wait. Any thread and trap handler may call it. */
static VALUE scheduler_wakeup(VALUE self) {
  gyre_loop_wake(&gyre_scheduler_get(self)->loop);
  return Qnil;
}

/* Notifies each client once, but not clients added meanwhile. Starts at the list's head again after
 * each call, because clients run Ruby code. */
static void notify_clients(struct gyre_scheduler *scheduler, void (*notify)(struct gyre_client *)) {
  struct gyre_list *clients = &scheduler->clients;
  GYRE_EACH(struct gyre_client, client, clients, node) client->due = true;
  for (struct gyre_list *node = clients->next; node != clients;) {
    struct gyre_client *client = GYRE_CONTAINER(node, struct gyre_client, node);
    node = node->next;
    if (!client->due) continue;
    client->due = false;
    notify(client);
    node = clients->next;
  }
}

static void notify_closing(struct gyre_client *client) { client->closing(client); }

static void notify_forked(struct gyre_client *client) { client->forked(client); }

static void notify_moved(struct gyre_client *client) {
  if (client->moved) client->moved(client);
  client->forks = gyre_forks;
}

/* Does not wait for fibers if the thread is being killed or a signal's exception propagates. */
static VALUE close_body(VALUE self) {
  if (!RTEST(rb_funcall(self, rb_intern("leaving?"), 0))) gyre_drive(gyre_scheduler_get(self), gyre_nothing_left, NULL);
  return Qnil;
}

static VALUE close_loop(VALUE self) {
  struct gyre_scheduler *scheduler = gyre_scheduler_get(self);
  notify_clients(scheduler, notify_closing);
  scheduler->closed = true;
  gyre_timers_cancel_all(&scheduler->loop.timers);
  gyre_workers_close(scheduler);
  gyre_loop_close(&scheduler->loop);
  return Qnil;
}

static VALUE unwind_body(VALUE self) {
  gyre_unwind(gyre_scheduler_get(self));
  return Qnil;
}

static VALUE close_ensure(VALUE self) { return rb_ensure(unwind_body, self, close_loop, self); }

/* Runs the remaining fibers, then closes the loop (Fiber::Scheduler#close). Raises ThreadError if
 * another thread calls it. */
static VALUE scheduler_close(VALUE self) {
  struct gyre_scheduler *scheduler = gyre_scheduler_get(self);
  if (scheduler->closed) return Qnil;
  gyre_thread_check(scheduler);
  rb_ensure(close_body, self, close_ensure, self);
  return Qnil;
}

static VALUE scheduler_closed_p(VALUE self) { return gyre_scheduler_get(self)->closed ? Qtrue : Qfalse; }

static VALUE scheduler_backend(VALUE self) {
  struct gyre_scheduler *scheduler = gyre_scheduler_get(self);
  return scheduler->loop.backend ? rb_str_new_cstr(scheduler->loop.backend->name) : Qnil;
}

/* In a forked child, continues the forking fiber on a new loop. Never touches the parent's loop. */
static VALUE scheduler_process_fork(VALUE self) {
  struct gyre_scheduler *scheduler = gyre_scheduler_get(self);
  if (scheduler->closed) return Qnil;
  scheduler->pool.root = rb_fiber_current();
  gyre_fibers_forked(scheduler);
  gyre_list_init(&scheduler->keepers);
  gyre_list_init(&scheduler->sweeping.descriptor_waits);
  scheduler->sweeping.timer.place = 0;
  gyre_block_forked(scheduler);
  int64_t virtual_ns = scheduler->loop.virtual_ns;
  int error = gyre_loop_reopen(&scheduler->loop);
  scheduler->loop.virtual_ns = virtual_ns;
  if (error < 0) {
    scheduler->closed = true;
    rb_syserr_fail(-error, "open the event loop after fork");
  }
  gyre_loop_enlist(&scheduler->loop);
  notify_clients(scheduler, notify_forked);
  return Qnil;
}

/* Called in Process.daemon, whose new process continues all fibers. */
static VALUE scheduler_process_move(VALUE self) {
  struct gyre_scheduler *scheduler = gyre_scheduler_get(self);
  if (scheduler->closed) return Qnil;
  scheduler->pool.root = rb_fiber_current();
  int error = gyre_loop_move(&scheduler->loop);
  if (error < 0) rb_syserr_fail(-error, "open the event loop of the daemon");
  notify_clients(scheduler, notify_moved);
  return Qnil;
}

/* Gyre::Testing: a clock that jumps from timer to timer, and a seeded order of ready fibers. */

/* From now on the clock only jumps. A seed shuffles ready fibers; nil keeps their order. */
static VALUE scheduler_simulate(VALUE self, VALUE seed) {
  struct gyre_scheduler *scheduler = gyre_scheduler_opened(self);
  if (!NIL_P(seed)) {
    uint64_t random = NUM2ULL(seed) * UINT64_C(0x9e3779b97f4a7c15) + 1; /* spreads seeds */
    scheduler->slice.random = random ? random : 1;
  }
  scheduler->loop.virtual_ns = gyre_timers_now();
  return Qnil;
}

/* Returns the loop's time in seconds: of the monotonic clock, or of the virtual one. */
static VALUE scheduler_virtual_now(VALUE self) {
  return DBL2NUM((double)gyre_loop_now(&gyre_scheduler_get(self)->loop) / 1e9);
}

/* Called when work outside the loop begins (1) or ends (-1): time is real meanwhile. */
static VALUE scheduler_outside(VALUE self, VALUE change) {
  gyre_scheduler_get(self)->loop.outside += (unsigned)NUM2INT(change);
  return Qnil;
}

/* Returns the owner of the running code's state: the pooled fiber at the bottom of its chain, which
 * runs the job; outside of jobs the thread. */
static VALUE job_current(VALUE module) {
  VALUE self = rb_fiber_scheduler_get();
  if (NIL_P(self)) return rb_thread_current();
  if (!gyre_scheduler_is_native(self)) return rb_funcall(module, rb_intern("of"), 1, self);
  const struct gyre_worker *worker = gyre_scheduler_get(self)->running.worker;
  return worker ? worker->fiber : rb_thread_current();
}

static VALUE job_forget(VALUE module, VALUE keys, VALUE storage) {
  Check_Type(keys, T_ARRAY);
  gyre_forget(keys, storage);
  return Qnil;
}

void gyre_init_scheduler(void) {
  blocking = ID2SYM(rb_intern("blocking"));
  VALUE class = gyre_cScheduler, job = rb_define_module_under(gyre_mGyre, "Job");
  rb_define_singleton_method(job, "current", job_current, 0);
  rb_define_singleton_method(job, "forget", job_forget, 2);
  rb_define_alloc_func(class, scheduler_allocate);
  rb_define_private_method(class, "open_native", scheduler_open_native, 1);
  rb_define_method(class, "yield", scheduler_yield, 0);
  rb_define_method(class, "fiber", scheduler_fiber, -1);
  rb_define_method(class, "spawn", scheduler_spawn, -1);
  rb_define_method(class, "fiber_interrupt", scheduler_fiber_interrupt, 2);
  rb_define_method(class, "waiting_in", scheduler_waiting_in, 1);
  rb_define_method(class, "working?", scheduler_working_p, 1);
  rb_define_method(class, "run", scheduler_run, 0);
  rb_define_method(class, "run_until", scheduler_run_until, 0);
  rb_define_method(class, "loop_running?", scheduler_loop_running_p, 0);
  rb_define_method(class, "wakeup", scheduler_wakeup, 0);
  rb_define_method(class, "close", scheduler_close, 0);
  rb_define_method(class, "scheduler_close", scheduler_close, 0);
  rb_define_method(class, "closed?", scheduler_closed_p, 0);
  rb_define_method(class, "backend", scheduler_backend, 0);
  rb_define_method(class, "process_fork", scheduler_process_fork, 0);
  rb_define_method(class, "process_move", scheduler_process_move, 0);
  gyre_loop_here = loop_here;
  rb_define_method(class, "simulate", scheduler_simulate, 1);
  rb_define_method(class, "virtual_now", scheduler_virtual_now, 0);
  rb_define_method(class, "outside", scheduler_outside, 1);
}
