/* The watches of a keyed loop (states: keyed_loop.h) and its queue. Watches are C structures from a
 * pool, so a timer allocates no Ruby object.
 *
 * The loop's callbacks (on_ready, on_time) use no table and call no Ruby code, because a key's
 * `hash` and `eql?` may do anything. */
#include "keyed/keyed_loop.h"

#include <fcntl.h>
#include <ruby/io.h>

#define SWEEP_NS INT64_C(100000000) /* delay from an event to the search for closed IOs */
#define FREE_LIMIT 4096             /* maximum watches kept for reuse */

/* Keys are compared like Hash keys. Most keys equal only themselves: they are in a table by
 * address, which calls no methods. */

/* True if the key equals only itself. */
static bool by_identity(VALUE key) {
  if (RB_SPECIAL_CONST_P(key)) return !RB_FLOAT_TYPE_P(key);
  if (RB_BUILTIN_TYPE(key) == T_SYMBOL) return true;
  if (RB_BUILTIN_TYPE(key) != T_OBJECT && RB_BUILTIN_TYPE(key) != T_FILE) return false;
  VALUE class = CLASS_OF(key);
  return rb_method_basic_definition_p(class, rb_intern("hash")) &&
         rb_method_basic_definition_p(class, rb_intern("eql?"));
}

struct gyre_keyed_watch *gyre_keyed_find(struct gyre_keyed *keyed, VALUE key) {
  if (by_identity(key)) {
    st_data_t value;
    return st_lookup(keyed->identity, (st_data_t)key, &value) ? (struct gyre_keyed_watch *)value : NULL;
  }
  VALUE value = rb_hash_lookup2(keyed->equality, key, Qfalse);
  return value == Qfalse ? NULL : (struct gyre_keyed_watch *)(value & ~(VALUE)1);
}

/* Returns the watch's address as an Integer, for the Hash. Structures are aligned, so the last bit
 * is free for Ruby's tag. */
static VALUE in_hash(struct gyre_keyed_watch *watch) { return (VALUE)watch | RUBY_FIXNUM_FLAG; }

static void keyed_insert(struct gyre_keyed *keyed, VALUE key, struct gyre_keyed_watch *watch) {
  watch->identity = by_identity(key);
  if (watch->identity) {
    st_insert(keyed->identity, (st_data_t)key, (st_data_t)watch);
  } else {
    rb_hash_aset(keyed->equality, key, in_hash(watch));
  }
}

static int delete_value(VALUE key, VALUE value, VALUE wanted) { return value == wanted ? ST_DELETE : ST_CONTINUE; }

static void keyed_delete(struct gyre_keyed *keyed, VALUE key, struct gyre_keyed_watch *watch) {
  st_data_t identity = (st_data_t)key;
  if (watch->identity) {
    st_delete(keyed->identity, &identity, NULL);
  } else if (rb_hash_lookup2(keyed->equality, key, Qfalse) == in_hash(watch)) {
    rb_hash_delete(keyed->equality, key);
  } else { /* the key has changed meanwhile */
    rb_hash_foreach(keyed->equality, delete_value, in_hash(watch));
  }
}

/* The queue of events is a ring. */

void gyre_keyed_reserve(struct gyre_keyed *keyed, size_t more) {
  size_t needed = keyed->count + keyed->watch_count + more;
  if (needed <= keyed->capacity) return;
  size_t capacity = keyed->capacity ? keyed->capacity : 64;
  while (capacity < needed) {
    if (capacity > SIZE_MAX / 2 / sizeof(struct gyre_keyed_event)) rb_memerror();
    capacity *= 2;
  }
  struct gyre_keyed_event *events = malloc(capacity * sizeof(*events));
  if (!events) rb_memerror();
  for (size_t i = 0; i < keyed->count; i++) events[i] = keyed->events[(keyed->first + i) & (keyed->capacity - 1)];
  free(keyed->events);
  keyed->events = events;
  keyed->first = 0;
  keyed->capacity = capacity;
}

void gyre_keyed_push(struct gyre_keyed *keyed, VALUE key, VALUE helper, struct gyre_keyed_watch *watch) {
  keyed->events[(keyed->first + keyed->count++) & (keyed->capacity - 1)] =
      (struct gyre_keyed_event){key, helper, watch};
  gyre_keyed_wake_one(keyed);
}

