/* The loop's bookkeeping and its poll (loop.h).
 *
 * Descriptors are registered once, edge-triggered. A watch that begins after a call returned "would
 * block" (`drained`) uses the earlier registration and makes no system call. After VERIFY_NS the
 * loop registers such watches again, because the number may have been reused unnoticed; a sleeping
 * loop wakes for this. Watches that end sooner cost nothing. */
#include "loop/loop.h"

#include <ruby.h>
#include <ruby/thread.h>

#define ANYTHING (GYRE_READABLE | GYRE_PRIORITY | GYRE_WRITABLE) /* matches each watch's interest */
#define VERIFY_NS INT64_C(5000000)
#define IN_VAIN_LIMIT 2        /* empty polls in a row; then the loop sleeps without a poll first */
#define SOON_NS INT64_C(10000) /* after a shorter sleep the loop again polls before it sleeps */
#define STALE_TURNS 16         /* turns for which a stale report is remembered */

int gyre_loop_open(struct gyre_loop *loop, const struct gyre_backend_operations *backend) {
  memset(loop, 0, sizeof(*loop));
  loop->backend = backend;
  loop->now_ns = loop->polled_ns = gyre_timers_now();
  gyre_timers_init(&loop->timers);
  gyre_list_init(&loop->unverified.watches);
  gyre_list_init(&loop->deferred);
  gyre_list_init(&loop->to_call);
  gyre_list_init(&loop->again);
  gyre_list_init(&loop->open_node);
  return backend->open(&loop->backend_state);
}

static void close_backend(struct gyre_loop *loop) {
  if (!loop->backend_state) return;
  loop->answer.next = loop->answer.count = 0;
  loop->backend->close(loop->backend_state);
  loop->backend_state = NULL;
}

void gyre_loop_ask_again(struct gyre_loop *loop, struct gyre_watch *watch) {
  gyre_list_remove(&watch->unverified);
  gyre_list_append(&loop->unverified.watches, &watch->unverified);
  loop->unverified.since_ns = 0;
}

static void register_later(struct gyre_loop *loop, struct gyre_descriptor *descriptor) {
  for (struct gyre_watch *watch = descriptor->first; watch; watch = watch->next) gyre_loop_ask_again(loop, watch);
}

static void register_all_later(struct gyre_loop *loop) {
  for (int fd = 0; fd < loop->descriptor_capacity; fd++) {
    struct gyre_descriptor *state = &loop->descriptors[fd];
    state->registered = state->drained = state->ended = 0;
    register_later(loop, state);
  }
}

/* Reopens the backend. If no descriptor is free, keeps the old state and returns -errno. */
static int replace(struct gyre_loop *loop) {
  void *fresh = NULL;
  int error = loop->backend->open(&fresh);
  if (error < 0) return error;
  close_backend(loop);
  loop->backend_state = fresh;
  register_all_later(loop);
  return 0;
}

int gyre_loop_move(struct gyre_loop *loop) {
  close_backend(loop);
  int error = loop->backend->open(&loop->backend_state);
  if (error == 0) register_all_later(loop);
  return error;
}

/* Reopens the backend for this thread. If no descriptor is free, closes the old state first. */
static int renew(struct gyre_loop *loop) { return replace(loop) == 0 ? 0 : gyre_loop_move(loop); }

void gyre_loop_close(struct gyre_loop *loop) {
  if (loop->open_node.next) gyre_list_remove(&loop->open_node); /* the loop was opened */
  if (loop->deferred.next) gyre_loop_drop_deferred(loop);
  close_backend(loop);
  gyre_timers_free(&loop->timers);
  free(loop->descriptors);
  loop->descriptors = NULL;
  loop->descriptor_capacity = 0;
}

int gyre_loop_reopen(struct gyre_loop *loop) {
  const struct gyre_backend_operations *backend = loop->backend;
  void (*sleeps)(struct gyre_loop *, bool) = loop->sleeps;
  gyre_timers_cancel_all(&loop->timers);
  gyre_loop_close(loop);
  int error = gyre_loop_open(loop, backend);
  loop->sleeps = sleeps;
  return error;
}

