/* Exceptions for fibers, from fiber_interrupt, timeouts and the scheduler's close. Any thread with
 * the GVL may queue an interrupt. In the next turn its fiber becomes ready and raises the exception
 * in its wait. So in each Ruby version exceptions appear only in this scheduler's waits.
 *
 *   due --next turn--> raising --its fiber continues--> raised
 *    |  ^  |              \--another exception ends the wait first--> due
 *    |  |  +-- postponed: the fiber was given a lock or element, or raises another interrupt
 *    |  +----- deferred: the fiber has resumed another, and Ruby 3.1 and 3.2 refuse to raise there
 *    +-------- held: the program has suspended the fiber, which has to wait first, or masks the
 *              exception (Thread.handle_interrupt) */
#include "fiber/fibers.h"

#define INTERRUPT_RETRY_NS 1000000

static VALUE fiber_error, mutex_class, queue_class, sized_queue_class;
static ID masks;

void gyre_init_interrupts(void) {
  masks = rb_intern("@gyre_masks");
  fiber_error = rb_const_get(rb_cObject, rb_intern("FiberError"));
  mutex_class = rb_path2class("Thread::Mutex");
  queue_class = rb_path2class("Thread::Queue");
  sized_queue_class = rb_path2class("Thread::SizedQueue");
}

/* Returns the list of this index; NULL after the last one. */
static struct gyre_list *all(struct gyre_scheduler *scheduler, int index) {
  struct gyre_interrupts *own = &scheduler->interrupts;
  struct gyre_list *lists[] = {&own->due, &own->raising, &own->postponed, &own->deferred, &own->held, NULL};
  return lists[index];
}

void gyre_interrupts_init(struct gyre_scheduler *scheduler) {
  struct gyre_list *list;
  for (int i = 0; (list = all(scheduler, i)); i++) gyre_list_init(list);
  gyre_list_init(&scheduler->interrupts.timeouts);
  scheduler->interrupts.live_fibers = Qnil;
  scheduler->interrupts.is_away = false;
}

/* --- references that do not keep a fiber alive --- */

VALUE gyre_fiber_id(struct gyre_scheduler *scheduler, VALUE fiber) {
  if (NIL_P(scheduler->interrupts.live_fibers))
    scheduler->interrupts.live_fibers = rb_class_new_instance(0, NULL, rb_path2class("ObjectSpace::WeakMap"));
  VALUE id = rb_funcall(fiber, rb_intern("object_id"), 0);
  rb_funcall(scheduler->interrupts.live_fibers, rb_intern("[]="), 2, id, fiber);
  return id;
}

VALUE gyre_live_fiber(struct gyre_scheduler *scheduler, VALUE id) {
  return rb_funcall(scheduler->interrupts.live_fibers, rb_intern("[]"), 1, id);
}

struct gyre_interrupt *gyre_interrupt_weakly(struct gyre_scheduler *scheduler, VALUE fiber, VALUE id, VALUE exception) {
  /* An ended job's exception must not reach the worker's next job. */
  struct gyre_worker *worker = gyre_worker_of(scheduler, fiber);
  if (worker && !worker->function) return NULL;
  struct gyre_interrupt *interrupt = calloc(1, sizeof(*interrupt));
  if (!interrupt) rb_memerror();
  interrupt->fiber = fiber;
  interrupt->id = id;
  interrupt->exception = exception;
  gyre_list_append(&scheduler->interrupts.due, &interrupt->node);
  gyre_fibers_wake_loop(scheduler);
  return interrupt;
}

struct gyre_interrupt *gyre_interrupt_fiber(struct gyre_scheduler *scheduler, VALUE fiber, VALUE exception) {
  return gyre_interrupt_weakly(scheduler, fiber, Qnil, exception);
}

static void end_interrupt(struct gyre_interrupt *interrupt) {
  if (interrupt->owner) *interrupt->owner = NULL;
  if (interrupt->raiser) *interrupt->raiser = NULL;
  if (interrupt->parked) interrupt->parked->interrupt = NULL;
  gyre_list_remove(&interrupt->node);
  free(interrupt);
}