void gyre_keyed_wake_one(struct gyre_keyed *keyed) {
  if (keyed->own.waiting) gyre_loop_wake(&keyed->own);
  if (gyre_list_empty(&keyed->waiters)) return;
  struct gyre_keyed_waiter *waiter = GYRE_CONTAINER(keyed->waiters.next, struct gyre_keyed_waiter, node);
  gyre_wake(waiter->wait.parked.scheduler, &waiter->wait.parked);
}

void gyre_keyed_wake(struct gyre_keyed *keyed) {
  if (keyed->own.waiting) gyre_loop_wake(&keyed->own);
  GYRE_EACH(struct gyre_keyed_waiter, waiter, &keyed->waiters, node) {
    gyre_wake(waiter->wait.parked.scheduler, &waiter->wait.parked);
  }
}

static void on_ready(struct gyre_loop *loop, struct gyre_watch *watch, unsigned ready);
static void on_time(struct gyre_timer *timer, void *context);
static void on_sweep(struct gyre_timer *timer, void *context);

void gyre_keyed_watches_init(struct gyre_keyed *keyed) {
  for (int state = 0; state < GYRE_KEYED_ENDING; state++) gyre_list_init(&keyed->lists[state]);
  keyed->sweep.fire = on_sweep;
}

static struct gyre_keyed_watch *of_node(struct gyre_list *node) {
  return GYRE_CONTAINER(node, struct gyre_keyed_watch, node);
}

#define EACH(variable, list) GYRE_EACH(struct gyre_keyed_watch, variable, list, node)

void gyre_keyed_watches_mark(struct gyre_keyed *keyed) {
  rb_gc_mark(keyed->equality);
  for (int state = GYRE_KEYED_ACTIVE; state < GYRE_KEYED_ENDING; state++) {
    EACH(watch, &keyed->lists[state]) { GYRE_MARK(watch->key, watch->io, watch->helper); }
  }
}

void gyre_keyed_watches_free(struct gyre_keyed *keyed) {
  for (size_t i = 0; i < keyed->count; i++) {
    struct gyre_keyed_watch *watch = keyed->events[(keyed->first + i) & (keyed->capacity - 1)].watch;
    if (watch && watch->state == GYRE_KEYED_FREE) free(watch);
  }
  for (int state = 0; state < GYRE_KEYED_ENDING; state++) {
    EACH(watch, &keyed->lists[state]) free(watch);
  }
  if (keyed->identity) st_free_table(keyed->identity);
}

/* --- the life of a watch --- */

static void move(struct gyre_keyed_watch *watch, enum gyre_keyed_state state) {
  gyre_list_remove(&watch->node);
  gyre_list_append(&watch->keyed->lists[state], &watch->node);
  watch->state = state;
}

void gyre_keyed_recycle(struct gyre_keyed *keyed, struct gyre_keyed_watch *watch) {
  if (keyed->free_count >= FREE_LIMIT) {
    free(watch);
  } else {
    gyre_list_prepend(&keyed->lists[GYRE_KEYED_FREE], &watch->node);
    keyed->free_count++;
  }
}

/* A level-triggered registration must not outlive its watch. */
static void stop_watching(struct gyre_keyed *keyed, struct gyre_keyed_watch *watch) {
  if (!keyed->loop) return;
  gyre_timers_cancel(&keyed->loop->timers, &watch->timer);
  int fd = watch->watch.fd;
  if (fd < 0) return;
  gyre_loop_unwatch(keyed->loop, &watch->watch);
  struct gyre_descriptor *descriptor = &keyed->loop->descriptors[fd];
  if (!descriptor->first && descriptor->registered & GYRE_LEVEL) gyre_loop_forget(keyed->loop, fd);
}

void gyre_keyed_release(struct gyre_keyed *keyed, struct gyre_keyed_watch *watch) {
  VALUE key = watch->key, helper = watch->helper;
  if (watch->state == GYRE_KEYED_FREE || watch->state == GYRE_KEYED_ENDING)
    return; /* a method of the key has released the watch */
  stop_watching(keyed, watch);
  gyre_list_remove(&watch->node);
  watch->state = GYRE_KEYED_ENDING;
  keyed->watch_count--;
  keyed_delete(keyed, key, watch);
  watch->state = GYRE_KEYED_FREE;
  watch->key = watch->io = watch->helper = Qnil;
  if (!watch->queued) gyre_keyed_recycle(keyed, watch);
  if (!NIL_P(helper)) rb_funcall(helper, rb_intern("cancel"), 0);
  RB_GC_GUARD(key);
}

