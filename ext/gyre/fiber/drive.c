/* Drives the loop in turns: delivers interrupts, runs ready fibers, polls the loop. If there are
 * several drivers (such as a `run` inside a `run_until`), only the newest one drives. */
#include "fiber/fibers.h"

#define UNWIND_NS INT64_C(1000000000) /* time that a round gives stopped fibers to clean up */
#define UNWIND_ROUNDS 3

static bool has_posts(const struct gyre_scheduler *scheduler) {
  return !gyre_list_empty(&scheduler->posts) || !gyre_list_empty(&scheduler->due_posts);
}

/* The newest driver also waits for overtaken drivers; these do not wait for each other. */
bool gyre_nothing_left(struct gyre_scheduler *scheduler, struct gyre_driving *driving) {
  size_t parked_count = scheduler->waits.parked_count;
  if (scheduler->drivers.newest != driving) parked_count -= scheduler->drivers.overtaken_count;
  return parked_count == 0 && scheduler->waits.ready_count == 0 && gyre_list_empty(&scheduler->interrupts.due) &&
         gyre_list_empty(&scheduler->interrupts.postponed) && !has_posts(scheduler) &&
         gyre_list_empty(&scheduler->keepers) && gyre_list_empty(&scheduler->loop.deferred);
}

/* Makes an overtaken driver wait like a parked fiber. */
static void displace(struct gyre_scheduler *scheduler, struct gyre_driving *driving) {
  driving->parked.state = GYRE_PARKED;
  gyre_parked_mark(scheduler, &driving->parked, true);
  gyre_list_append(&scheduler->waits.parked, &driving->parked.node);
  scheduler->waits.parked_count++;
  scheduler->drivers.overtaken_count++;
}

static void go_on(struct gyre_scheduler *scheduler, struct gyre_driving *driving, enum gyre_parked_state state) {
  if (driving->parked.state == GYRE_PARKED) scheduler->drivers.overtaken_count--;
  if (state == GYRE_READY) {
    gyre_parked_make_ready(scheduler, &driving->parked, false);
  } else {
    gyre_parked_leave(scheduler, &driving->parked, state);
  }
}

static void set_driving(struct gyre_scheduler *scheduler, struct gyre_driving *driving) {
  scheduler->drivers.newest = driving;
  scheduler->drivers.fiber = driving ? driving->parked.fiber : Qnil;
}

/* Returns an overtaken driver that was not asked in this turn, or NULL. */
static struct gyre_driving *next_to_ask(struct gyre_scheduler *scheduler) {
  struct gyre_driving *driving = scheduler->drivers.newest;
  while (driving && (driving->asked || driving->parked.state != GYRE_PARKED)) driving = driving->before;
  return driving;
}

static bool is_overtaken(struct gyre_scheduler *scheduler, const struct gyre_driving *wanted) {
  struct gyre_driving *driving = scheduler->drivers.newest;
  while (driving && driving != wanted) driving = driving->before;
  return driving && driving->parked.state == GYRE_PARKED;
}

/* Wakes overtaken drivers whose condition holds. A condition may be the program's block, which may
 * begin and end drivers, so the search starts again after each condition. */
static void ask_for_overtaken(struct gyre_scheduler *scheduler) {
  struct gyre_driving *driving;
  for (driving = scheduler->drivers.newest; driving; driving = driving->before) driving->asked = false;
  while ((driving = next_to_ask(scheduler))) {
    driving->asked = true;
    if (driving->done(scheduler, driving) && is_overtaken(scheduler, driving)) go_on(scheduler, driving, GYRE_READY);
  }
}

/* Runs posts that an exception skipped, then this turn's. New posts wait for the next turn. */
static void run_posts(struct gyre_scheduler *scheduler) {
  gyre_list_splice(&scheduler->due_posts, &scheduler->posts);
  GYRE_EACH_TAKEN(struct gyre_post, post, &scheduler->due_posts, node) post->run(scheduler, post);
}

static void turn(struct gyre_scheduler *scheduler, struct gyre_driving *driving) {
  struct gyre_sight_account *loop = &scheduler->sight.rows[GYRE_SIGHT_LOOP];
  gyre_sight_switch(&scheduler->sight, loop);
  if (!gyre_list_empty(&scheduler->interrupts.due)) gyre_interrupts_deliver(scheduler);
  if (has_posts(scheduler)) run_posts(scheduler);

  gyre_budget_refill(scheduler);
  while (!gyre_budget_is_spent(scheduler)) {
    VALUE fiber = gyre_ready_take(scheduler);
    if (NIL_P(fiber)) break;
    scheduler->slice.budget--;
    if (fiber == driving->parked.fiber) { /* the driver itself */
      if (driving->overdue) gyre_loop_poll(&scheduler->loop, false);
      driving->overdue = false;
      return;
    }
    gyre_enter(scheduler, fiber);
    if (scheduler->drivers.newest != driving) return; /* overtaken meanwhile */
    gyre_entered(scheduler, &driving->parked);
    gyre_sight_switch(&scheduler->sight, loop); /* the driver may be a worker */
    if (driving->done == gyre_parked_is_running && driving->done(scheduler, driving)) return;
    if (!gyre_list_empty(&scheduler->interrupts.due)) break;
  }
  gyre_interrupts_resume(scheduler);
  gyre_loop_run_deferred(&scheduler->loop);
  rb_thread_check_ints();
  if (driving->done(scheduler, driving)) return;
  if (driving->before) ask_for_overtaken(scheduler);

  bool wait = scheduler->waits.ready_count == 0 && gyre_list_empty(&scheduler->interrupts.due) && !has_posts(scheduler);
  if (wait) scheduler->sweeping.before_sleep(scheduler);
  gyre_loop_poll(&scheduler->loop, wait);
}

