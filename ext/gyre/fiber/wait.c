/* A wait: a parked fiber with a timer and a watched descriptor. Used by scheduler_block.c,
 * scheduler_io.c and HTTP. */
#include "fiber/scheduler.h"

#include <math.h>

int64_t gyre_duration_ns(VALUE duration) {
  if (NIL_P(duration)) return -1;
  if (FIXNUM_P(duration) && FIX2LONG(duration) >= 0 && FIX2LONG(duration) <= INT32_MAX)
    return (int64_t)FIX2LONG(duration) * 1000000000;
  double seconds = NUM2DBL(duration);
  if (isnan(seconds) || seconds < 0) rb_raise(rb_eArgError, "time interval must not be negative");
  /* Rounds up: never earlier than requested, and only 0 gives 0. */
  return seconds > 9e9 ? INT64_C(9000000000000000000) : (int64_t)ceil(seconds * 1e9);
}

static void time_is_over(struct gyre_timer *timer, void *context) {
  struct gyre_wait *wait = GYRE_CONTAINER(timer, struct gyre_wait, timer);
  if (wait->parked.state != GYRE_PARKED) return;
  wait->timed_out = true;
  gyre_wake(wait->parked.scheduler, &wait->parked);
}

static void descriptor_is_ready(struct gyre_loop *loop, struct gyre_watch *watch, unsigned ready) {
  struct gyre_wait *wait = GYRE_CONTAINER(watch, struct gyre_wait, watch);
  wait->ready |= ready & watch->interest;
  gyre_wake(gyre_scheduler_of(loop), &wait->parked);
}

static bool io_is_closed(struct gyre_loop *loop, struct gyre_watch *watch, VALUE io) {
  if (watch->ready != descriptor_is_ready) return false;
  if (GYRE_CONTAINER(watch, struct gyre_wait, watch)->parked.blocker == io)
    descriptor_is_ready(loop, watch, watch->interest);
  return true;
}

void gyre_wait_begin(struct gyre_scheduler *scheduler, struct gyre_wait *wait, VALUE blocker) {
  wait->timer.place = 0;
  wait->timer.fire = time_is_over;
  wait->watch.fd = -1;
  wait->watch.ready = descriptor_is_ready;
  wait->ready = 0;
  wait->timed_out = wait->unblocked = false;
  wait->is_broken = NULL;
  gyre_list_init(&wait->descriptor_node);
  gyre_park_begin(scheduler, &wait->parked, blocker);
}

void gyre_wait_end(struct gyre_wait *wait) {
  gyre_park_end(&wait->parked);
  gyre_list_remove(&wait->descriptor_node);
  if (gyre_timer_armed(&wait->timer)) gyre_timers_cancel(&wait->parked.scheduler->loop.timers, &wait->timer);
  if (wait->watch.fd >= 0) gyre_loop_unwatch(&wait->parked.scheduler->loop, &wait->watch);
}

VALUE gyre_wait_body(VALUE argument) {
  struct gyre_wait *wait = (struct gyre_wait *)argument;
  gyre_park(&wait->parked);
  return Qnil;
}

static VALUE wait_ensure(VALUE argument) {
  gyre_wait_end((struct gyre_wait *)argument);
  return Qnil;
}

void gyre_wait_arm(struct gyre_wait *wait, int64_t timeout_ns) {
  struct gyre_loop *loop = &wait->parked.scheduler->loop;
  if (timeout_ns < 0 || gyre_timers_arm(&loop->timers, &wait->timer, gyre_loop_now(loop) + timeout_ns) == 0) return;
  gyre_wait_end(wait);
  rb_memerror();
}

void gyre_wait_again(struct gyre_wait *wait) {
  struct gyre_parked *parked = &wait->parked;
  if (parked->state == GYRE_RUNNING) gyre_park_begin(parked->scheduler, parked, parked->blocker);
  gyre_park(parked);
}

int gyre_wait_io(struct gyre_scheduler *scheduler, int fd, unsigned events, int64_t timeout_ns, VALUE blocker) {
  struct gyre_wait wait;
  gyre_wait_begin(scheduler, &wait, blocker);
  int error = gyre_loop_watch(&scheduler->loop, &wait.watch, fd, events);
  if (error < 0) {
    gyre_wait_end(&wait);
    return error == -EPERM ? (int)events : error;
  }
  gyre_wait_arm(&wait, timeout_ns);
  gyre_list_append(&scheduler->sweeping.descriptor_waits, &wait.descriptor_node);
  rb_ensure(gyre_wait_body, (VALUE)&wait, wait_ensure, (VALUE)&wait);
  return (int)wait.ready;
}

/* Closes made in C are not reported (loop_close.c). So after fibers have run, at most once per
 * SWEEP_NS, a sweep finds closed descriptors by poll(2). An idle loop sweeps once and then sleeps.
 * A sweep also looks for deadlocks if nothing in the loop could wake a fiber. */
#define SWEEP_NS INT64_C(100000000)

/* True if nothing in this loop can wake a fiber. */
static bool is_idle(const struct gyre_scheduler *scheduler) {
  const struct gyre_loop *loop = &scheduler->loop;
  return loop->timers.count == gyre_timer_armed(&scheduler->pool.trim) && loop->watched_count == 0;
}

static bool may_be_stuck(const struct gyre_scheduler *scheduler) {
  return scheduler->waits.parked_count > 0 && (scheduler->sweeping.suspicious || is_idle(scheduler));
}

static void sweep(struct gyre_timer *timer, void *context) {
  struct gyre_scheduler *scheduler = gyre_scheduler_of(context);
  struct gyre_watch *watches[GYRE_CLOSED_BATCH];
  int count = 0;
  GYRE_EACH(struct gyre_wait, wait, &scheduler->sweeping.descriptor_waits, descriptor_node) {
    if (wait->parked.state != GYRE_PARKED) continue;
    if (wait->is_broken && wait->is_broken(wait)) gyre_wake(scheduler, &wait->parked);
    if (wait->watch.fd < 0) continue;
    watches[count++] = &wait->watch;
    if (count == GYRE_CLOSED_BATCH) {
      gyre_loop_report_closed(&scheduler->loop, watches, count);
      count = 0;
    }
  }
  gyre_loop_report_closed(&scheduler->loop, watches, count);
  if (may_be_stuck(scheduler) && scheduler->waits.ready_count == 0) {
    rb_funcall(scheduler->self, rb_intern("refuse_deadlock"), 1, is_idle(scheduler) ? Qtrue : Qfalse); /* may raise */
  }
  scheduler->sweeping.switches = scheduler->slice.switches;
}

void gyre_sweep(struct gyre_scheduler *scheduler) {
  if (scheduler->sweeping.switches == scheduler->slice.switches || gyre_timer_armed(&scheduler->sweeping.timer)) return;
  if (gyre_list_empty(&scheduler->sweeping.descriptor_waits) && !may_be_stuck(scheduler)) return;
  scheduler->sweeping.timer.fire = sweep;
  (void)gyre_timers_arm(&scheduler->loop.timers, &scheduler->sweeping.timer,
                        gyre_loop_now(&scheduler->loop) + (scheduler->loop.virtual_ns ? 0 : SWEEP_NS));
}

void gyre_init_wait(void) { gyre_loop_on_io_close(io_is_closed); }
