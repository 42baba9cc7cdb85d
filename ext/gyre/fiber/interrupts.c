/*
 * Exceptions for other fibers: fiber_interrupt, timeouts, the end of the scheduler. They are
 * queued, from any thread that holds the GVL; at a turn's beginning the fibers are made ready, and
 * each raises its own at the wait where it stands. So an exception comes out at waits of this
 * scheduler only, whatever Ruby version, and the driver enters no fiber for it.
 *
 *   interrupts --turn--> raising --its fiber goes on--> raised
 *     |  ^  |                \--another exception ends the wait first--> interrupts
 *     |  |  +-- postponed: its fiber has been given something, or raises another one
 *     |  +----- deferred: Ruby 3.1 and 3.2, the fiber resumes one that resumes one that waits
 *     +-------- held: its fiber was suspended by the program, and has to wait first
 */
#include "fiber/fibers.h"

#include <stdlib.h>
#include <string.h>

#define INTERRUPT_RETRY_NS 1000000

static VALUE fiber_error, mutex_class, queue_class, sized_queue_class;
static ID id_aset, id_aref, id_object_id, id_kill, id_end_here, id_backtrace, id_transfer;

static VALUE global_class(const char *path) {
  VALUE class = rb_path2class(path);
  rb_gc_register_mark_object(class);
  return class;
}

void gyre_init_interrupts(void) {
  fiber_error = rb_const_get(rb_cObject, rb_intern("FiberError"));
  rb_gc_register_mark_object(fiber_error);
  mutex_class = global_class("Thread::Mutex");
  queue_class = global_class("Thread::Queue");
  sized_queue_class = global_class("Thread::SizedQueue");
  id_aset = rb_intern("[]=");
  id_aref = rb_intern("[]");
  id_object_id = rb_intern("object_id");
  id_kill = rb_intern("kill");
  id_end_here = rb_intern("end_here");
  id_backtrace = rb_intern("backtrace");
  id_transfer = rb_intern("transfer");
}

void gyre_interrupts_init(struct gyre_scheduler *scheduler) {
  gyre_list_init(&scheduler->interrupts);
  gyre_list_init(&scheduler->raising);
  gyre_list_init(&scheduler->deferred);
  gyre_list_init(&scheduler->postponed);
  gyre_list_init(&scheduler->held);
  gyre_list_init(&scheduler->timeouts);
  scheduler->live_fibers = Qnil;
  scheduler->is_away = false;
}

/* --- references that do not keep a fiber alive --- */

VALUE gyre_fiber_id(struct gyre_scheduler *scheduler, VALUE fiber) {
  if (NIL_P(scheduler->live_fibers))
    scheduler->live_fibers = rb_class_new_instance(0, NULL, rb_path2class("ObjectSpace::WeakMap"));
  VALUE id = rb_funcall(fiber, id_object_id, 0);
  rb_funcall(scheduler->live_fibers, id_aset, 2, id, fiber);
  return id;
}

VALUE gyre_live_fiber(struct gyre_scheduler *scheduler, VALUE id) {
  return rb_funcall(scheduler->live_fibers, id_aref, 1, id);
}

/* --- queueing --- */

struct gyre_interrupt *gyre_interrupt_weakly(struct gyre_scheduler *scheduler, VALUE fiber, VALUE id, VALUE exception) {
  /* Its job has ended: the exception is dropped, it reaches neither the pool nor the next job. */
  struct gyre_worker *worker = gyre_worker_of(scheduler, fiber);
  if (worker && !worker->function) return NULL;
  struct gyre_interrupt *interrupt = calloc(1, sizeof(*interrupt));
  if (!interrupt) rb_memerror();
  interrupt->fiber = fiber;
  interrupt->id = id;
  interrupt->exception = exception;
  gyre_list_append(&scheduler->interrupts, &interrupt->node);
  gyre_fibers_wake_loop(scheduler);
  return interrupt;
}

struct gyre_interrupt *gyre_interrupt_fiber(struct gyre_scheduler *scheduler, VALUE fiber, VALUE exception) {
  return gyre_interrupt_weakly(scheduler, fiber, Qnil, exception);
}

/* Takes it out of its list and frees it. */
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

/* --- giving --- */

/* Ruby's hidden objects have no class; of those that fibers wait for, all are mutexes. */
static bool is_hidden(VALUE object) { return RBASIC_CLASS(object) == 0; }

bool gyre_is_mutex(VALUE blocker) {
  return !RB_SPECIAL_CONST_P(blocker) && (is_hidden(blocker) || RTEST(rb_obj_is_kind_of(blocker, mutex_class)));
}

