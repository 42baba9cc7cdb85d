/* Gyre::Testing on a native scheduler: a clock that jumps from timer to timer, and a seeded order
 * of ready fibers. Called only by lib/gyre/testing.rb. */
#include "fiber/scheduler.h"

/* From now on the clock only jumps, and ready fibers are drawn by the seed; nil keeps their
 * order. */
static VALUE scheduler_simulate(VALUE self, VALUE seed) {
  struct gyre_scheduler *scheduler = gyre_scheduler_opened(self);
  if (!NIL_P(seed)) {
    uint64_t random = NUM2ULL(seed) * UINT64_C(0x9e3779b97f4a7c15) + 1; /* spreads seeds */
    scheduler->slice.random = random ? random : 1;
  }
  scheduler->loop.virtual_ns = gyre_timers_now();
  return Qnil;
}

/* Seconds of the monotonic clock plus jumps. */
static VALUE scheduler_virtual_now(VALUE self) {
  return DBL2NUM((double)gyre_loop_now(&gyre_scheduler_get(self)->loop) / 1e9);
}

/* Work beside the loop begins (1) or ends (-1): meanwhile time is real. */
static VALUE scheduler_outside(VALUE self, VALUE change) {
  gyre_scheduler_get(self)->loop.outside += (unsigned)NUM2INT(change);
  return Qnil;
}

void gyre_init_scheduler_testing(void) {
  rb_define_method(gyre_cScheduler, "simulate", scheduler_simulate, 1);
  rb_define_method(gyre_cScheduler, "virtual_now", scheduler_virtual_now, 0);
  rb_define_method(gyre_cScheduler, "outside", scheduler_outside, 1);
}