static struct gyre_descriptor *descriptor(struct gyre_loop *loop, int fd) {
  if (fd < loop->descriptor_capacity) return &loop->descriptors[fd];

  int capacity = loop->descriptor_capacity ? loop->descriptor_capacity : 64;
  while (capacity <= fd) {
    if (capacity > INT32_MAX / 2) return NULL;
    capacity *= 2;
  }
  struct gyre_descriptor *descriptors = realloc(loop->descriptors, (size_t)capacity * sizeof(*descriptors));
  if (!descriptors) return NULL;
  memset(descriptors + loop->descriptor_capacity, 0,
         (size_t)(capacity - loop->descriptor_capacity) * sizeof(*descriptors));
  loop->descriptors = descriptors;
  loop->descriptor_capacity = capacity;
  return &descriptors[fd];
}

/* Returns the union of all watches' interests. */
static unsigned wanted(const struct gyre_descriptor *descriptor) {
  unsigned interest = 0;
  for (const struct gyre_watch *watch = descriptor->first; watch; watch = watch->next) interest |= watch->interest;
  return interest;
}

/* Begins a new generation: reports of earlier ones are dropped. */
static void next_generation(struct gyre_descriptor *descriptor) {
  if (++descriptor->generation == 0) descriptor->generation = 1;
}

/* Registers `interest` and the watches' interests. Keeps earlier watches' interests, so that later
 * watches need no system call. Drops them with GYRE_LEVEL: they would be reported endlessly. */
static int register_interest(struct gyre_loop *loop, struct gyre_descriptor *descriptor, int fd, unsigned interest) {
  if (!loop->backend_state) return -EBADF;
  interest |= wanted(descriptor);
  if (!((interest | descriptor->registered) & GYRE_LEVEL)) interest |= descriptor->registered & ~GYRE_READ_ENDED;
  if (descriptor->ended & GYRE_READABLE && !(interest & GYRE_READABLE)) interest |= GYRE_READ_ENDED;
  uint32_t previous = descriptor->registered ? descriptor->generation : 0;
  next_generation(descriptor);
  unsigned asked = interest | (descriptor->drained & interest ? GYRE_BLOCKED : 0);
  int error = loop->backend->watch(loop->backend_state, fd, descriptor->generation, asked, previous);
  if (error == -EEXIST && (error = renew(loop)) == 0)
    error = loop->backend->watch(loop->backend_state, fd, descriptor->generation, asked, 0);
  descriptor->registered = error < 0 ? 0 : (uint8_t)interest;
  descriptor->ended = 0; /* the kernel reports an ended side again */
  return error;
}

/* True if the registration outlives its report. */
static bool stays(const struct gyre_loop *loop, const struct gyre_descriptor *descriptor) {
  return loop->backend->capabilities & GYRE_BACKEND_EDGE ||
         (descriptor->registered & (GYRE_STANDING | GYRE_LEVEL)) == GYRE_STANDING ||
         descriptor->registered & GYRE_READ_ENDED;
}

int gyre_loop_watch(struct gyre_loop *loop, struct gyre_watch *watch, int fd, unsigned interest) {
  gyre_list_init(&watch->unverified);
  gyre_list_init(&watch->to_call);
  watch->fd = -1;
  watch->call_with = 0;
  if (fd < 0 || !loop->backend_state) return -EBADF;
  struct gyre_descriptor *state = descriptor(loop, fd);
  if (!state) return -ENOMEM;

  unsigned events = interest & (GYRE_READABLE | GYRE_PRIORITY | GYRE_WRITABLE);
  if ((state->drained & events) == events && !(state->ended & events) && (state->registered & interest) == interest) {
    if (gyre_list_empty(&loop->unverified.watches)) loop->unverified.since_ns = loop->now_ns;
    gyre_list_append(&loop->unverified.watches, &watch->unverified);
  } else {
    int error = register_interest(loop, state, fd, interest);
    if (error < 0) return error;
  }

  watch->fd = fd;
  watch->interest = (uint16_t)interest;
  watch->previous = NULL;
  watch->next = state->first;
  if (state->first) {
    state->first->previous = watch;
  } else {
    loop->watched_count++;
  }
  state->first = watch;
  return 0;
}

