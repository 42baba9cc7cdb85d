/*
 * Ruby's Fiber::Scheduler hooks for waiting without descriptors: block, unblock and kernel_sleep,
 * which Mutex, Queue, ConditionVariable, Thread#join and Gyre's own primitives call. What an
 * unblock gives to a fiber is never lost: it wins over a timeout of the same turn, and an exception
 * that comes before the fiber has gone on hands it to another one (interrupts.c).
 */
#include "fiber/fibers.h"

static VALUE sleeping; /* :sleep */

/* --- what comes early ---
 *
 * An unblock may come before its fiber has parked: another thread takes the fiber off a queue's
 * list of waiters just before the fiber calls `block`. So it is kept, with its blocker, until the
 * fiber's next block, and ends that one if it is for the same. One that comes late, when the wait
 * that it is for has ended by itself, so ends no other. Of blockers only the address is kept,
 * beside a bit for what ends a sleep. */

#define EARLY_SIGNAL ((st_data_t)1)
#define EARLY_ANY (~(st_data_t)1) /* several came, for different blockers */

static st_data_t early_key(VALUE blocker) { return (st_data_t)blocker << 1; }

/* Unblocks that end a sleep besides those for :sleep. ConditionVariable#wait is a sleep, and its
 * signal is an unblock for its mutex. So is IO#close while others use the IO: they unblock it for
 * the IO (Ruby 4.0), or for the thread of the fiber that closes (3.4). */
static bool is_signal(const struct gyre_scheduler *scheduler, VALUE blocker) {
  return blocker == scheduler->thread || RB_TYPE_P(blocker, T_FILE) || gyre_is_mutex(blocker);
}

static int is_over(st_data_t fiber, st_data_t early, st_data_t context) {
  (void)early;
  (void)context;
  return RTEST(rb_fiber_alive_p((VALUE)fiber)) ? ST_CONTINUE : ST_DELETE;
}

/* The fibers that have ended meanwhile have no next block. All others are marked: another fiber
 * must not come to stand at the address of one. */
static void keep_early(struct gyre_scheduler *scheduler, VALUE fiber, VALUE blocker) {
  st_foreach(scheduler->early, is_over, 0);
  if (!RTEST(rb_fiber_alive_p(fiber))) return;
  st_data_t before, early = early_key(blocker) | (is_signal(scheduler, blocker) ? EARLY_SIGNAL : 0);
  if (st_lookup(scheduler->early, (st_data_t)fiber, &before) && before != early)
    early = EARLY_ANY | ((before | early) & EARLY_SIGNAL);
  st_insert(scheduler->early, (st_data_t)fiber, early);
}

/* What came for the fiber before it parked, which is forgotten; 0 if nothing did. */
static st_data_t take_early(struct gyre_scheduler *scheduler, VALUE fiber) {
  st_data_t key = (st_data_t)fiber, early = 0;
  if (scheduler->early->num_entries) (void)st_delete(scheduler->early, &key, &early);
  return early;
}

static bool is_early_for(st_data_t early, VALUE blocker) {
  if (blocker == sleeping && early & EARLY_SIGNAL) return true;
  early &= ~EARLY_SIGNAL;
  return early && (early == EARLY_ANY || early == early_key(blocker));
}

/* --- waiting --- */

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

/* Ruby raises here by itself in a killed fiber, whenever it is entered, and what another thread
 * sends: whatever the wait was given by then is handed on. */
static VALUE block_ensure(VALUE argument) {
  struct blocking *blocking = (struct blocking *)argument;
  struct gyre_wait *wait = &blocking->wait;
  gyre_blocked_remove(&wait->scheduler->blocked, &wait->blocked_node);
  gyre_wait_end(wait);
  if (!blocking->returned && wait->unblocked) (void)gyre_hand_on(wait->scheduler, wait);
  return Qnil;
}

/* Parks until unblock or the end of the time. Whether it was unblocked. */
static bool block(struct gyre_scheduler *scheduler, VALUE blocker, int64_t timeout_ns) {
  if (is_early_for(take_early(scheduler, rb_fiber_current()), blocker)) return true;

  struct blocking blocking = {.returned = false};
  struct gyre_wait *wait = &blocking.wait;
  gyre_wait_begin(scheduler, wait, blocker);
  gyre_wait_arm(wait, timeout_ns);
  gyre_blocked_add(&scheduler->blocked, &wait->blocked_node, wait->parked.fiber);
  rb_ensure(block_body, (VALUE)&blocking, block_ensure, (VALUE)&blocking);
  return wait->unblocked || !wait->timed_out;
}

