/* Statistics of Gyre::Scheduler, the list of its waits, and questions to waiting fibers. */
#include "fiber/fibers.h"

#include <ruby/fiber/scheduler.h>

static VALUE waiting, ready;

static void set_count(VALUE stats, const char *name, uint64_t count) {
  rb_hash_aset(stats, ID2SYM(rb_intern(name)), ULL2NUM(count));
}

/* Counts the scheduler's own timers, which the statistics leave out. */
static unsigned own_timers(const struct gyre_scheduler *scheduler) {
  return scheduler ? (unsigned)gyre_timer_armed(&scheduler->sweeping.timer) +
                         (unsigned)gyre_timer_armed(&scheduler->pool.trim)
                   : 0;
}

VALUE gyre_stats(const struct gyre_loop *loop, const struct gyre_scheduler *scheduler) {
  static const struct {
    const char *name;
    double share;
  } lags[] = {{"lag_p50_s", 0.5}, {"lag_p90_s", 0.9}, {"lag_p99_s", 0.99}, {"lag_max_s", 1}};
  VALUE stats = rb_hash_new();
  set_count(stats, "turns", loop->statistics.turns);
  set_count(stats, "waits", loop->statistics.waits);
  set_count(stats, "wakeups", loop->statistics.wakeups);
  set_count(stats, "events", loop->statistics.events);
  set_count(stats, "tasks", scheduler ? scheduler->pool.busy_count : 0);
  set_count(stats, "idle_fibers", scheduler ? scheduler->pool.idle_count : 0);
  set_count(stats, "parked", scheduler ? scheduler->waits.parked_count : 0);
  set_count(stats, "ready", scheduler ? scheduler->waits.ready_count : 0);
  set_count(stats, "timers", loop->timers.count - own_timers(scheduler));
  set_count(stats, "descriptors", (uint64_t)loop->watched_count);
  for (int i = 0; i < 4; i++) {
    rb_hash_aset(stats, ID2SYM(rb_intern(lags[i].name)),
                 DBL2NUM((double)gyre_lag_percentile(&loop->lag, lags[i].share) / 1e9));
  }
  return stats;
}

static VALUE scheduler_stats(VALUE self) {
  struct gyre_scheduler *scheduler = gyre_scheduler_get(self);
  return gyre_stats(&scheduler->loop, scheduler);
}

/* Returns a number that changes at each turn and switch; nil while the loop sleeps. Any thread may
 * call it. */
static VALUE scheduler_pulse(VALUE self) {
  struct gyre_scheduler *scheduler = gyre_scheduler_get(self);
  if (scheduler->closed || scheduler->loop.waiting) return Qnil;
  return ULL2NUM(scheduler->slice.switches + scheduler->loop.statistics.turns);
}

/* Sets whether sweeps look for deadlocks even if timers and descriptors may wake fibers. */
static VALUE scheduler_set_suspicious(VALUE self, VALUE value) {
  gyre_scheduler_get(self)->sweeping.suspicious = RTEST(value);
  return value;
}

static VALUE describe(struct gyre_parked *parked) {
  VALUE values[] = {
      parked->fiber, parked->entered, parked->state == GYRE_READY ? ready : waiting, Qnil, Qnil, INT2FIX(0), Qnil};
  if (parked->blocker != Qundef) {
    struct gyre_wait *wait = GYRE_CONTAINER(parked, struct gyre_wait, parked);
    values[3] = parked->blocker;
    if (wait->watch.fd >= 0) {
      values[4] = INT2NUM(wait->watch.fd);
      values[5] = UINT2NUM(wait->watch.interest & (GYRE_READABLE | GYRE_PRIORITY | GYRE_WRITABLE));
    }
    if (gyre_timer_armed(&wait->timer))
      values[6] = DBL2NUM((double)(wait->timer.when_ns - gyre_loop_now(&wait->parked.scheduler->loop)) / 1e9);
  }
  return rb_ary_new_from_values(7, values);
}