struct gyre_wait *gyre_given(struct gyre_scheduler *scheduler, const struct gyre_parked *parked) {
  if (parked->state != GYRE_READY) return NULL;
  struct gyre_blocked_node *node = gyre_blocked_find(&scheduler->blocked, parked->fiber);
  struct gyre_wait *wait = node ? GYRE_CONTAINER(node, struct gyre_wait, blocked_node) : NULL;
  return wait && &wait->parked == parked && wait->unblocked ? wait : NULL;
}

/* Ruby's own primitives take a fiber off their list and then unblock it. Each looks again when its
 * wait ends, so any of the others that wait may be woken in its place. Gyre's own primitives hand
 * on by themselves. */
static bool can_hand_on(VALUE blocker) {
  if (RB_SPECIAL_CONST_P(blocker)) return false;
  return gyre_is_mutex(blocker) || RTEST(rb_obj_is_kind_of(blocker, queue_class));
}

bool gyre_hand_on(struct gyre_scheduler *scheduler, struct gyre_wait *wait) {
  VALUE blocker = wait->parked.blocker;
  if (!can_hand_on(blocker)) return false;
  /* Pushes and pops wait for the same queue. */
  bool all = !gyre_is_mutex(blocker) && RTEST(rb_obj_is_kind_of(blocker, sized_queue_class)), handed = false;
  for (struct gyre_list *node = scheduler->parked.next, *next; node != &scheduler->parked; node = next) {
    next = node->next;
    struct gyre_parked *parked = GYRE_CONTAINER(node, struct gyre_parked, node);
    if (parked->blocker != blocker) continue;
    GYRE_CONTAINER(parked, struct gyre_wait, parked)->unblocked = true;
    gyre_wake(scheduler, parked);
    handed = true;
    if (!all) break;
  }
  return handed;
}

/* --- raising --- */

/* In the fiber that it is for, or in one that it resumes. */
NORETURN(static void raise_here(VALUE fiber, VALUE exception));
static void raise_here(VALUE fiber, VALUE exception) {
  if (NIL_P(exception)) rb_funcall(rb_path2class("Gyre::Scheduler::FiberRaise"), id_end_here, 1, fiber);
  rb_exc_raise(exception);
}

static VALUE raise_here_body(VALUE argument) {
  const VALUE *pair = (const VALUE *)argument;
  raise_here(pair[0], pair[1]);
}

/* Ruby calls the exception's `exception`, a method of the program, in which other threads run. When
 * one gives this wait something meanwhile (see scheduler_unblock), the interrupt is given back and
 * the wait just ends. When an exception for the thread comes, that one is raised here, and park_end
 * gives the interrupt back. */
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
  gyre_list_prepend(&scheduler->interrupts, &parked->interrupt->node);
  parked->interrupt = NULL;
}

struct gyre_parked *gyre_wait_of(struct gyre_scheduler *scheduler, VALUE fiber) {
  struct gyre_worker *worker = gyre_worker_of(scheduler, fiber);
  if (worker) return worker->parked && worker->parked->state != GYRE_RUNNING ? worker->parked : NULL;
  for (struct gyre_list *node = scheduler->foreign.previous; node != &scheduler->foreign; node = node->previous) {
    struct gyre_parked *parked = GYRE_CONTAINER(node, struct gyre_parked, foreign_node);
    if (parked->fiber == fiber || parked->entered == fiber) return parked;
  }
  return NULL;
}

/* A fiber that was unblocked and has not run yet has been given something (a lock, an element of a
 * queue) that would be lost if it were interrupted now. Another one that waits for the same takes
 * its place; without one, the fiber first runs, up to its next wait. */
static bool has_to_run_first(struct gyre_scheduler *scheduler, const struct gyre_parked *parked) {
  struct gyre_wait *wait = gyre_given(scheduler, parked);
  if (!wait) return false;
  wait->unblocked = !gyre_hand_on(scheduler, wait);
  return wait->unblocked;
}

/* Has the fiber raise it where it waits, before others that are ready: behind `last`, which is the
 * queue or one of its nodes. */
static struct gyre_list *raise_at(struct gyre_scheduler *scheduler, struct gyre_interrupt *interrupt,
                                  struct gyre_parked *parked, struct gyre_list *last) {
  move(&scheduler->raising, interrupt);
  interrupt->parked = parked;
  parked->interrupt = interrupt;
  if (parked->state == GYRE_PARKED && parked->blocker == Qundef) scheduler->overtaken_count--; /* drives, see drive.c */
  gyre_parked_make_ready(scheduler, parked, true);
  gyre_list_remove(&parked->node);
  gyre_list_prepend(last, &parked->node);
  return &parked->node;
}