/*
 * Parks the current fiber until {#unblock} or until the time is over (Fiber::Scheduler#block).
 *
 * @param blocker [Object] what it waits for; shown by print_hierarchy
 * @param timeout [Numeric, nil] seconds
 * @return [Boolean] whether it was unblocked
 */
static VALUE scheduler_block(int argc, VALUE *argv, VALUE self) {
  struct gyre_scheduler *scheduler = gyre_scheduler_opened(self);
  VALUE blocker, timeout;
  rb_scan_args(argc, argv, "11", &blocker, &timeout);
  return block(scheduler, blocker, gyre_duration_ns(timeout)) ? Qtrue : Qfalse;
}

/* A sleep ends for its own sake or for a signal, and not for an unblock of some earlier wait. */
static bool ends(const struct gyre_wait *wait, VALUE blocker) {
  return wait->parked.blocker != sleeping || blocker == sleeping || is_signal(wait->scheduler, blocker);
}

/*
 * Makes a blocked fiber ready (Fiber::Scheduler#unblock). From any thread. One that has not parked
 * yet does not when it comes to block for the same.
 *
 * @param blocker [Object] what it waited for
 * @param fiber [Fiber]
 * @return [Boolean] true
 */
static VALUE scheduler_unblock(VALUE self, VALUE blocker, VALUE fiber) {
  struct gyre_scheduler *scheduler = gyre_scheduler_get(self);
  if (scheduler->closed) return Qfalse;
  if (scheduler->signals->num_entries && st_is_member(scheduler->signals, (st_data_t)fiber) && gyre_is_mutex(blocker))
    st_insert(scheduler->signals, (st_data_t)fiber, true);

  struct gyre_blocked_node *node = gyre_blocked_find(&scheduler->blocked, fiber);
  struct gyre_wait *wait = node ? GYRE_CONTAINER(node, struct gyre_wait, blocked_node) : NULL;
  if (wait &&
      wait->unblocked) { /* in the place of another one, and it is still on its blocker's list: this is the next one's */
    (void)gyre_hand_on(scheduler, wait);
  } else if (wait && ends(wait, blocker)) {
    /* An exception that it is about to raise waits for its next wait, unless another fiber can have
     * what it is given. */
    if (wait->parked.interrupt && gyre_hand_on(scheduler, wait)) return Qtrue;
    if (wait->parked.interrupt) gyre_interrupt_return(scheduler, &wait->parked);
    wait->unblocked = true;
    gyre_wake(scheduler, &wait->parked);
  } else {
    keep_early(scheduler, fiber, blocker);
  }
  return Qtrue;
}

/*
 * Kernel#sleep, Mutex#sleep (Fiber::Scheduler#kernel_sleep). Zero seconds let every other ready
 * fiber run first.
 *
 * @param duration [Numeric, nil] seconds; none: until it is unblocked
 * @return [true]
 */
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

/* --- for condition variables --- */

/*
 * ConditionVariable#wait begins in this fiber: from now on it is recorded whether a signal may have
 * reached it.
 *
 * @param mutex [Thread::Mutex] which the signal will be for; here any counts
 * @return [nil]
 */
static VALUE scheduler_expect_signal(VALUE self, VALUE mutex) {
  (void)mutex;
  st_insert(gyre_scheduler_opened(self)->signals, (st_data_t)rb_fiber_current(), false);
  return Qnil;
}

/*
 * The end of that.
 *
 * @return [Boolean] whether a signal may have come
 */
static VALUE scheduler_signalled_p(VALUE self) {
  st_data_t key = (st_data_t)rb_fiber_current(), signalled = false;
  (void)st_delete(gyre_scheduler_get(self)->signals, &key, &signalled);
  return signalled ? Qtrue : Qfalse;
}

/* --- memory --- */

void gyre_block_init(struct gyre_scheduler *scheduler) {
  if (gyre_blocked_init(&scheduler->blocked) < 0) rb_memerror();
  scheduler->early = st_init_numtable();
  scheduler->signals = st_init_numtable();
}

/* Those in `signals` are in a wait, which keeps them alive and takes them out at its end, however
 * it ends. */
void gyre_block_mark(struct gyre_scheduler *scheduler) {
  if (scheduler->early) rb_mark_set(scheduler->early);
}

void gyre_block_free(struct gyre_scheduler *scheduler) {
  gyre_blocked_free(&scheduler->blocked);
  if (scheduler->early) st_free_table(scheduler->early);
  if (scheduler->signals) st_free_table(scheduler->signals);
}

void gyre_block_forked(struct gyre_scheduler *scheduler) {
  gyre_blocked_clear(&scheduler->blocked);
  st_clear(scheduler->early);
  st_clear(scheduler->signals);
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