void gyre_interrupt_cancel(struct gyre_scheduler *scheduler, struct gyre_interrupt *interrupt) {
  gyre_timers_cancel(&scheduler->loop.timers, &interrupt->retry);
  end_interrupt(interrupt);
}

/* Ruby's internal objects have no class. The only ones that fibers wait for are mutexes. */
static bool is_hidden(VALUE object) { return RBASIC_CLASS(object) == 0; }

bool gyre_is_mutex(VALUE blocker) {
  return !RB_SPECIAL_CONST_P(blocker) && (is_hidden(blocker) || RTEST(rb_obj_is_kind_of(blocker, mutex_class)));
}

/* Returns the wait of a fiber that was unblocked and has not continued yet, or NULL. An interrupt
 * would lose the unblock's gift: a lock or a queue element. */
static struct gyre_wait *given_wait(struct gyre_scheduler *scheduler, const struct gyre_parked *parked) {
  if (parked->state != GYRE_READY) return NULL;
  struct gyre_blocked_node *node = gyre_blocked_find(&scheduler->blocks.table, parked->fiber);
  struct gyre_wait *wait = node ? GYRE_CONTAINER(node, struct gyre_wait, blocked_node) : NULL;
  return wait && &wait->parked == parked && wait->unblocked ? wait : NULL;
}

/* True if another of the blocker's waiters may be woken instead. Ruby's primitives take a fiber off
 * their list before unblocking it, and woken fibers check again. Gyre's pass wake-ups on. */
static bool can_hand_on(VALUE blocker) {
  if (RB_SPECIAL_CONST_P(blocker)) return false;
  return gyre_is_mutex(blocker) || RTEST(rb_obj_is_kind_of(blocker, queue_class));
}

bool gyre_hand_on(struct gyre_scheduler *scheduler, struct gyre_wait *wait) {
  VALUE blocker = wait->parked.blocker;
  if (!can_hand_on(blocker)) return false;
  /* Fibers in push and in pop wait for the same SizedQueue: wakes all. */
  bool all = !gyre_is_mutex(blocker) && RTEST(rb_obj_is_kind_of(blocker, sized_queue_class)), handed = false;
  GYRE_EACH(struct gyre_parked, parked, &scheduler->waits.parked, node) {
    if (parked->blocker != blocker) continue;
    GYRE_CONTAINER(parked, struct gyre_wait, parked)->unblocked = true;
    gyre_wake(scheduler, parked);
    handed = true;
    if (!all) break;
  }
  return handed;
}

/* Runs in the interrupted fiber, or in a fiber that it has resumed. */
_Noreturn static void raise_here(VALUE fiber, VALUE exception) {
  if (NIL_P(exception)) rb_funcall(rb_path2class("Gyre::Scheduler::FiberRaise"), rb_intern("end_here"), 1, fiber);
  rb_exc_raise(exception);
}

static VALUE raise_here_body(VALUE argument) {
  const VALUE *pair = (const VALUE *)argument;
  raise_here(pair[0], pair[1]);
}

/* Raising calls the method `exception`; other threads may run meanwhile. If one of them unblocks
 * the fiber, scheduler_unblock requeues the interrupt, and the wait ends normally. If one raises in
 * this thread, that exception wins, and gyre_park_end requeues the interrupt. */
void gyre_interrupt_raise(struct gyre_parked *parked) {
  VALUE exception = parked->interrupt->exception, before = rb_errinfo();
  int state = 0;
  VALUE pair[] = {parked->interrupt->fiber, exception};
  rb_protect(raise_here_body, (VALUE)pair, &state);
  if (NIL_P(exception) || rb_obj_class(rb_errinfo()) == rb_obj_class(exception)) {
    if (!parked->interrupt) {
      rb_set_errinfo(before);
      return;
    }
    end_interrupt(parked->interrupt);
  }
  rb_jump_tag(state);
}