static void cancel_call(struct gyre_watch *watch) {
  gyre_list_remove(&watch->to_call);
  watch->call_with = 0;
}

void gyre_loop_unwatch(struct gyre_loop *loop, struct gyre_watch *watch) {
  if (watch->fd < 0) return;
  cancel_call(watch);
  if (watch->next) watch->next->previous = watch->previous;
  if (watch->previous) {
    watch->previous->next = watch->next;
  } else if (watch->fd < loop->descriptor_capacity) {
    loop->descriptors[watch->fd].first = watch->next;
    if (!watch->next) loop->watched_count--;
  }
  gyre_list_remove(&watch->unverified);
  int fd = watch->fd;
  watch->fd = -1;
  /* A backend that keeps the file open must release it. Otherwise the peer would not see the
   * close. */
  if (!(loop->backend->capabilities & GYRE_BACKEND_EDGE) && fd < loop->descriptor_capacity &&
      loop->descriptors[fd].registered && !loop->descriptors[fd].first) {
    gyre_loop_forget(loop, fd);
  }
}

void gyre_loop_drained(struct gyre_loop *loop, int fd, unsigned interest) {
  if (fd >= 0 && fd < loop->descriptor_capacity) loop->descriptors[fd].drained |= (uint8_t)interest;
}

struct gyre_descriptor *gyre_loop_hold(struct gyre_loop *loop, int fd, uintptr_t holder) {
  if (fd < 0) return NULL;
  struct gyre_descriptor *state = descriptor(loop, fd);
  if (!state) return NULL;
  state->holder = holder;
  state->drained = state->kind = 0;
  return state;
}

/* Called when the number may become another file's. */
static void forget_registration(struct gyre_descriptor *descriptor) {
  descriptor->registered = descriptor->drained = descriptor->ended = 0;
  next_generation(descriptor);
}

void gyre_loop_forget(struct gyre_loop *loop, int fd) {
  if (fd < 0 || fd >= loop->descriptor_capacity) return;
  struct gyre_descriptor *state = &loop->descriptors[fd];
  if (state->registered && loop->backend_state) loop->backend->unwatch(loop->backend_state, fd, state->generation);
  forget_registration(state);
}

void gyre_loop_closed(struct gyre_loop *loop, int fd) {
  if (fd >= 0 && fd < loop->descriptor_capacity && loop->backend->capabilities & GYRE_BACKEND_EDGE)
    forget_registration(&loop->descriptors[fd]);
}

void gyre_loop_abandon(struct gyre_loop *loop, int fd) {
  if (fd < 0 || fd >= loop->descriptor_capacity) return;
  if (loop->descriptors[fd].first) (void)gyre_loop_report(loop, fd, ANYTHING);
  if (fd >= loop->descriptor_capacity) return; /* a called function has closed the loop or forked */
  for (struct gyre_watch *watch = loop->descriptors[fd].first; watch; watch = watch->next) cancel_call(watch);
  gyre_loop_forget(loop, fd);
}

void gyre_loop_hand_over(struct gyre_loop *loop) {
  if (!(loop->backend->capabilities & GYRE_BACKEND_EDGE))
    loop->backend->wait(loop->backend_state, loop->answer.events, 0, 0); /* fetches no events */
}

/* Without the hand-over, the kernel would learn only in the next wait that the watch has ended. */
void gyre_loop_let_go(struct gyre_loop *loop, int fd) {
  gyre_loop_abandon(loop, fd);
  gyre_loop_hand_over(loop);
}

/* Registers the unverified watches. If this fails, because a descriptor was closed unnoticed, calls
 * the watch: the next read or write then fails. True if any watch was called. */
