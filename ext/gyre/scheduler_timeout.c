/*
 * Timeout.timeout (the timeout_after hook): a timer in C, and an interrupt when it fires before the block
 * has ended.
 */
#include "scheduler.h"

struct timeout {
  struct gyre_scheduler *scheduler;
  struct gyre_timer timer;
  struct gyre_interrupt *interrupt;
  VALUE fiber, duration, class, message;
};

static VALUE timeout_exception(VALUE argument) {
  struct timeout *timeout = (struct timeout *)argument;
  return rb_class_new_instance(NIL_P(timeout->message) ? 0 : 1, &timeout->message, timeout->class);
}

static void timeout_fire(struct gyre_timer *timer, void *context) {
  struct timeout *timeout = GYRE_CONTAINER(timer, struct timeout, timer);
  int state = 0;
  VALUE exception = rb_protect(timeout_exception, (VALUE)timeout, &state);
  if (state) { /* what its constructor raised is raised instead */
    exception = rb_errinfo();
    rb_set_errinfo(Qnil);
  }
  timeout->interrupt = gyre_interrupt_fiber(gyre_scheduler_of(context), timeout->fiber, exception);
  if (timeout->interrupt) timeout->interrupt->owner = &timeout->interrupt;
}

static VALUE timeout_body(VALUE argument) { return rb_yield(((struct timeout *)argument)->duration); }

static VALUE timeout_ensure(VALUE argument) {
  struct timeout *timeout = (struct timeout *)argument;
  gyre_timers_cancel(&timeout->scheduler->loop.timers, &timeout->timer);
  if (timeout->interrupt) gyre_interrupt_cancel(timeout->scheduler, timeout->interrupt);
  return Qnil;
}

/*
 * Runs the block and raises in it when the time is over (Fiber::Scheduler#timeout_after, which Timeout.timeout calls).
 *
 * @param duration [Numeric, nil] seconds
 * @param class [Class] of the exception
 * @param message [String]
 * @yieldparam duration [Numeric]
 * @return [Object] the block's value
 */
static VALUE scheduler_timeout_after(int argc, VALUE *argv, VALUE self) {
  struct timeout timeout = {.scheduler = gyre_scheduler_opened(self), .fiber = rb_fiber_current()};
  rb_scan_args(argc, argv, "12", &timeout.duration, &timeout.class, &timeout.message);
  if (NIL_P(timeout.class)) timeout.class = rb_path2class("Timeout::Error");
  int64_t duration_ns = gyre_duration_ns(timeout.duration);
  if (duration_ns < 0) return rb_yield(timeout.duration);

  timeout.timer.fire = timeout_fire;
  if (gyre_timers_arm(&timeout.scheduler->loop.timers, &timeout.timer,
                      gyre_loop_now(&timeout.scheduler->loop) + duration_ns) < 0)
    rb_memerror();
  VALUE result = rb_ensure(timeout_body, (VALUE)&timeout, timeout_ensure, (VALUE)&timeout);
  RB_GC_GUARD(timeout.fiber);
  return result;
}

void gyre_init_scheduler_timeout(void) {
  rb_define_method(gyre_cNativeScheduler, "timeout_after", scheduler_timeout_after, -1);
}
