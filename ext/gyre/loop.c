/*
 * The loop's books and its poll (see loop.h).
 *
 * Watches are registered with the kernel once and edge-triggered. A watch that begins after "would
 * block" trusts the registration that stands (`drained`); since the number may have been closed and
 * opened again behind our back, what was trusted is verified with the kernel before the loop sleeps.
 * So a busy loop makes no registration calls, and an idle one never sleeps on a stale registration.
 */
#include "loop.h"

#include <errno.h>
#include <ruby.h>
#include <ruby/thread.h>
#include <stdlib.h>
#include <string.h>

#define VERIFY_NS INT64_C(5000000)

int gyre_loop_open(struct gyre_loop *loop, const struct gyre_backend_operations *backend) {
  memset(loop, 0, sizeof(*loop));
  loop->backend = backend;
  loop->now_ns = gyre_timers_now();
  gyre_timers_init(&loop->timers);
  gyre_list_init(&loop->unverified);
  return backend->open(&loop->backend_state);
}

void gyre_loop_close(struct gyre_loop *loop) {
  if (loop->backend_state) loop->backend->close(loop->backend_state);
  loop->backend_state = NULL;
  gyre_timers_free(&loop->timers);
  free(loop->descriptors);
  loop->descriptors = NULL;
  loop->descriptor_capacity = 0;
  free(loop->buffer);
  loop->buffer = NULL;
}