void gyre_keyed_clear(struct gyre_keyed *keyed) {
  for (int state = GYRE_KEYED_ACTIVE; state < GYRE_KEYED_ENDING; state++) {
    struct gyre_list *list = &keyed->lists[state];
    EACH(watch, list) {
      if (!keyed->loop) watch->watch.fd = -1, watch->timer.place = 0;
    }
    while (!gyre_list_empty(list)) gyre_keyed_release(keyed, of_node(list->next));
  }
}

static void fail(struct gyre_keyed *keyed, struct gyre_keyed_watch *watch) {
  stop_watching(keyed, watch);
  move(watch, GYRE_KEYED_FAILED);
}

/* Returns 0 or -errno. */
static int begin_watching(struct gyre_keyed *keyed, struct gyre_keyed_watch *watch) {
  int error = gyre_loop_watch(keyed->loop, &watch->watch, watch->fd, watch->interest | GYRE_LEVEL);
  if (error == -EPERM) { /* always ready, such as a regular file */
    move(watch, GYRE_KEYED_ALWAYS);
    return 0;
  }
  if (error == 0) move(watch, GYRE_KEYED_ACTIVE);
  return error;
}

void gyre_keyed_detach(struct gyre_keyed *keyed) {
  EACH(watch, &keyed->lists[GYRE_KEYED_ACTIVE]) stop_watching(keyed, watch);
  EACH(watch, &keyed->lists[GYRE_KEYED_RESTING]) stop_watching(keyed, watch);
  EACH(watch, &keyed->lists[GYRE_KEYED_TIMED]) stop_watching(keyed, watch);
  if (keyed->loop) gyre_timers_cancel(&keyed->loop->timers, &keyed->sweep);
}

void gyre_keyed_attach(struct gyre_keyed *keyed) {
  struct gyre_list waiting = {&waiting, &waiting};
  gyre_list_splice(&waiting, &keyed->lists[GYRE_KEYED_ACTIVE]);
  while (!gyre_list_empty(&waiting)) {
    struct gyre_keyed_watch *watch = of_node(waiting.next);
    if (begin_watching(keyed, watch) < 0) fail(keyed, watch);
  }
  EACH(watch, &keyed->lists[GYRE_KEYED_TIMED]) {
    if (watch->timed && gyre_timers_arm(&keyed->loop->timers, &watch->timer, watch->timer.when_ns) < 0) rb_memerror();
  }
}

/* Queues the event of a one-shot watch, which then rests. */
static void fire_last(struct gyre_keyed *keyed, struct gyre_keyed_watch *watch) {
  move(watch, GYRE_KEYED_RESTING);
  watch->overdue = false;
  gyre_keyed_push(keyed, watch->key, watch->helper, NULL);
}

static void fire(struct gyre_keyed *keyed, struct gyre_keyed_watch *watch) {
  watch->queued = true;
  gyre_keyed_push(keyed, watch->key, watch->helper, watch);
}

static void on_ready(struct gyre_loop *loop, struct gyre_watch *ready_watch, unsigned ready) {
  struct gyre_keyed_watch *watch = GYRE_CONTAINER(ready_watch, struct gyre_keyed_watch, watch);
  struct gyre_keyed *keyed = watch->keyed;
  if (watch->state != GYRE_KEYED_ACTIVE) { /* still resting */
    gyre_loop_unwatch(loop, ready_watch);
  } else if (!NIL_P(watch->io) && gyre_io_is_closed(watch->io)) {
    fail(keyed, watch);
    gyre_keyed_wake(keyed);
  } else if (watch->oneshot) {
    fire_last(keyed, watch);
  } else if (watch->queued) { /* its event is still queued: without the pause the loop would spin */
    gyre_loop_unwatch(loop, ready_watch);
    move(watch, GYRE_KEYED_PAUSED);
  } else {
    fire(keyed, watch);
  }
}

/* A repeating timer that is late fires once, and keeps its rhythm. */
static void on_time(struct gyre_timer *timer, void *context) {
  struct gyre_keyed_watch *watch = GYRE_CONTAINER(timer, struct gyre_keyed_watch, timer);
  struct gyre_loop *loop = context;
  if (watch->interval_ns == 0) {
    watch->timed = false;
    fire_last(watch->keyed, watch);
    return;
  }
  int64_t late_ns = loop->now_ns - timer->when_ns;
  int64_t missed = late_ns > 0 ? late_ns / watch->interval_ns : 0;
  /* Cannot fail, because the timer has just left the heap. */
  (void)gyre_timers_arm(&loop->timers, timer, timer->when_ns + (missed + 1) * watch->interval_ns);
  if (!watch->queued) fire(watch->keyed, watch);
}