static bool verify(struct gyre_loop *loop) {
  bool called = false;
  GYRE_EACH_TAKEN(struct gyre_watch, watch, &loop->unverified.watches, unverified) {
    struct gyre_descriptor *state = &loop->descriptors[watch->fd];
    if (register_interest(loop, state, watch->fd, watch->interest) < 0) {
      watch->ready(loop, watch, watch->interest & ANYTHING);
      called = true;
    }
  }
  return called;
}

/* Unregisters level-triggered events that no watch wants: they would be reported endlessly. */
static void ask_for_less(struct gyre_loop *loop, int fd, unsigned ready) {
  if (fd >= loop->descriptor_capacity) return; /* a called function has closed the loop or forked */
  struct gyre_descriptor *state = &loop->descriptors[fd];
  if (state->registered & GYRE_LEVEL && ready & ANYTHING & state->registered & ~wanted(state))
    state->first ? register_interest(loop, state, fd, 0) : gyre_loop_forget(loop, fd);
}

/* A first report for an ended registration may just be late. A second one means that the number was
 * closed, but a child or duplicate keeps the file open. Such a registration would report endlessly
 * and cannot be removed (epoll(7), questions and answers), so the backend is reopened. */
static void report_is_stale(struct gyre_loop *loop, const struct gyre_event *event) {
  bool same = loop->stale.event.fd == event->fd && loop->stale.event.generation == event->generation;
  uint64_t age = loop->statistics.turns - loop->stale.turn;
  if (!same && age <= STALE_TURNS && loop->stale.event.generation) return; /* remembers the first */
  loop->stale.event = *event;
  loop->stale.turn = loop->statistics.turns;
  if (same && age > 0 && loop->backend->capabilities & GYRE_BACKEND_EDGE) (void)replace(loop);
}

static void deliver(struct gyre_loop *loop) {
  gyre_loop_report_left(loop);
  while (loop->answer.next < loop->answer.count) {
    struct gyre_event *event = &loop->answer.events[loop->answer.next++];
    if (loop->answer.next < loop->answer.count && event[1].fd < loop->descriptor_capacity)
      __builtin_prefetch(loop->descriptors[event[1].fd].first);
    if (event->fd >= loop->descriptor_capacity) continue;
    struct gyre_descriptor *state = &loop->descriptors[event->fd];
    if (state->generation != event->generation) {
      report_is_stale(loop, event);
      if (!loop->backend_state) return;
      continue;
    }

    int fd = event->fd; /* called functions may overwrite the events */
    unsigned ready = event->ready & ~GYRE_ENDED;
    state->drained &= (uint8_t)~ready;
    if (ready & GYRE_READ_ENDED) state->ended |= GYRE_READABLE;
    if (ready & GYRE_WRITE_ENDED) state->ended |= GYRE_WRITABLE;
    if (event->ready & GYRE_ENDED || !stays(loop, state)) state->registered = 0;
    if (!state->first) {
      /* Nothing waits for the descriptor: the kernel need not report it again. */
      if (state->registered) gyre_loop_forget(loop, fd);
      continue;
    }
    /* Registers again before the next wait if the kernel would report nothing more by itself. */
    bool again = state->registered & GYRE_READ_ENDED && state->registered & GYRE_LEVEL && ready & wanted(state);
    if (!state->registered || (again && !(loop->backend->capabilities & GYRE_BACKEND_EDGE)))
      register_later(loop, state);
    /* If both sides have ended, calls even a watch that wants only urgent data. */
    if (!gyre_loop_report(loop, fd, ready) && ready & GYRE_READ_ENDED && ready & GYRE_WRITE_ENDED)
      (void)gyre_loop_report(loop, fd, ANYTHING);
    ask_for_less(loop, fd, ready);
  }
}