static VALUE drive_body(VALUE argument) {
  struct gyre_driving *driving = (struct gyre_driving *)argument;
  struct gyre_scheduler *scheduler = driving->parked.scheduler;
  while (!driving->done(scheduler, driving)) {
    /* A forked child has forgotten its drivers. The forking fiber has ended, so this driver becomes
     * the newest one. */
    if (!scheduler->drivers.newest) set_driving(scheduler, driving);
    if (scheduler->drivers.newest == driving) {
      turn(scheduler, driving);
    } else {
      gyre_park(&driving->parked);
      if (scheduler->drivers.newest && scheduler->drivers.newest != driving && driving->parked.state == GYRE_RUNNING)
        displace(scheduler, driving);
    }
  }
  return Qnil;
}

static VALUE drive_ensure(VALUE argument) {
  struct gyre_driving *driving = (struct gyre_driving *)argument;
  struct gyre_scheduler *scheduler = driving->parked.scheduler;
  go_on(scheduler, driving, GYRE_RUNNING);
  gyre_entered(scheduler, &driving->parked);
  if (driving->parked.interrupt) gyre_interrupt_return(scheduler, &driving->parked);
  if (scheduler->drivers.newest == driving) {
    set_driving(scheduler, driving->before);
    /* The fiber of `before` is entered once no other fiber is ready. */
    if (driving->before) go_on(scheduler, driving->before, GYRE_RUNNING);
  } else {
    struct gyre_driving *newer = scheduler->drivers.newest;
    while (newer && newer->before != driving) newer = newer->before;
    if (newer) newer->before = driving->before;
  }
  gyre_sight_switch(&scheduler->sight, gyre_sight_of(scheduler, driving->parked.worker));
  return Qnil;
}

void gyre_drive(struct gyre_scheduler *scheduler, bool (*done)(struct gyre_scheduler *, struct gyre_driving *),
                void *context) {
  gyre_thread_check(scheduler);
  VALUE fiber = rb_fiber_current();
  struct gyre_driving driving = {
      .before = scheduler->drivers.newest,
      .done = done,
      .context = context,
      .overdue = scheduler->slice.budget == 0,
      .parked = {.scheduler = scheduler,
                 .fiber = fiber,
                 .entered = NIL_P(scheduler->running.entered) ? fiber : scheduler->running.entered,
                 .worker = scheduler->running.worker,
                 .blocker = Qundef,
                 .state = GYRE_RUNNING}};
  gyre_list_init(&driving.parked.node);
  if (driving.before && driving.before->parked.fiber != fiber) displace(scheduler, driving.before);
  set_driving(scheduler, &driving);
  rb_ensure(drive_body, (VALUE)&driving, drive_ensure, (VALUE)&driving);
}

static bool unwound(struct gyre_scheduler *scheduler, struct gyre_driving *driving) {
  return (scheduler->waits.parked_count == 0 && scheduler->waits.ready_count == 0) ||
         gyre_loop_now(&scheduler->loop) > *(int64_t *)driving->context;
}

static void unwind_time_is_over(struct gyre_timer *timer, void *context) {
  /* only ends the loop's sleep, as `unwound` reads the clock */
}

/* Returns a copy, because interrupts change the list. */
static VALUE parked_fibers(struct gyre_scheduler *scheduler) {
  VALUE fibers = rb_ary_new_capa((long)scheduler->waits.parked_count), me = rb_fiber_current();
  GYRE_EACH(struct gyre_parked, parked, &scheduler->waits.parked, node) {
    if (parked->fiber != me) rb_ary_push(fibers, parked->fiber);
  }
  return fibers;
}

void gyre_unwind(struct gyre_scheduler *scheduler) {
  VALUE class = rb_const_get(gyre_mGyre, rb_intern("Stop"));
  for (int round = 0; round < UNWIND_ROUNDS && scheduler->waits.parked_count > 0; round++) {
    VALUE fibers = parked_fibers(scheduler);
    for (long i = 0; i < RARRAY_LEN(fibers); i++) {
      VALUE message = rb_str_new_cstr("the scheduler closes");
      VALUE stop = rb_class_new_instance(1, &message, class);
      gyre_interrupt_fiber(scheduler, RARRAY_AREF(fibers, i), stop);
    }
    int64_t deadline_ns = gyre_loop_now(&scheduler->loop) + UNWIND_NS;
    scheduler->unwinding.fire = unwind_time_is_over;
    (void)gyre_timers_arm(&scheduler->loop.timers, &scheduler->unwinding, deadline_ns + 1);
    gyre_drive(scheduler, unwound, &deadline_ns);
    gyre_timers_cancel(&scheduler->loop.timers, &scheduler->unwinding);
  }
}