void gyre_keyed_queue_always(struct gyre_keyed *keyed) {
  EACH(watch, &keyed->lists[GYRE_KEYED_ALWAYS]) {
    if (watch->oneshot) {
      fire_last(keyed, watch);
    } else if (!watch->queued) {
      fire(keyed, watch);
    }
  }
}

static void on_sweep(struct gyre_timer *timer, void *context) {
  struct gyre_keyed *keyed = GYRE_CONTAINER(timer, struct gyre_keyed, sweep);
  keyed->sweep_due = true;
  gyre_keyed_wake(keyed);
}

static bool io_is_closed(struct gyre_loop *loop, struct gyre_watch *watch, VALUE io) {
  if (watch->ready != on_ready) return false;
  struct gyre_keyed_watch *keyed_watch = GYRE_CONTAINER(watch, struct gyre_keyed_watch, watch);
  if (keyed_watch->io == io) {
    keyed_watch->keyed->sweep_due = true;
    gyre_keyed_wake(keyed_watch->keyed);
  }
  return true;
}

static bool is_closed(struct gyre_keyed_watch *watch) {
  return NIL_P(watch->io) ? fcntl(watch->fd, F_GETFD) < 0 : gyre_io_is_closed(watch->io);
}

/* Finds closed and reopened IOs: the kernel drops their watches silently. Called after IO#close,
 * and after events at most once per SWEEP_NS. */
static void sweep(struct gyre_keyed *keyed) {
  keyed->sweep_due = keyed->active_since_sweep = false;
  EACH(watch, &keyed->lists[GYRE_KEYED_ACTIVE]) {
    if (is_closed(watch)) {
      fail(keyed, watch);
    } else if (watch->trusted) {
      watch->trusted = false;
      gyre_loop_ask_again(keyed->loop, &watch->watch);
    }
  }
}

static void raise_failure(struct gyre_keyed *keyed) {
  struct gyre_keyed_watch *watch = of_node(keyed->lists[GYRE_KEYED_FAILED].next);
  VALUE key = watch->key;
  const char *closed = NIL_P(watch->io) ? "descriptor" : "io";
  gyre_keyed_release(keyed, watch);
  if (keyed->loop) gyre_loop_hand_over(keyed->loop); /* lets the peer see the close before the loop's next turn */
  /* Raises last, because the key's inspect may do anything. */
  rb_raise(rb_eIOError, "watch %+" PRIsVALUE ": its %s was closed; unwatch it before", key, closed);
}

/* Releases overdue watches (the oldest) or, if `all`, all resting ones. Others become overdue. */
static void release_resting(struct gyre_keyed *keyed, bool all) {
  while (!gyre_list_empty(&keyed->lists[GYRE_KEYED_RESTING]) &&
         (all || of_node(keyed->lists[GYRE_KEYED_RESTING].next)->overdue))
    gyre_keyed_release(keyed, of_node(keyed->lists[GYRE_KEYED_RESTING].next));
  EACH(watch, &keyed->lists[GYRE_KEYED_RESTING]) watch->overdue = true;
}

void gyre_keyed_prepare(struct gyre_keyed *keyed, bool waits) {
  release_resting(keyed, waits);
  EACH(watch, &keyed->lists[GYRE_KEYED_PAUSED]) {
    if (!watch->queued && begin_watching(keyed, watch) < 0) fail(keyed, watch);
  }
  if (keyed->sweep_due) sweep(keyed);
  if (!gyre_list_empty(&keyed->lists[GYRE_KEYED_FAILED])) raise_failure(keyed);
  if (keyed->active_since_sweep && !gyre_timer_armed(&keyed->sweep) &&
      !gyre_list_empty(&keyed->lists[GYRE_KEYED_ACTIVE])) {
    (void)gyre_timers_arm(&keyed->loop->timers, &keyed->sweep, gyre_loop_now(keyed->loop) + SWEEP_NS);
  }
}

_Noreturn static void refuse_closed(void) { rb_raise(rb_eRuntimeError, "the loop was closed by a method of the key"); }

/* Returns the key's resting watch, or NULL. Raises if the key has an active watch. */
static struct gyre_keyed_watch *resting(struct gyre_keyed *keyed, VALUE key) {
  struct gyre_keyed_watch *watch = gyre_keyed_find(keyed, key);
  if (!keyed->loop) refuse_closed();
  if (watch && watch->state != GYRE_KEYED_RESTING) {
    rb_raise(rb_eRuntimeError, "Duplicate event key detected, event key must be unique");
  }
  return watch;
}

