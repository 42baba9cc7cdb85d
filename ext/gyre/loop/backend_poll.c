/*
 * The poll(2) backend, for systems that have nothing better: every wait hands the whole list of
 * what is watched to the kernel. The list is kept here, because the kernel keeps none. A watch ends
 * with its report, unless it is for GYRE_LEVEL. See backend.h for the contract.
 */
#include "feature.h"

#ifdef GYRE_HAVE_POLL
#include "loop/backend.h"
#include "loop/wakeup.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifndef POLLRDHUP /* Linux; elsewhere the end of the read side is found by the next read */
#define POLLRDHUP 0
#endif

struct poll_state {
  struct gyre_wakeup wakeup;
  struct pollfd *descriptors; /* the first one is the wake-up's */
  struct poll_watch {
    uint32_t generation;
    bool level;
  } * watches; /* of each of these */
  int count, capacity;
  int *places; /* by number: where it stands in the list; 0: nowhere */
  int places_capacity;
  int next; /* the one to report first, so that all have their turn where `capacity` is small */
};

static bool grow(void **array, size_t size, int before, int after) {
  char *larger = realloc(*array, (size_t)after * size);
  if (!larger) return false;
  memset(larger + (size_t)before * size, 0, (size_t)(after - before) * size);
  *array = larger;
  return true;
}

static int doubled(int capacity, int needed) {
  while (capacity <= needed) capacity *= 2;
  return capacity;
}

/* Room for one more in the list, and for the number in the table. */
static bool reserve(struct poll_state *state, int fd) {
  if (fd >= INT_MAX / 2) return false;
  int places = doubled(state->places_capacity, fd), capacity = doubled(state->capacity, state->count);
  if (places > state->places_capacity) {
    if (!grow((void **)&state->places, sizeof(int), state->places_capacity, places)) return false;
    state->places_capacity = places;
  }
  if (capacity == state->capacity) return true;
  if (!grow((void **)&state->descriptors, sizeof(struct pollfd), state->capacity, capacity)) return false;
  if (!grow((void **)&state->watches, sizeof(struct poll_watch), state->capacity, capacity)) return false;
  state->capacity = capacity;
  return true;
}

static void poll_backend_close(void *opaque) {
  struct poll_state *state = opaque;
  gyre_wakeup_close(&state->wakeup);
  free(state->descriptors);
  free(state->watches);
  free(state->places);
  free(state);
}

static int poll_backend_open(void **result) {
  struct poll_state *state = calloc(1, sizeof(*state));
  if (!state) return -ENOMEM;
  int error = gyre_wakeup_open(&state->wakeup);
  if (error < 0) {
    free(state);
    return error;
  }
  state->capacity = state->places_capacity = 64;
  state->descriptors = calloc(64, sizeof(struct pollfd));
  state->watches = calloc(64, sizeof(struct poll_watch));
  state->places = calloc(64, sizeof(int));
  if (!state->descriptors || !state->watches || !state->places) {
    poll_backend_close(state);
    return -ENOMEM;
  }
  state->descriptors[0] = (struct pollfd){.fd = state->wakeup.read_fd, .events = POLLIN};
  state->count = 1;
  *result = state;
  return 0;
}

/* The last one takes its place in the list. */
static void take_out(struct poll_state *state, int place) {
  int last = --state->count;
  state->places[state->descriptors[place].fd] = 0;
  if (place == last) return;
  state->descriptors[place] = state->descriptors[last];
  state->watches[place] = state->watches[last];
  state->places[state->descriptors[place].fd] = place;
}

static int poll_backend_watch(void *opaque, int fd, uint32_t generation, unsigned interest, uint32_t previous) {
  struct poll_state *state = opaque;
  (void)previous;
  if (!(interest & GYRE_BLOCKED) && fcntl(fd, F_GETFD) < 0) return -errno;
  if (!reserve(state, fd)) return -ENOMEM;
  int place = state->places[fd];
  if (!place) place = state->places[fd] = state->count++;
  short events = 0;
  if (interest & GYRE_READABLE) events |= POLLIN | POLLRDHUP;
  if (interest & GYRE_PRIORITY) events |= POLLPRI;
  if (interest & GYRE_WRITABLE) events |= POLLOUT;
  state->descriptors[place] = (struct pollfd){.fd = fd, .events = events};
  state->watches[place] = (struct poll_watch){generation, interest & GYRE_LEVEL};
  return 0;
}

static void poll_backend_unwatch(void *opaque, int fd, uint32_t generation) {
  struct poll_state *state = opaque;
  int place = fd < state->places_capacity ? state->places[fd] : 0;
  if (place && state->watches[place].generation == generation) take_out(state, place);
}

static int ask(struct poll_state *state, int64_t timeout_ns) {
#ifdef GYRE_HAVE_PPOLL
  struct timespec timeout = {timeout_ns / 1000000000, timeout_ns % 1000000000};
  return ppoll(state->descriptors, (nfds_t)state->count, timeout_ns < 0 ? NULL : &timeout, NULL);
#else
  int64_t milliseconds = timeout_ns < 0 ? -1 : timeout_ns / 1000000 + (timeout_ns % 1000000 != 0);
  return poll(state->descriptors, (nfds_t)state->count, milliseconds > INT_MAX ? INT_MAX : (int)milliseconds);
#endif
}

static unsigned readiness(short bits) {
  unsigned ready = 0;
  if (bits & (POLLIN | POLLRDHUP | POLLHUP | POLLERR | POLLNVAL)) ready |= GYRE_READABLE;
  if (bits & (POLLOUT | POLLHUP | POLLERR | POLLNVAL)) ready |= GYRE_WRITABLE;
  if (bits & POLLPRI) ready |= GYRE_PRIORITY;
  if (bits & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL)) ready |= GYRE_READ_ENDED;
  if (bits & (POLLHUP | POLLERR | POLLNVAL)) ready |= GYRE_WRITE_ENDED;
  return ready;
}

static int poll_backend_wait(void *opaque, struct gyre_event *events, int capacity, int64_t timeout_ns) {
  struct poll_state *state = opaque;
  if (capacity == 0) return 0;
  int count = ask(state, timeout_ns);
  if (count < 0) return errno == EINTR || errno == EAGAIN ? 0 : -errno;
  if (state->descriptors[0].revents) {
    gyre_wakeup_clear(&state->wakeup);
    count--;
  }
  /* Backwards, because what is reported leaves the list and the last one takes its place. */
  int filled = 0, place = state->next < state->count ? state->next : state->count - 1;
  for (int left = state->count - 1; left > 0 && filled < count && filled < capacity; left--, place--) {
    if (place <= 0) place = state->count - 1;
    const struct pollfd *descriptor = &state->descriptors[place];
    if (!descriptor->revents) continue;
    const struct poll_watch *watch = &state->watches[place];
    events[filled++] = (struct gyre_event){.fd = descriptor->fd,
                                           .generation = watch->generation,
                                           .ready = readiness(descriptor->revents) | (watch->level ? 0 : GYRE_ENDED)};
    if (!watch->level) take_out(state, place);
  }
  state->next = place;
  return filled;
}

static void poll_backend_wake(void *opaque) { gyre_wakeup_signal(&((struct poll_state *)opaque)->wakeup); }

const struct gyre_backend_operations gyre_backend_poll = {
    .name = "poll",
    .capabilities = GYRE_BACKEND_LEVEL,
    .open = poll_backend_open,
    .close = poll_backend_close,
    .watch = poll_backend_watch,
    .unwatch = poll_backend_unwatch,
    .wait = poll_backend_wait,
    .wake = poll_backend_wake,
};
#endif