static bool is_one_of(VALUE object, VALUE classes) {
  if (object == Qundef) return false;
  for (long i = 0; i < RARRAY_LEN(classes); i++) {
    if (RTEST(rb_obj_is_kind_of(object, RARRAY_AREF(classes, i)))) return true;
  }
  return false;
}

/* Lists waiting and ready fibers, for Gyre::Scheduler#waits; `classes` selects by the awaited
 * object's class; nil: all. Any thread may call it. */
static VALUE scheduler_list_waits(VALUE self, VALUE classes) {
  if (!NIL_P(classes)) Check_Type(classes, T_ARRAY);
  struct gyre_scheduler *scheduler = gyre_scheduler_get(self);
  struct gyre_list *lists[] = {&scheduler->waits.parked, &scheduler->waits.ready};
  VALUE waits = rb_ary_new();
  for (int i = 0; i < 2; i++) {
    GYRE_EACH(struct gyre_parked, parked, lists[i], node) {
      if (!NIL_P(classes) && !is_one_of(parked->blocker, classes)) continue;
      rb_ary_push(waits, describe(parked));
    }
  }
  return waits;
}

static bool stays_in_gyre_enter(struct gyre_scheduler *scheduler, VALUE fiber) {
  if (fiber == scheduler->drivers.fiber) return !scheduler->interrupts.is_away;
  struct gyre_list *lists[] = {&scheduler->waits.parked, &scheduler->waits.ready};
  for (int i = 0; i < 2; i++) {
    GYRE_EACH(struct gyre_parked, parked, lists[i], node) {
      if (parked->fiber == fiber) return true;
    }
  }
  return false;
}

/* Runs the block in a waiting fiber, because some facts are known only there (Mutex#owned?). The
 * block must not wait. Returns its value, or nil if the fiber cannot be entered. Only for the
 * scheduler's thread. */
static VALUE scheduler_ask(VALUE self, VALUE fiber) {
  struct gyre_scheduler *scheduler = gyre_scheduler_get(self);
  struct gyre_question question = {rb_fiber_current(), rb_block_proc(), Qnil, Qnil},
                       *before = scheduler->running.question;
  if (fiber == question.asker) return rb_proc_call_with_block(question.block, 0, NULL, Qnil);
  if (!stays_in_gyre_enter(scheduler, fiber)) return Qnil;

  int state = 0;
  scheduler->running.question = &question;
  rb_protect(gyre_transfer, fiber, &state);
  scheduler->running.question = before;
  if (state) {
    if (!rb_obj_is_kind_of(rb_errinfo(), rb_eStandardError)) rb_jump_tag(state);
    rb_set_errinfo(Qnil); /* a FiberError: the fiber has resumed another one */
    return Qnil;
  }
  if (RTEST(rb_obj_is_kind_of(question.error, rb_eException))) rb_exc_raise(question.error);
  RB_GC_GUARD(question.asker);
  RB_GC_GUARD(question.block);
  RB_GC_GUARD(question.answer);
  RB_GC_GUARD(question.error);
  return question.answer;
}

/* Returns whether another thread runs a blocking fiber, whose waits Ruby shows to no scheduler. */
static VALUE scheduler_is_blocking(VALUE self, VALUE thread) {
  return NIL_P(rb_fiber_scheduler_current_for_thread(thread)) ? Qtrue : Qfalse;
}

void gyre_init_scheduler_inspection(void) {
  waiting = ID2SYM(rb_intern("waiting"));
  ready = ID2SYM(rb_intern("ready"));
  VALUE class = gyre_cScheduler;
  rb_define_method(class, "stats", scheduler_stats, 0);
  rb_define_method(class, "pulse", scheduler_pulse, 0);
  rb_define_method(class, "suspicious=", scheduler_set_suspicious, 1);
  rb_define_method(class, "list_waits", scheduler_list_waits, 1);
  rb_define_method(class, "ask", scheduler_ask, 1);
  rb_define_singleton_method(class, "blocking?", scheduler_is_blocking, 1);
}