static void move(struct gyre_list *list, struct gyre_interrupt *interrupt) {
  gyre_list_remove(&interrupt->node);
  gyre_list_append(list, &interrupt->node);
}

void gyre_interrupt_return(struct gyre_scheduler *scheduler, struct gyre_parked *parked) {
  parked->interrupt->parked = NULL;
  gyre_list_remove(&parked->interrupt->node);
  gyre_list_prepend(&scheduler->interrupts.due, &parked->interrupt->node);
  parked->interrupt = NULL;
}

struct gyre_parked *gyre_wait_of(struct gyre_scheduler *scheduler, VALUE fiber) {
  struct gyre_worker *worker = gyre_worker_of(scheduler, fiber);
  if (worker) return worker->parked && worker->parked->state != GYRE_RUNNING ? worker->parked : NULL;
  for (struct gyre_list *node = scheduler->waits.foreign.previous; node != &scheduler->waits.foreign;
       node = node->previous) {
    struct gyre_parked *parked = GYRE_CONTAINER(node, struct gyre_parked, foreign_node);
    if (parked->fiber == fiber || parked->entered == fiber) return parked;
  }
  return NULL;
}

/* Raising before the fiber runs would lose an unblock's gift, so another waiter gets the gift. If
 * there is none, returns true: the fiber first runs to its next wait. */
static bool has_to_run_first(struct gyre_scheduler *scheduler, const struct gyre_parked *parked) {
  struct gyre_wait *wait = given_wait(scheduler, parked);
  if (!wait) return false;
  wait->unblocked = !gyre_hand_on(scheduler, wait);
  return wait->unblocked;
}

/* Puts the interrupted fiber at the front of the ready queue, behind `last`: the queue's head, or
 * the fiber that was put there before. */
static struct gyre_list *raise_at(struct gyre_scheduler *scheduler, struct gyre_interrupt *interrupt,
                                  struct gyre_parked *parked, struct gyre_list *last) {
  move(&scheduler->interrupts.raising, interrupt);
  interrupt->parked = parked;
  parked->interrupt = interrupt;
  if (parked->state == GYRE_PARKED && parked->blocker == Qundef)
    scheduler->drivers.overtaken_count--; /* this wait is an overtaken driver's (drive.c) */
  gyre_parked_make_ready(scheduler, parked, true);
  gyre_list_remove(&parked->node);
  gyre_list_prepend(last, &parked->node);
  return &parked->node;
}

static void retry_interrupt(struct gyre_timer *timer, void *context) {
  move(&gyre_scheduler_of(context)->interrupts.due, GYRE_CONTAINER(timer, struct gyre_interrupt, retry));
}

static void defer_interrupt(struct gyre_scheduler *scheduler, struct gyre_interrupt *interrupt) {
  move(&scheduler->interrupts.deferred, interrupt);
  interrupt->retry.fire = retry_interrupt;
  if (gyre_timers_arm(&scheduler->loop.timers, &interrupt->retry,
                      gyre_loop_now(&scheduler->loop) + INTERRUPT_RETRY_NS) < 0)
    rb_memerror();
}

/* True if there is a waiting fiber that the program has resumed (if `given`: with a gift). */
static bool inner_fiber_waits(struct gyre_scheduler *scheduler, bool given) {
  GYRE_EACH(struct gyre_parked, parked, &scheduler->waits.foreign, foreign_node) {
    if (parked->fiber != parked->entered && (!given || given_wait(scheduler, parked))) return true;
  }
  return false;
}

/* Fiber#transfer refuses some fibers that rb_fiber_transfer would enter. */
static VALUE transfer_body(VALUE fiber) { return rb_funcall(fiber, rb_intern("transfer"), 0); }

static VALUE raise_body(VALUE argument) {
  VALUE *pair = (VALUE *)argument; /* not const, for rb_fiber_raise of Ruby 4.0 */
  if (NIL_P(pair[1])) return rb_funcall(pair[0], rb_intern("kill"), 0);
  return rb_fiber_raise(pair[0], 1, &pair[1]);
}