/* Does not wait for VERIFY_NS if the clock is virtual, because such a clock stands still. */
static bool verification_is_due(const struct gyre_loop *loop, int64_t now_ns) {
  if (gyre_list_empty(&loop->unverified.watches)) return false;
  return now_ns - loop->unverified.since_ns >= VERIFY_NS || loop->virtual_ns ||
         !(loop->backend->capabilities & GYRE_BACKEND_EDGE);
}

/* Polls for GYRE_BUSY_POLL_NS instead of sleeping. Returns the number of events, or -errno. */
static int poll_busily(struct gyre_loop *loop, struct gyre_busy_poll *expected) {
  int count;
  int64_t end_ns = gyre_timers_now() + GYRE_BUSY_POLL_NS;
  do {
    count = loop->backend->wait(loop->backend_state, loop->answer.events, GYRE_LOOP_EVENTS, 0);
  } while (count == 0 && !__atomic_load_n(&loop->woken, __ATOMIC_SEQ_CST) && gyre_timers_now() < end_ns);
  gyre_busy_poll_done(expected, count != 0);
  return count;
}

static void *wait_without_gvl(void *opaque) {
  struct gyre_loop *loop = opaque;
  if (!loop->backend_state) return NULL; /* a signal handler has closed the loop */
  int64_t next = gyre_timers_next(&loop->timers), timeout_ns = -1;
  if (next >= 0) {
    timeout_ns = next - gyre_loop_now(loop);
    if (timeout_ns < 0) timeout_ns = 0;
  }
  if (!gyre_list_empty(&loop->unverified.watches) && (timeout_ns < 0 || timeout_ns > VERIFY_NS)) timeout_ns = VERIFY_NS;
  struct gyre_busy_poll *expected = loop->expected;
  loop->expected = NULL;
  int count = 0;
  if (expected && (timeout_ns < 0 || timeout_ns > GYRE_BUSY_POLL_NS) && gyre_busy_poll_is_due(expected))
    count = poll_busily(loop, expected);
  if (count == 0) count = loop->backend->wait(loop->backend_state, loop->answer.events, GYRE_LOOP_EVENTS, timeout_ns);
  loop->answer.count = count < 0 ? 0 : count;
  loop->answer.error = count < 0 ? -count : 0;
  return NULL;
}

static void interrupt_wait(void *opaque) { gyre_loop_wake(opaque); }

static VALUE wait_body(VALUE opaque) {
  struct gyre_loop *loop = (struct gyre_loop *)opaque;
  loop->answer.error = 0;
  rb_nogvl(wait_without_gvl, loop, interrupt_wait, loop,
           RB_NOGVL_UBF_ASYNC_SAFE | (loop->sleeping ? RB_NOGVL_INTR_FAIL : 0));
  return Qnil;
}

static VALUE wait_ensure(VALUE opaque) {
  struct gyre_loop *loop = (struct gyre_loop *)opaque;
  loop->waiting = false;
  if (loop->sleeps) loop->sleeps(loop, false);
  return Qnil;
}

/* Moves the virtual clock to the next timer. */
static bool jump(struct gyre_loop *loop, int64_t next) {
  if (!loop->virtual_ns || next < 0 || loop->outside) return false;
  loop->virtual_ns = next;
  return true;
}

/* A callback may close the loop during a poll. */
_Noreturn static void closed(void) { rb_raise(rb_eRuntimeError, "the loop is closed"); }

/* Polls with the GVL, without waiting. True if nothing was found and a wait may follow. */
static bool ask_at_once(struct gyre_loop *loop) {
  int count = loop->backend->wait(loop->backend_state, loop->answer.events, GYRE_LOOP_EVENTS, 0);
  bool renewed = count == -EEXIST && (count = renew(loop)) == 0;
  loop->answer.count = count < 0 ? 0 : count;
  if (count < 0) rb_syserr_fail(-count, "wait for events");
  return count == 0 && !renewed;
}