/* Returns a new watch. Releases `old` first. */
static struct gyre_keyed_watch *begin(struct gyre_keyed *keyed, VALUE key, VALUE helper, struct gyre_keyed_watch *old) {
  if (old) gyre_keyed_release(keyed, old);
  gyre_keyed_reserve(keyed, 1);
  struct gyre_keyed_watch *watch;
  if (gyre_list_empty(&keyed->lists[GYRE_KEYED_FREE])) {
    watch = malloc(sizeof(*watch));
    if (!watch) rb_memerror();
  } else {
    watch = of_node(keyed->lists[GYRE_KEYED_FREE].next);
    gyre_list_remove(&watch->node);
    keyed->free_count--;
  }
  *watch = (struct gyre_keyed_watch){.keyed = keyed,
                                     .key = key,
                                     .io = Qnil,
                                     .helper = helper,
                                     .fd = -1,
                                     .watch = {.fd = -1, .ready = on_ready},
                                     .timer = {.fire = on_time}};
  gyre_list_init(&watch->watch.unverified);
  gyre_list_init(&watch->node);
  keyed_insert(keyed, key, watch);
  keyed->watch_count++;
  move(watch, GYRE_KEYED_TIMED);
  if (keyed->loop) return watch;
  gyre_keyed_release(keyed, watch);
  refuse_closed();
}

/* Ends watches of other, closed IOs that had this number. */
static void end_closed_watches(struct gyre_keyed *keyed, int fd, VALUE io) {
  if (fd >= keyed->loop->descriptor_capacity) return;
  struct gyre_watch *watch = keyed->loop->descriptors[fd].first;
  while (watch) {
    struct gyre_keyed_watch *other = GYRE_CONTAINER(watch, struct gyre_keyed_watch, watch);
    bool ours = watch->ready == on_ready && other->keyed == keyed && other->io != io && !NIL_P(other->io);
    watch = watch->next;
    if (!ours) continue;
    if (other->state == GYRE_KEYED_RESTING) {
      stop_watching(keyed, other);
    } else if (other->state == GYRE_KEYED_ACTIVE && is_closed(other)) {
      fail(keyed, other);
    }
  }
}

void gyre_keyed_watch_descriptor(struct gyre_keyed *keyed, VALUE key, VALUE io, int fd, unsigned interest, bool oneshot,
                                 VALUE helper) {
  struct gyre_keyed_watch *watch = resting(keyed, key);
  if (watch && watch->watch.fd == fd && watch->io == io && !NIL_P(io) && watch->interest == interest && NIL_P(helper) &&
      NIL_P(watch->helper)) {
    gyre_keyed_reserve(keyed, 1);
    watch->oneshot = oneshot;
    watch->trusted = true;
    move(watch, GYRE_KEYED_ACTIVE);
    return;
  }
  end_closed_watches(keyed, fd, io);
  watch = begin(keyed, key, helper, watch);
  watch->io = io;
  watch->fd = fd;
  watch->interest = interest;
  watch->oneshot = oneshot;
  keyed->active_since_sweep = true; /* starts sweeps: the IO may be closed before its first event */
  int error = begin_watching(keyed, watch);
  if (error == 0) return;
  gyre_keyed_release(keyed, watch);
  rb_syserr_fail_str(-error, rb_sprintf("watch %+" PRIsVALUE, key));
}

void gyre_keyed_watch_time(struct gyre_keyed *keyed, VALUE key, VALUE helper, int64_t duration_ns,
                           int64_t interval_ns) {
  struct gyre_keyed_watch *watch = begin(keyed, key, helper, resting(keyed, key));
  int64_t now_ns = gyre_loop_now(keyed->loop);
  watch->timed = true;
  watch->interval_ns = interval_ns < 0 ? 0 : interval_ns;
  if (gyre_timers_arm(&keyed->loop->timers, &watch->timer,
                      duration_ns > INT64_MAX - now_ns ? INT64_MAX : now_ns + duration_ns) == 0)
    return;
  gyre_keyed_release(keyed, watch);
  rb_memerror();
}

void gyre_keyed_watch_key(struct gyre_keyed *keyed, VALUE key, VALUE helper) {
  begin(keyed, key, helper, resting(keyed, key));
}

void gyre_init_keyed_watch(void) { gyre_loop_on_io_close(io_is_closed); }