/* True if the fiber has resumed another one, so that a transfer to it fails. First looks at the
 * backtrace, because a fiber that left by its own transfer must not be entered. */
static bool is_resuming(VALUE fiber) {
  VALUE place = rb_funcall(fiber, rb_intern("backtrace"), 2, INT2FIX(0), INT2FIX(1));
  VALUE line = RB_TYPE_P(place, T_ARRAY) ? rb_ary_entry(place, 0) : Qnil;
  if (!RB_TYPE_P(line, T_STRING) || strstr(StringValueCStr(line), "transfer'")) return false;
  int state = 0;
  rb_protect(transfer_body, fiber, &state);
  if (!state) return false;
  VALUE error = rb_errinfo();
  if (!rb_obj_is_kind_of(error, fiber_error)) rb_jump_tag(state);
  rb_set_errinfo(Qnil);
  VALUE message = rb_obj_as_string(error);
  return strstr(StringValueCStr(message), "resuming") != NULL;
}

/* Handles a fiber that is not parked. If it has resumed a waiting fiber, Fiber#raise raises there
 * (Ruby 3.3 and later). If the program has suspended it, holds the exception until the fiber's next
 * wait: Fiber#raise would continue the fiber from the driver. */
static void raise_further_in(struct gyre_scheduler *scheduler, struct gyre_interrupt *interrupt) {
  VALUE pair[] = {interrupt->fiber, interrupt->exception};
  move(&scheduler->interrupts.held, interrupt);
  if (!inner_fiber_waits(scheduler, false) || !is_resuming(pair[0])) return;
  int state = 0;
  struct gyre_interrupt *left = interrupt; /* NULL once the interrupt is cancelled */
  interrupt->raiser = &left;
  move(&scheduler->interrupts.raising, interrupt);
  scheduler->interrupts.is_away = true;
  rb_protect(raise_body, (VALUE)pair, &state);
  scheduler->interrupts.is_away = false;
  if (left) left->raiser = NULL;
  bool refused = state && rb_obj_is_kind_of(rb_errinfo(), fiber_error) && RTEST(rb_fiber_alive_p(pair[0]));
  if (left && !refused) end_interrupt(left);
  if (state && !refused) rb_jump_tag(state);
  if (!refused) return;
  rb_set_errinfo(Qnil); /* Ruby 3.1 and 3.2 refused to raise: tries again soon */
  if (left) defer_interrupt(scheduler, left);
}

/* Asks scheduler/interrupt_masks.rb. */
static bool is_masked(const struct gyre_interrupt *interrupt, const struct gyre_parked *parked) {
  if (NIL_P(interrupt->exception)) return false;
  if (NIL_P(rb_ivar_get(parked->fiber, masks)) && NIL_P(rb_ivar_get(parked->entered, masks))) return false;
  return RTEST(rb_funcall(rb_path2class("Gyre::Scheduler::InterruptMasks"), rb_intern("defer?"), 3, parked->fiber,
                          parked->entered, interrupt->exception));
}

