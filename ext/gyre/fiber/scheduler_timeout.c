/* Timeout.timeout (the timeout_after hook): a timer in C that interrupts the block. And call_later.
 *
 * A pooled fiber lives until its job ends, so its struct timeout is on its stack. Another fiber
 * (such as an Enumerator's) may be collected inside the block, so its timeout is on the heap and
 * owned by an object on its stack. */
#include "fiber/fibers.h"
#include "loop/forks.h"

struct timeout {
  struct gyre_list node;            /* in scheduler->interrupts.timeouts, if on the heap */
  struct gyre_scheduler *scheduler; /* NULL once the scheduler is freed */
  struct gyre_timer timer;
  struct gyre_interrupt *interrupt;
  VALUE fiber; /* a pooled fiber, or Qundef */
  VALUE id;    /* gyre_fiber_id of a fiber outside the pool, or nil */
  VALUE duration;
  VALUE exception;       /* nil until the timer fires */
  struct making *making; /* NULL unless the exception is being made */
  bool returned;         /* the block has returned */
  int count;
  VALUE arguments[3]; /* for making the exception, as for Kernel#raise */
};

static VALUE timeout_class, never;

static void timeout_mark(void *opaque) {
  struct timeout *timeout = opaque;
  for (int i = 0; i < timeout->count; i++) rb_gc_mark(timeout->arguments[i]);
  GYRE_MARK(timeout->id, timeout->duration, timeout->exception);
}

/* The making of an exception. Its constructor may wait, and the timeout may end meanwhile. */
struct making {
  struct timeout *timeout; /* NULL once the timeout has ended */
  int count;
  VALUE arguments[3], exception;
};

static void end_timeout(struct timeout *timeout) {
  if (timeout->making) timeout->making->timeout = NULL;
  if (!timeout->scheduler) return;
  gyre_list_remove(&timeout->node);
  gyre_timers_cancel(&timeout->scheduler->loop.timers, &timeout->timer);
  if (timeout->interrupt) gyre_interrupt_cancel(timeout->scheduler, timeout->interrupt);
}

static void timeout_free(void *opaque) {
  end_timeout(opaque);
  xfree(opaque);
}

static size_t timeout_size(const void *opaque) { return sizeof(struct timeout); }

GYRE_TYPE(timeout_type, "Gyre::Scheduler::Timeout", timeout_mark, timeout_free, timeout_size,
          RUBY_TYPED_FREE_IMMEDIATELY);

void gyre_timeouts_free(struct gyre_scheduler *scheduler) {
  GYRE_EACH_TAKEN(struct timeout, timeout, &scheduler->interrupts.timeouts, node) timeout->scheduler = NULL;
}

static VALUE make_body(VALUE argument) {
  struct making *making = (struct making *)argument;
  return rb_make_exception(making->count, making->arguments);
}

/* Makes the timeout's exception. If the constructor raises an exception, uses that one. */
static VALUE make_exception(RB_BLOCK_CALL_FUNC_ARGLIST(yielded, argument)) {
  struct making *making = (struct making *)argument;
  int state = 0;
  making->exception = rb_protect(make_body, argument, &state);
  if (!state) return Qnil;
  making->exception = rb_errinfo();
  rb_set_errinfo(Qnil);
  return Qnil;
}

/* Defers exceptions from other threads while the constructor runs. */
static VALUE make_undisturbed(VALUE argument) {
  return rb_block_call(rb_cThread, rb_intern("handle_interrupt"), 1, &never, make_exception, argument);
}

static void timeout_fire(struct gyre_timer *timer, void *context) {
  struct timeout *timeout = GYRE_CONTAINER(timer, struct timeout, timer);
  struct gyre_scheduler *scheduler = gyre_scheduler_of(context);
  VALUE fiber = timeout->fiber;
  if (!NIL_P(timeout->id)) {
    /* If the fiber was collected, some of the timeout's objects may be freed, too. */
    fiber = gyre_live_fiber(scheduler, timeout->id);
    if (NIL_P(fiber)) return;
  }
  struct making making = {.timeout = timeout, .count = timeout->count, .exception = Qnil};
  memcpy(making.arguments, timeout->arguments, sizeof(making.arguments));
  int state = 0;
  timeout->making = &making;
  rb_protect(make_undisturbed, (VALUE)&making, &state);
  if (making.timeout) {
    timeout->making = NULL;
    timeout->interrupt = gyre_interrupt_weakly(scheduler, fiber, timeout->id, making.exception);
    if (timeout->interrupt) timeout->interrupt->owner = &timeout->interrupt;
    timeout->exception = making.exception;
  }
  if (state) rb_jump_tag(state);
}

static VALUE timeout_body(VALUE argument) {
  struct timeout *timeout = (struct timeout *)argument;
  VALUE result = rb_yield(timeout->duration);
  timeout->returned = true;
  return result;
}

/* If the timeout's exception has replaced a cancellation, raises the cancellation instead
 * (Gyre::Scheduler#cancellation_in). */
static void prefer_cancellation(VALUE self, VALUE exception) {
  rb_set_errinfo(Qnil);
  VALUE before = rb_gv_get("$!");
  VALUE cancellation = rb_funcall(self, rb_intern("cancellation_in"), 2, exception, before);
  if (!NIL_P(cancellation)) rb_exc_raise(cancellation);
  rb_set_errinfo(exception);
}

static VALUE timeout_ensure(VALUE argument) {
  struct timeout *timeout = (struct timeout *)argument;
  struct gyre_scheduler *scheduler = timeout->scheduler;
  end_timeout(timeout);
  if (!NIL_P(timeout->exception) && !timeout->returned && scheduler && rb_errinfo() == timeout->exception)
    prefer_cancellation(scheduler->self, timeout->exception);
  return Qnil;
}

