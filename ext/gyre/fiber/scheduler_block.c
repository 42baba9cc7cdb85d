/* The hooks block, unblock and kernel_sleep, for Mutex, Queue, ConditionVariable, Thread#join and
 * Gyre's primitives. An unblock may bring the fiber a gift (a lock or queue element), which must
 * not be lost. So the unblock wins over a timeout in the same turn, and if an exception precedes
 * the fiber's next run, another waiter gets the gift (interrupts.c). */
#include "fiber/fibers.h"

static VALUE sleeping; /* :sleep */

/* --- early unblocks ---
 *
 * Another thread may unblock a fiber just before the fiber calls `block`. Such an early unblock
 * ends the fiber's next block if the blocker is the same. Otherwise it may be a late unblock, for a
 * wait that has ended by itself. The table keeps the blocker's address, and a bit that tells
 * whether the unblock ends a sleep. */

#define EARLY_SIGNAL ((st_data_t)1)
#define EARLY_ANY (~(st_data_t)1) /* there were several, for different blockers */

static st_data_t early_key(VALUE blocker) { return (st_data_t)blocker << 1; }

/* True if an unblock for this blocker ends a sleep. ConditionVariable#signal passes a mutex.
 * IO#close passes the IO (Ruby 4.0) or the thread (Ruby 3.4). */
static bool is_signal(const struct gyre_scheduler *scheduler, VALUE blocker) {
  return blocker == scheduler->thread || RB_TYPE_P(blocker, T_FILE) || gyre_is_mutex(blocker);
}

static int is_over(st_data_t fiber, st_data_t early, st_data_t context) {
  return RTEST(rb_fiber_alive_p((VALUE)fiber)) ? ST_CONTINUE : ST_DELETE;
}

/* Keeps an early unblock; drops those of ended fibers. The other fibers are marked, so that no new
 * fiber gets their address. */
static void keep_early(struct gyre_scheduler *scheduler, VALUE fiber, VALUE blocker) {
  st_foreach(scheduler->blocks.early, is_over, 0);
  if (!RTEST(rb_fiber_alive_p(fiber))) return;
  st_data_t before, early = early_key(blocker) | (is_signal(scheduler, blocker) ? EARLY_SIGNAL : 0);
  if (st_lookup(scheduler->blocks.early, (st_data_t)fiber, &before) && before != early)
    early = EARLY_ANY | ((before | early) & EARLY_SIGNAL);
  st_insert(scheduler->blocks.early, (st_data_t)fiber, early);
}

/* Removes and returns the fiber's early unblock; 0 if there is none. */
static st_data_t take_early(struct gyre_scheduler *scheduler, VALUE fiber) {
  st_data_t key = (st_data_t)fiber, early = 0;
  if (scheduler->blocks.early->num_entries) (void)st_delete(scheduler->blocks.early, &key, &early);
  return early;
}

static bool is_early_for(st_data_t early, VALUE blocker) {
  if (blocker == sleeping && early & EARLY_SIGNAL) return true;
  early &= ~EARLY_SIGNAL;
  return early && (early == EARLY_ANY || early == early_key(blocker));
}

struct blocking {
  struct gyre_wait wait;
  bool returned;
};

static VALUE block_body(VALUE argument) {
  struct blocking *blocking = (struct blocking *)argument;
  (void)gyre_wait_body((VALUE)&blocking->wait);
  blocking->returned = true;
  return Qnil;
}

/* If `block_body` has not returned, the fiber was killed or another thread has raised in it:
 * another waiter gets the gift. */
static VALUE block_ensure(VALUE argument) {
  struct blocking *blocking = (struct blocking *)argument;
  struct gyre_wait *wait = &blocking->wait;
  gyre_blocked_remove(&wait->parked.scheduler->blocks.table, &wait->blocked_node);
  gyre_wait_end(wait);
  if (!blocking->returned && wait->unblocked) (void)gyre_hand_on(wait->parked.scheduler, wait);
  return Qnil;
}

/* Returns true if unblocked, false after the timeout. */
static bool block(struct gyre_scheduler *scheduler, VALUE blocker, int64_t timeout_ns) {
  if (is_early_for(take_early(scheduler, rb_fiber_current()), blocker)) return true;

  struct blocking blocking = {.returned = false};
  struct gyre_wait *wait = &blocking.wait;
  gyre_wait_begin(scheduler, wait, blocker);
  gyre_wait_arm(wait, timeout_ns);
  gyre_blocked_add(&scheduler->blocks.table, &wait->blocked_node, wait->parked.fiber);
  rb_ensure(block_body, (VALUE)&blocking, block_ensure, (VALUE)&blocking);
  return wait->unblocked || !wait->timed_out;
}

/* Parks the fiber until {#unblock} or the timeout (Fiber::Scheduler#block); print_hierarchy shows
 * `blocker`. Returns true if it was unblocked. */
static VALUE scheduler_block(int argc, VALUE *argv, VALUE self) {
  struct gyre_scheduler *scheduler = gyre_scheduler_opened(self);
  VALUE blocker, timeout;
  rb_scan_args(argc, argv, "11", &blocker, &timeout);
  return block(scheduler, blocker, gyre_duration_ns(timeout)) ? Qtrue : Qfalse;
}

/* True if the unblock ends this wait: a sleep is not ended by an unblock for an earlier wait. */
static bool ends(const struct gyre_wait *wait, VALUE blocker) {
  return wait->parked.blocker != sleeping || blocker == sleeping || is_signal(wait->parked.scheduler, blocker);
}