int gyre_loop_reopen(struct gyre_loop *loop) {
  const struct gyre_backend_operations *backend = loop->backend;
  gyre_timers_cancel_all(&loop->timers);
  gyre_loop_close(loop);
  return gyre_loop_open(loop, backend);
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

/* Tells the backend; every call has a new generation, so that what was under way for the old one is dropped. */
static int tell(struct gyre_loop *loop, struct gyre_descriptor *descriptor, int fd, unsigned interest) {
  interest |= descriptor->registered;
  int error = loop->backend->watch(loop->backend_state, fd, ++descriptor->generation, interest, descriptor->registered != 0);
  descriptor->registered = error < 0 ? 0 : (uint8_t)interest;
  return error;
}

int gyre_loop_watch(struct gyre_loop *loop, struct gyre_watch *watch, int fd, unsigned interest) {
  gyre_list_init(&watch->unverified);
  watch->fd = -1;
  if (fd < 0 || !loop->backend_state) return -EBADF;
  struct gyre_descriptor *state = descriptor(loop, fd);
  if (!state) return -ENOMEM;

  if ((state->drained & interest) == interest && (state->registered & interest) == interest &&
      (loop->backend->capabilities & GYRE_BACKEND_EDGE)) {
    gyre_list_append(&loop->unverified, &watch->unverified);
  } else {
    int error = tell(loop, state, fd, interest);
    if (error < 0) return error;
  }

  watch->fd = fd;
  watch->interest = interest;
  watch->previous = NULL;
  watch->next = state->first;
  if (state->first) state->first->previous = watch;
  state->first = watch;
  return 0;
}

void gyre_loop_unwatch(struct gyre_loop *loop, struct gyre_watch *watch) {
  if (watch->fd < 0) return;
  if (loop->cursor == watch) loop->cursor = watch->next;
  if (watch->next) watch->next->previous = watch->previous;
  if (watch->previous) {
    watch->previous->next = watch->next;
  } else if (watch->fd < loop->descriptor_capacity) {
    loop->descriptors[watch->fd].first = watch->next;
  }
  gyre_list_remove(&watch->unverified);
  watch->fd = -1;
}

void gyre_loop_drained(struct gyre_loop *loop, int fd, unsigned interest) {
  if (fd >= 0 && fd < loop->descriptor_capacity) loop->descriptors[fd].drained |= (uint8_t)interest;
}

void gyre_loop_forget(struct gyre_loop *loop, int fd) {
  if (fd < 0 || fd >= loop->descriptor_capacity) return;
  struct gyre_descriptor *state = &loop->descriptors[fd];
  if (state->registered && loop->backend_state) loop->backend->unwatch(loop->backend_state, fd);
  state->registered = state->drained = 0;
  state->generation++;
}

void gyre_loop_abandon(struct gyre_loop *loop, int fd) {
  if (fd < 0 || fd >= loop->descriptor_capacity) return;
  for (struct gyre_watch *watch = loop->descriptors[fd].first, *next; watch; watch = next) {
    next = watch->next;
    watch->ready(loop, watch, watch->interest);
  }
  gyre_loop_forget(loop, fd);
}

/* What trusted an earlier registration is told to the kernel now; one that cannot be watched any
 * more (closed behind our back) is called, so that the next call on it shows the error. Whether any was. */
static bool verify(struct gyre_loop *loop) {
  bool called = false;
  loop->verified_ns = gyre_timers_coarse_now();
  while (!gyre_list_empty(&loop->unverified)) {
    struct gyre_watch *watch = GYRE_CONTAINER(loop->unverified.next, struct gyre_watch, unverified);
    gyre_list_remove(&watch->unverified);
    if (tell(loop, &loop->descriptors[watch->fd], watch->fd, watch->interest) < 0) {
      watch->ready(loop, watch, watch->interest);
      called = true;
    }
  }
  return called;
}

static void deliver(struct gyre_loop *loop) {
  while (loop->event_next < loop->event_count) {
    struct gyre_event *event = &loop->events[loop->event_next++];
    if (event->fd >= loop->descriptor_capacity) continue;
    struct gyre_descriptor *state = &loop->descriptors[event->fd];
    if (state->generation != event->generation) continue;

    state->drained &= (uint8_t)~event->ready;
    if (!state->first) {
      /* Nobody waits any more: do not let the kernel wake us for it again. */
      gyre_loop_forget(loop, event->fd);
      continue;
    }
    unsigned ready = event->ready;
    for (struct gyre_watch *watch = state->first; watch; watch = loop->cursor) {
      loop->cursor = watch->next;
      if (watch->interest & ready) watch->ready(loop, watch, ready);
    }
  }
}

static void *wait_without_gvl(void *opaque) {
  struct gyre_loop *loop = opaque;
  int64_t next = gyre_timers_next(&loop->timers), timeout_ns = -1;
  if (next >= 0) {
    timeout_ns = next - gyre_timers_now();
    if (timeout_ns < 0) timeout_ns = 0;
  }
  int count = loop->backend->wait(loop->backend_state, loop->events, GYRE_LOOP_EVENTS, timeout_ns);
  loop->event_count = count < 0 ? 0 : count;
  loop->error = count < 0 ? -count : 0;
  return NULL;
}

static void interrupt_wait(void *opaque) { gyre_loop_wake(opaque); }

static VALUE wait_body(VALUE opaque) {
  struct gyre_loop *loop = (struct gyre_loop *)opaque;
  rb_nogvl(wait_without_gvl, loop, interrupt_wait, loop, RB_NOGVL_UBF_ASYNC_SAFE);
  return Qnil;
}

static VALUE wait_ensure(VALUE opaque) {
  ((struct gyre_loop *)opaque)->waiting = false;
  return Qnil;
}

void gyre_loop_poll(struct gyre_loop *loop, bool wait) {
  if (!loop->backend_state) rb_raise(rb_eRuntimeError, "the loop is closed");
  loop->statistics.turns++;
  /* Events that are left from a poll that was interrupted by an exception come first. */
  if (loop->event_next >= loop->event_count) {
    loop->event_next = 0;
    int count = loop->backend->wait(loop->backend_state, loop->events, GYRE_LOOP_EVENTS, 0);
    loop->event_count = count < 0 ? 0 : count;
    if (count < 0) rb_syserr_fail(-count, "wait for events");

    int64_t next = gyre_timers_next(&loop->timers);
    /* A busy loop never comes to sleep; what it trusted is verified after a while all the same. */
    if (!gyre_list_empty(&loop->unverified) && gyre_timers_coarse_now() - loop->verified_ns > VERIFY_NS && verify(loop)) wait = false;
    if (__atomic_exchange_n(&loop->woken, 0, __ATOMIC_SEQ_CST)) wait = false;
    if (wait && count == 0 && !(next >= 0 && next <= gyre_timers_now()) && !verify(loop)) {
      loop->statistics.waits++;
      loop->waiting = true;
      rb_ensure(wait_body, (VALUE)loop, wait_ensure, (VALUE)loop);
      __atomic_store_n(&loop->woken, 0, __ATOMIC_SEQ_CST);
      if (loop->error) rb_syserr_fail(loop->error, "wait for events");
    }
    loop->statistics.events += (uint64_t)loop->event_count;
  }
  /* Events first: what has come in time is not to be found late. */
  loop->now_ns = gyre_timers_now();
  deliver(loop);
  loop->now_ns = gyre_timers_now();
  gyre_timers_fire(&loop->timers, loop->now_ns, loop);
}

void gyre_loop_wake(struct gyre_loop *loop) {
  __atomic_store_n(&loop->woken, 1, __ATOMIC_SEQ_CST);
  if (loop->backend_state) loop->backend->wake(loop->backend_state);
}
