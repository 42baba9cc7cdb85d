/*
 * What Gyre::Testing asks of a native scheduler: a clock that jumps from timer to timer instead of
 * sleeping, and an order of the ready fibers that a seed decides. Called by lib/gyre/testing.rb
 * only; any other scheduler is unchanged.
 */
#include "fiber/scheduler.h"

/*
 * From now on the time stands still but for jumps, and the ready fibers are drawn.
 *
 * @param seed [Integer, nil] the same one gives the same order; nil leaves the ready fibers in
 *   their own
 * @return [nil]
 */
static VALUE scheduler_simulate(VALUE self, VALUE seed) {
  struct gyre_scheduler *scheduler = gyre_scheduler_opened(self);
  if (!NIL_P(seed)) {
    uint64_t random = NUM2ULL(seed) * UINT64_C(0x9e3779b97f4a7c15) + 1; /* neighbouring seeds are far apart */
    scheduler->random = random ? random : 1;
  }
  scheduler->loop.virtual_ns = gyre_timers_now();
  return Qnil;
}

/* @return [Float] the time of the loop, in seconds of the monotonic clock and its jumps */
static VALUE scheduler_virtual_now(VALUE self) {
  return DBL2NUM((double)gyre_loop_now(&gyre_scheduler_get(self)->loop) / 1e9);
}

/*
* Tells that something beside the loop works for it, or has finished: meanwhile time goes at its
* real speed.
 *
 * @param change [Integer] 1 or -1
 * @return [nil]
 */
static VALUE scheduler_outside(VALUE self, VALUE change) {
  gyre_scheduler_get(self)->loop.outside += (unsigned)NUM2INT(change);
  return Qnil;
}

void gyre_init_scheduler_testing(void) {
  rb_define_method(gyre_cScheduler, "simulate", scheduler_simulate, 1);
  rb_define_method(gyre_cScheduler, "virtual_now", scheduler_virtual_now, 0);
  rb_define_method(gyre_cScheduler, "outside", scheduler_outside, 1);
}