static void sleep_until_woken(struct gyre_loop *loop, int64_t now_ns) {
  gyre_lag_add(&loop->lag, now_ns - loop->polled_ns);
  loop->statistics.waits++;
  if (loop->sleeps) loop->sleeps(loop, true);
  loop->waiting = true;
  int64_t real_ns = loop->virtual_ns && loop->outside ? gyre_timers_now() : 0;
  rb_ensure(wait_body, (VALUE)loop, wait_ensure, (VALUE)loop);
  if (real_ns) loop->virtual_ns += gyre_timers_now() - real_ns;
  if (__atomic_exchange_n(&loop->woken, 0, __ATOMIC_SEQ_CST)) loop->statistics.wakeups++;
  if (!loop->backend_state) closed();
  if (loop->answer.error == EEXIST) loop->answer.error = -renew(loop);
  if (loop->answer.error) rb_syserr_fail(loop->answer.error, "wait for events");
}

/* Fetches events into loop->answer. True if it slept. */
static bool take_events(struct gyre_loop *loop, bool wait) {
  loop->answer.next = loop->answer.count = 0;
  /* Verifies first: a later verification would drop the fetched reports. */
  if (!gyre_list_empty(&loop->unverified.watches) && verification_is_due(loop, gyre_timers_coarse_now()) &&
      verify(loop))
    wait = false;
  if (!loop->backend_state) closed();

  bool asked = !wait || loop->in_vain < IN_VAIN_LIMIT || loop->virtual_ns;
  if (asked && !ask_at_once(loop)) wait = false;
  if (!wait) {
    if (loop->answer.count > 0) loop->in_vain = 0;
    return false;
  }
  int64_t next = gyre_timers_next(&loop->timers), now_ns = gyre_loop_now(loop);
  bool idle = !(next >= 0 && next <= now_ns) && !(loop->sleeping && !loop->sleeping(loop));
  /* Checked last: `sleeping` may have run code that woke the loop. */
  if (__atomic_exchange_n(&loop->woken, 0, __ATOMIC_SEQ_CST)) {
    loop->statistics.wakeups++;
    idle = false;
  }
  if (!loop->backend_state) closed();
  if (idle && asked) loop->in_vain++;
  if (!idle || jump(loop, next)) {
    if (!asked) (void)ask_at_once(loop);
    return false;
  }
  sleep_until_woken(loop, now_ns);
  loop->now_ns = gyre_loop_now(loop);
  bool at_once = loop->now_ns - now_ns < SOON_NS;
  if (at_once) loop->in_vain = 0;
  /* If it slept without polling first, an event reported at once may be older than the sleep. */
  loop->unseen_ns = asked || !at_once ? loop->now_ns : loop->polled_ns;
  /* Nothing was reported: verifies, because an unverified registration may be wrong. */
  if (loop->answer.count == 0 && verification_is_due(loop, loop->now_ns)) (void)verify(loop);
  return true;
}

void gyre_loop_poll(struct gyre_loop *loop, bool wait) {
  if (!loop->backend_state) closed();
  loop->statistics.turns++;
  bool slept = false;
  if (!gyre_list_empty(&loop->deferred) || !gyre_list_empty(&loop->again)) wait = false;
  /* If an exception interrupted the last poll, delivers its other events first. */
  if (loop->answer.next >= loop->answer.count) {
    slept = take_events(loop, wait);
    loop->statistics.events += (uint64_t)loop->answer.count;
  }
  if (!slept) {
    loop->now_ns = gyre_loop_now(loop);
    gyre_lag_add(&loop->lag, loop->now_ns - loop->polled_ns);
    loop->unseen_ns = loop->polled_ns;
  }
  loop->polled_ns = loop->now_ns;
  /* Delivers events before timers fire: the events came in time. */
  deliver(loop);
  gyre_timers_fire(&loop->timers, loop->now_ns, loop);
}

/* `woken` is cleared before each sleep; only the first call that sets it wakes the backend. */
void gyre_loop_wake(struct gyre_loop *loop) {
  if (__atomic_exchange_n(&loop->woken, 1, __ATOMIC_SEQ_CST)) return;
  if (loop->backend_state) loop->backend->wake(loop->backend_state);
}