static void arm(struct timeout *timeout, struct gyre_scheduler *scheduler, int64_t duration_ns, int argc, VALUE *argv) {
  gyre_list_init(&timeout->node);
  timeout->scheduler = scheduler;
  timeout->duration = argv[0];
  if (argc > 1 && !NIL_P(argv[1])) {
    timeout->count = argc - 1;
    for (int i = 1; i < argc; i++) timeout->arguments[i - 1] = argv[i];
  } else {
    timeout->count = 2;
    timeout->arguments[0] = rb_path2class("Timeout::Error");
    timeout->arguments[1] = argc > 2 ? argv[2] : rb_str_new_cstr("execution expired");
  }
  timeout->timer.fire = timeout_fire;
  if (gyre_timers_arm(&scheduler->loop.timers, &timeout->timer, gyre_loop_now(&scheduler->loop) + duration_ns) < 0)
    rb_memerror();
}

/* Runs the block with a time limit (Fiber::Scheduler#timeout_after, for Timeout.timeout). */
static VALUE scheduler_timeout_after(int argc, VALUE *argv, VALUE self) {
  struct gyre_scheduler *scheduler = gyre_scheduler_opened(self);
  rb_check_arity(argc, 1, 4);
  int64_t duration_ns = gyre_duration_ns(argv[0]);
  if (duration_ns < 0) return rb_yield(argv[0]);

  if (gyre_fiber_is_pooled(scheduler)) {
    struct timeout timeout = {.fiber = rb_fiber_current(), .id = Qnil, .exception = Qnil};
    arm(&timeout, scheduler, duration_ns, argc, argv);
    return rb_ensure(timeout_body, (VALUE)&timeout, timeout_ensure, (VALUE)&timeout);
  }

  struct timeout *timeout;
  VALUE owner = TypedData_Make_Struct(timeout_class, struct timeout, &timeout_type, timeout);
  gyre_list_init(&timeout->node);
  timeout->fiber = Qundef;
  timeout->exception = Qnil;
  timeout->id = gyre_fiber_id(scheduler, rb_fiber_current());
  arm(timeout, scheduler, duration_ns, argc, argv);
  gyre_list_append(&scheduler->interrupts.timeouts, &timeout->node);
  VALUE result = rb_ensure(timeout_body, (VALUE)timeout, timeout_ensure, (VALUE)timeout);
  RB_GC_GUARD(owner);
  return result;
}

/* --- a call of the future, which holds no fiber and keeps no loop running --- */

struct later {
  struct gyre_client entry; /* self: what is called */
  struct gyre_timer timer;
  struct gyre_scheduler *scheduler;
};

static void later_end(struct gyre_client *entry) {
  gyre_list_remove(&entry->node);
  xfree(GYRE_CONTAINER(entry, struct later, entry));
}

static void later_closing(struct gyre_client *entry) {
  struct later *later = GYRE_CONTAINER(entry, struct later, entry);
  if (gyre_timer_armed(&later->timer)) gyre_timers_cancel(&later->scheduler->loop.timers, &later->timer);
  later_end(entry);
}

static VALUE later_call(VALUE callable) { return rb_funcall(callable, rb_intern("call"), 0); }

static VALUE later_spawn(VALUE argument) {
  const struct later *later = (struct later *)argument;
  return gyre_spawn(later->scheduler, later_call, later->entry.self, Qnil);
}

static void later_fire(struct gyre_timer *timer, void *context) {
  struct later *later = GYRE_CONTAINER(timer, struct later, timer), copy = *later;
  VALUE callable = later->entry.self;
  int failed = 0;
  later_end(&later->entry);
  rb_protect(later_spawn, (VALUE)&copy, &failed);
  if (failed) rb_set_errinfo(Qnil); /* no fiber could be made */
  RB_GC_GUARD(callable);
}

/* Calls an object after `seconds` in a fiber of its own, unless the loop closes or the process
 * forks before. Returns false if the clock is virtual, as such a clock would jump to that time. */
static VALUE scheduler_call_later(VALUE self, VALUE seconds, VALUE callable) {
  struct gyre_scheduler *scheduler = gyre_scheduler_opened(self);
  int64_t duration_ns = gyre_duration_ns(seconds);
  if (scheduler->loop.virtual_ns || duration_ns < 0) return Qfalse;
  struct later *later = ZALLOC(struct later);
  later->scheduler = scheduler;
  later->timer.fire = later_fire;
  later->entry =
      (struct gyre_client){.forks = gyre_forks, .self = callable, .closing = later_closing, .forked = later_end};
  if (gyre_timers_arm(&scheduler->loop.timers, &later->timer, gyre_loop_now(&scheduler->loop) + duration_ns) < 0) {
    xfree(later);
    rb_memerror();
  }
  gyre_list_append(&scheduler->clients, &later->entry.node);
  return Qtrue;
}

void gyre_init_scheduler_timeout(void) {
  timeout_class = gyre_kept(rb_class_new(rb_cObject));
  rb_undef_alloc_func(timeout_class);
  never = gyre_kept(rb_hash_new());
  rb_hash_aset(never, rb_cObject, ID2SYM(rb_intern("never")));
  rb_obj_freeze(never);
  rb_define_method(gyre_cScheduler, "timeout_after", scheduler_timeout_after, -1);
  rb_define_method(gyre_cScheduler, "call_later", scheduler_call_later, 2);
}