static void retry_interrupt(struct gyre_timer *timer, void *context) {
  move(&gyre_scheduler_of(context)->interrupts, GYRE_CONTAINER(timer, struct gyre_interrupt, retry));
}

static void defer_interrupt(struct gyre_scheduler *scheduler, struct gyre_interrupt *interrupt) {
  move(&scheduler->deferred, interrupt);
  interrupt->retry.fire = retry_interrupt;
  if (gyre_timers_arm(&scheduler->loop.timers, &interrupt->retry,
                      gyre_loop_now(&scheduler->loop) + INTERRUPT_RETRY_NS) < 0)
    rb_memerror();
}

/* Whether one that another fiber of the program has resumed was given something: then nothing is
 * raised further in. */
static bool inner_fibers_have_to_run(struct gyre_scheduler *scheduler) {
  for (struct gyre_list *node = scheduler->foreign.next; node != &scheduler->foreign; node = node->next) {
    struct gyre_parked *parked = GYRE_CONTAINER(node, struct gyre_parked, foreign_node);
    if (parked->fiber != parked->entered && gyre_given(scheduler, parked)) return true;
  }
  return false;
}

/* Whether a fiber waits that another fiber of the program has resumed. */
static bool inner_fibers_wait(struct gyre_scheduler *scheduler) {
  for (struct gyre_list *node = scheduler->foreign.next; node != &scheduler->foreign; node = node->next) {
    struct gyre_parked *parked = GYRE_CONTAINER(node, struct gyre_parked, foreign_node);
    if (parked->fiber != parked->entered) return true;
  }
  return false;
}

/* rb_fiber_transfer enters any fiber; the method refuses. */
static VALUE transfer_body(VALUE fiber) { return rb_funcall(fiber, id_transfer, 0); }

static VALUE raise_body(VALUE argument) {
  VALUE *pair = (VALUE *)argument; /* not const: Ruby 4.0 declares it so */
  if (NIL_P(pair[1])) return rb_funcall(pair[0], id_kill, 0);
  return rb_fiber_raise(pair[0], 1, &pair[1]);
}

/* Whether it resumes another fiber. The error of a transfer, which never takes place, shows that:
 * the fiber has yielded or resumes another one; one that has left by a transfer of its own, and
 * would be entered, is recognized by where it stands. */