/* True if a blocking fiber waits in IO#close. It waits as in a thread that has no scheduler, yet
 * Ruby 3.4 and 4.0 ask the scheduler to wake it. */
static bool closes_by_itself(const struct gyre_scheduler *scheduler, VALUE blocker, VALUE fiber) {
  if (NIL_P(scheduler->thread) || (!RB_TYPE_P(blocker, T_FILE) && blocker != scheduler->thread)) return false;
  return rb_obj_is_fiber(fiber) && RTEST(rb_funcallv(fiber, rb_intern("blocking?"), 0, NULL));
}

/* Makes a blocked fiber ready (Fiber::Scheduler#unblock). If the fiber has not parked yet, its next
 * block for this blocker returns at once. Any thread may call it. */
static VALUE scheduler_unblock(VALUE self, VALUE blocker, VALUE fiber) {
  struct gyre_scheduler *scheduler = gyre_scheduler_get(self);
  if (scheduler->closed) return Qfalse;
  if (closes_by_itself(scheduler, blocker, fiber)) (void)rb_thread_wakeup_alive(scheduler->thread);
  if (scheduler->blocks.signals->num_entries && st_is_member(scheduler->blocks.signals, (st_data_t)fiber) &&
      gyre_is_mutex(blocker))
    st_insert(scheduler->blocks.signals, (st_data_t)fiber, true);

  struct gyre_blocked_node *node = gyre_blocked_find(&scheduler->blocks.table, fiber);
  struct gyre_wait *wait = node ? GYRE_CONTAINER(node, struct gyre_wait, blocked_node) : NULL;
  if (wait && wait->unblocked) {
    /* The fiber has a gift, but was still in the blocker's list: another waiter gets this gift. */
    (void)gyre_hand_on(scheduler, wait);
  } else if (wait && ends(wait, blocker)) {
    /* If an exception is pending, another waiter gets the gift. If no other fiber waits, the
     * exception moves to the fiber's next wait. */
    if (wait->parked.interrupt && gyre_hand_on(scheduler, wait)) return Qtrue;
    if (wait->parked.interrupt) gyre_interrupt_return(scheduler, &wait->parked);
    wait->unblocked = true;
    gyre_wake(scheduler, &wait->parked);
  } else {
    keep_early(scheduler, fiber, blocker);
  }
  return Qtrue;
}

/* Sleeps (Fiber::Scheduler#kernel_sleep), for Kernel#sleep and Mutex#sleep. A sleep of 0 seconds
 * lets all ready fibers run first. If no duration is given, sleeps until an unblock. */
static VALUE scheduler_kernel_sleep(int argc, VALUE *argv, VALUE self) {
  struct gyre_scheduler *scheduler = gyre_scheduler_opened(self);
  VALUE duration;
  rb_scan_args(argc, argv, "01", &duration);
  int64_t duration_ns = gyre_duration_ns(duration);
  if (duration_ns == 0) {
    gyre_yield(scheduler);
  } else {
    (void)block(scheduler, sleeping, duration_ns);
  }
  return Qtrue;
}

/* Called before ConditionVariable#wait. From now on, records an unblock that may be a signal. */
static VALUE scheduler_expect_signal(VALUE self, VALUE mutex) {
  st_insert(gyre_scheduler_opened(self)->blocks.signals, (st_data_t)rb_fiber_current(), false);
  return Qnil;
}

/* Ends this recording. True if a signal may have come. */
static VALUE scheduler_signalled_p(VALUE self) {
  st_data_t key = (st_data_t)rb_fiber_current(), signalled = false;
  (void)st_delete(gyre_scheduler_get(self)->blocks.signals, &key, &signalled);
  return signalled ? Qtrue : Qfalse;
}

void gyre_block_init(struct gyre_scheduler *scheduler) {
  if (gyre_blocked_init(&scheduler->blocks.table) < 0) rb_memerror();
  scheduler->blocks.early = st_init_numtable();
  scheduler->blocks.signals = st_init_numtable();
}

/* Does not mark `signals`: its fibers wait, and leave the table when the wait ends. */
void gyre_block_mark(struct gyre_scheduler *scheduler) {
  if (scheduler->blocks.early) rb_mark_set(scheduler->blocks.early);
}

void gyre_block_free(struct gyre_scheduler *scheduler) {
  gyre_blocked_free(&scheduler->blocks.table);
  if (scheduler->blocks.early) st_free_table(scheduler->blocks.early);
  if (scheduler->blocks.signals) st_free_table(scheduler->blocks.signals);
}

void gyre_block_forked(struct gyre_scheduler *scheduler) {
  gyre_blocked_clear(&scheduler->blocks.table);
  st_clear(scheduler->blocks.early);
  st_clear(scheduler->blocks.signals);
}

void gyre_init_scheduler_block(void) {
  sleeping = ID2SYM(rb_intern("sleep"));

  VALUE class = gyre_cScheduler;
  rb_define_method(class, "block", scheduler_block, -1);
  rb_define_method(class, "unblock", scheduler_unblock, 2);
  rb_define_method(class, "kernel_sleep", scheduler_kernel_sleep, -1);
  rb_define_method(class, "expect_signal", scheduler_expect_signal, 1);
  rb_define_method(class, "signalled?", scheduler_signalled_p, 0);
}