/* Puts fibers with due interrupts at the front of the ready queue. */
void gyre_interrupts_deliver(struct gyre_scheduler *scheduler) {
  size_t due = 0;
  struct gyre_list *interrupts = &scheduler->interrupts.due;
  for (struct gyre_list *node = interrupts->next; node != interrupts; node = node->next) due++;

  struct gyre_list *last = &scheduler->waits.ready;
  for (; due > 0 && !gyre_list_empty(interrupts); due--) {
    struct gyre_interrupt *interrupt = GYRE_CONTAINER(interrupts->next, struct gyre_interrupt, node);
    struct gyre_parked *parked = gyre_wait_of(scheduler, interrupt->fiber);
    if (parked && is_masked(interrupt, parked)) {
      move(&scheduler->interrupts.held, interrupt);
    } else if (parked && (parked->interrupt || has_to_run_first(scheduler, parked))) {
      move(&scheduler->interrupts.postponed, interrupt);
    } else if (parked) {
      last = raise_at(scheduler, interrupt, parked, last);
    } else if (interrupt->fiber == rb_fiber_current() ||
               interrupt->fiber == scheduler->drivers.newest->parked.entered) {
      /* the fiber drives, or has resumed the driver */
      VALUE fiber = interrupt->fiber, exception = interrupt->exception;
      end_interrupt(interrupt);
      raise_here(fiber, exception);
    } else if (!RTEST(rb_fiber_alive_p(interrupt->fiber))) {
      end_interrupt(interrupt);
    } else if (inner_fiber_waits(scheduler, true)) {
      move(&scheduler->interrupts.postponed, interrupt);
    } else {
      raise_further_in(scheduler, interrupt);
      last = &scheduler->waits.ready; /* restarts at the queue's head: other fibers may have run */
    }
  }
}

void gyre_interrupts_release(struct gyre_scheduler *scheduler, const struct gyre_parked *parked) {
  GYRE_EACH(struct gyre_interrupt, interrupt, &scheduler->interrupts.held, node) {
    if (interrupt->fiber != parked->fiber && interrupt->fiber != parked->entered) continue;
    /* If the fiber was collected, another fiber may have its address. */
    if (NIL_P(interrupt->id) || gyre_live_fiber(scheduler, interrupt->id) == interrupt->fiber)
      move(&scheduler->interrupts.due, interrupt);
  }
}

void gyre_interrupts_drop(struct gyre_scheduler *scheduler, VALUE fiber) {
  const struct gyre_interrupts *own = &scheduler->interrupts;
  struct gyre_list *list;
  if (gyre_list_empty(&own->due) && gyre_list_empty(&own->raising) && gyre_list_empty(&own->postponed) &&
      gyre_list_empty(&own->deferred) && gyre_list_empty(&own->held))
    return;
  for (int i = 0; (list = all(scheduler, i)); i++) {
    GYRE_EACH(struct gyre_interrupt, interrupt, list, node) {
      if (interrupt->fiber == fiber) gyre_interrupt_cancel(scheduler, interrupt);
    }
  }
}

void gyre_interrupts_resume(struct gyre_scheduler *scheduler) {
  while (!gyre_list_empty(&scheduler->interrupts.postponed))
    move(&scheduler->interrupts.due, GYRE_CONTAINER(scheduler->interrupts.postponed.next, struct gyre_interrupt, node));
}

/* Cancels all interrupts in a forked child. */
void gyre_interrupts_forked(struct gyre_scheduler *scheduler) {
  struct gyre_list *list;
  for (int i = 0; (list = all(scheduler, i)); i++) {
    while (!gyre_list_empty(list))
      gyre_interrupt_cancel(scheduler, GYRE_CONTAINER(list->next, struct gyre_interrupt, node));
  }
  scheduler->interrupts.is_away = false;
}

/* Skips held interrupts of timeouts in fibers outside the pool: marking would keep the fibers
 * alive. The timeout marks the exception. */
void gyre_interrupts_mark(struct gyre_scheduler *scheduler) {
  struct gyre_list *list;
  rb_gc_mark(scheduler->interrupts.live_fibers);
  for (int i = 0; (list = all(scheduler, i)); i++) {
    GYRE_EACH(struct gyre_interrupt, interrupt, list, node) {
      if (list == &scheduler->interrupts.held && !NIL_P(interrupt->id)) continue;
      GYRE_MARK(interrupt->fiber, interrupt->exception);
    }
  }
}

void gyre_interrupts_free(struct gyre_scheduler *scheduler) {
  struct gyre_list *list;
  for (int i = 0; (list = all(scheduler, i)); i++) {
    GYRE_EACH_TAKEN(struct gyre_interrupt, interrupt, list, node) free(interrupt);
  }
}