static bool is_resuming(VALUE fiber) {
  VALUE place = rb_funcall(fiber, id_backtrace, 2, INT2FIX(0), INT2FIX(1));
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

/* The fiber waits neither itself nor by the one that was entered for it. When it resumes one that
 * waits, or one that does so itself, Ruby finds that one (from 3.3 on). When it has yielded, the
 * exception waits for its next wait: entering it would be an end that the program does not expect,
 * and what it raises would come out here. */
static void raise_further_in(struct gyre_scheduler *scheduler, struct gyre_interrupt *interrupt) {
  VALUE pair[] = {interrupt->fiber, interrupt->exception};
  move(&scheduler->held, interrupt);
  if (!inner_fibers_wait(scheduler) || !is_resuming(pair[0])) return;
  int state = 0;
  struct gyre_interrupt *left = interrupt; /* NULL once it is cancelled: others run meanwhile */
  interrupt->raiser = &left;
  move(&scheduler->raising, interrupt);
  scheduler->is_away = true;
  rb_protect(raise_body, (VALUE)pair, &state);
  scheduler->is_away = false;
  if (left) left->raiser = NULL;
  bool refused = state && rb_obj_is_kind_of(rb_errinfo(), fiber_error) && RTEST(rb_fiber_alive_p(pair[0]));
  if (left && !refused) end_interrupt(left);
  if (state && !refused) rb_jump_tag(state);
  if (!refused) return;
  rb_set_errinfo(Qnil); /* Ruby 3.1 and 3.2 refuse it: tried again shortly after */
  if (left) defer_interrupt(scheduler, left);
}

/* Makes those ready, before all others, in whose fibers something is due. */
void gyre_interrupts_deliver(struct gyre_scheduler *scheduler) {
  size_t due = 0;
  for (struct gyre_list *node = scheduler->interrupts.next; node != &scheduler->interrupts; node = node->next) due++;

  struct gyre_list *last = &scheduler->ready;
  for (; due > 0 && !gyre_list_empty(&scheduler->interrupts); due--) {
    struct gyre_interrupt *interrupt = GYRE_CONTAINER(scheduler->interrupts.next, struct gyre_interrupt, node);
    struct gyre_parked *parked = gyre_wait_of(scheduler, interrupt->fiber);
    if (parked && (parked->interrupt || has_to_run_first(scheduler, parked))) {
      move(&scheduler->postponed, interrupt);
    } else if (parked) {
      last = raise_at(scheduler, interrupt, parked, last);
    } else if (interrupt->fiber == rb_fiber_current() || interrupt->fiber == scheduler->driving->parked.entered) {
      /* it drives, or resumes the fiber that does */
      VALUE fiber = interrupt->fiber, exception = interrupt->exception;
      end_interrupt(interrupt);
      raise_here(fiber, exception);
    } else if (!RTEST(rb_fiber_alive_p(interrupt->fiber))) {
      end_interrupt(interrupt);
    } else if (inner_fibers_have_to_run(scheduler)) {
      move(&scheduler->postponed, interrupt);
    } else {
      raise_further_in(scheduler, interrupt);
      last = &scheduler->ready; /* others may have run */
    }
  }
}

void gyre_interrupts_release(struct gyre_scheduler *scheduler, const struct gyre_parked *parked) {
  for (struct gyre_list *node = scheduler->held.next, *next; node != &scheduler->held; node = next) {
    next = node->next;
    struct gyre_interrupt *interrupt = GYRE_CONTAINER(node, struct gyre_interrupt, node);
    if (interrupt->fiber != parked->fiber) continue;
    /* Another fiber may be where a collected one was. */
    if (NIL_P(interrupt->id) || gyre_live_fiber(scheduler, interrupt->id) == parked->fiber)
      move(&scheduler->interrupts, interrupt);
  }
}

/* --- forgetting --- */

static struct gyre_list *all(struct gyre_scheduler *scheduler, int index) {
  static const size_t offsets[] = {offsetof(struct gyre_scheduler, interrupts),
                                   offsetof(struct gyre_scheduler, raising), offsetof(struct gyre_scheduler, postponed),
                                   offsetof(struct gyre_scheduler, deferred), offsetof(struct gyre_scheduler, held)};
  if (index == (int)(sizeof(offsets) / sizeof(*offsets))) return NULL;
  return (struct gyre_list *)((char *)scheduler + offsets[index]);
}

void gyre_interrupts_drop(struct gyre_scheduler *scheduler, VALUE fiber) {
  struct gyre_list *list;
  for (int i = 0; (list = all(scheduler, i)); i++) {
    for (struct gyre_list *node = list->next, *next; node != list; node = next) {
      next = node->next;
      struct gyre_interrupt *interrupt = GYRE_CONTAINER(node, struct gyre_interrupt, node);
      if (interrupt->fiber == fiber) gyre_interrupt_cancel(scheduler, interrupt);
    }
  }
}

void gyre_interrupts_resume(struct gyre_scheduler *scheduler) {
  while (!gyre_list_empty(&scheduler->postponed))
    move(&scheduler->interrupts, GYRE_CONTAINER(scheduler->postponed.next, struct gyre_interrupt, node));
}

/* In a forked child: their fibers are gone. */
void gyre_interrupts_forked(struct gyre_scheduler *scheduler) {
  struct gyre_list *list;
  for (int i = 0; (list = all(scheduler, i)); i++) {
    while (!gyre_list_empty(list))
      gyre_interrupt_cancel(scheduler, GYRE_CONTAINER(list->next, struct gyre_interrupt, node));
  }
  scheduler->is_away = false;
}

/* --- memory --- */

/* What is held for a fiber that may be collected belongs to the timeout on that fiber's stack,
 * which marks it. */
void gyre_interrupts_mark(struct gyre_scheduler *scheduler) {
  struct gyre_list *list;
  rb_gc_mark(scheduler->live_fibers);
  for (int i = 0; (list = all(scheduler, i)); i++) {
    for (struct gyre_list *node = list->next; node != list; node = node->next) {
      struct gyre_interrupt *interrupt = GYRE_CONTAINER(node, struct gyre_interrupt, node);
      if (list == &scheduler->held && !NIL_P(interrupt->id)) continue;
      rb_gc_mark(interrupt->fiber);
      rb_gc_mark(interrupt->exception);
    }
  }
}

void gyre_interrupts_free(struct gyre_scheduler *scheduler) {
  struct gyre_list *list;
  for (int i = 0; (list = all(scheduler, i)); i++) {
    while (!gyre_list_empty(list)) {
      struct gyre_interrupt *interrupt = GYRE_CONTAINER(list->next, struct gyre_interrupt, node);
      gyre_list_remove(&interrupt->node);
      free(interrupt);
    }
  }
}
