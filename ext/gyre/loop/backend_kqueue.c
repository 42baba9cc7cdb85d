/* The kqueue backend (macOS, BSDs; on Linux by libkqueue, for tests). A watch is one kevent per
 * direction. It is edge-triggered unless it has GYRE_LEVEL, and stays until the descriptor is
 * closed. Contract: backend.h.
 *
 * Reports urgent data (GYRE_PRIORITY) only by EVFILT_EXCEPT (macOS, OpenBSD, DragonFly). */
#ifdef GYRE_HAVE_KQUEUE
#include "loop/backend.h"
#include "loop/forks.h"
#include "loop/wakeup.h"

#include <fcntl.h>
#include <sys/event.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>

#define EVENTS_LIMIT 256
#define TIMEOUT_LIMIT_S 86400 /* some systems refuse a longer timeout; the loop waits again */
#define FILTERS_LIMIT 3

/* Unlike kernels, libkqueue keeps the kevents of a closed descriptor. */
#ifdef LIBKQUEUE
#define REMEMBERS_CLOSED 1
#else
#define REMEMBERS_CLOSED 0
#endif

/* udata is a pointer, but a number on NetBSD before 10. */
#define UDATA(value) ((__typeof__(((struct kevent *)0)->udata))(uintptr_t)(value))

struct kqueue_state {
  int fd;
  unsigned forks; /* gyre_forks when opened: a child has no queue, and `fd` may be another file's */
  struct gyre_wakeup wakeup;
};

static const struct {
  unsigned interest;
  short filter;
  unsigned note;
} filters[] = {
    {GYRE_READABLE, EVFILT_READ, 0},
    {GYRE_WRITABLE, EVFILT_WRITE, 0},
#ifdef EVFILT_EXCEPT
    {GYRE_PRIORITY, EVFILT_EXCEPT, NOTE_OOB},
#endif
};
#define FILTERS (sizeof(filters) / sizeof(*filters))

static void change(struct kevent *event, int fd, size_t filter, unsigned flags, uint32_t generation) {
  EV_SET(event, (uintptr_t)fd, filters[filter].filter, (unsigned short)(flags | EV_RECEIPT), filters[filter].note, 0,
         UDATA(generation));
}

/* Returns 0, or -errno of the first failed addition. Deletions may fail. */
static int apply(int queue, struct kevent *changes, int count) {
  struct kevent receipts[2 * FILTERS_LIMIT];
  static const struct timespec now = {0, 0};
  int answered = kevent(queue, changes, count, receipts, count, &now);
  if (answered < 0) return -errno;
  for (int i = 0; i < answered; i++) {
    if (receipts[i].flags & EV_ERROR && receipts[i].data && !(changes[i].flags & EV_DELETE))
      return -(int)receipts[i].data;
  }
  return 0;
}

static int open_wakeup(struct kqueue_state *state) {
  int error = gyre_wakeup_open(&state->wakeup);
  if (error < 0) return error;
  struct kevent event;
  EV_SET(&event, (uintptr_t)state->wakeup.read_fd, EVFILT_READ, EV_ADD | EV_CLEAR, 0, 0, UDATA(0));
  if (kevent(state->fd, &event, 1, NULL, 0, NULL) == 0) return 0;
  error = -errno;
  gyre_wakeup_close(&state->wakeup);
  return error;
}

static int kqueue_backend_open(void **result) {
  int error;
  struct kqueue_state *state = calloc(1, sizeof(*state));
  if (!state) return -ENOMEM;

  gyre_forks_count();
  state->forks = gyre_forks;
  state->fd = kqueue();
  if (state->fd < 0) {
    error = -errno;
    goto fail_queue;
  }
  if (fcntl(state->fd, F_SETFD, FD_CLOEXEC) < 0) {
    error = -errno;
    goto fail_wakeup;
  }
  if ((error = open_wakeup(state)) < 0) goto fail_wakeup;
  *result = state;
  return 0;

fail_wakeup:
  close(state->fd);
fail_queue:
  free(state);
  return error;
}

static void kqueue_backend_close(void *opaque) {
  struct kqueue_state *state = opaque;
  if (state->forks == gyre_forks) close(state->fd);
  gyre_wakeup_close(&state->wakeup);
  free(state);
}

static void kqueue_backend_unwatch(void *opaque, int fd, uint32_t generation) {
  struct kqueue_state *state = opaque;
  if (state->forks != gyre_forks) return;
  struct kevent changes[FILTERS_LIMIT];
  for (size_t i = 0; i < FILTERS; i++) change(&changes[i], fd, i, EV_DELETE, generation);
  apply(state->fd, changes, FILTERS);
}

/* True for errors that mean "always ready", like epoll's EPERM: for a device without the filter,
 * and for a pipe whose reader is gone (FreeBSD EPIPE, NetBSD EBADF). libkqueue has only EFAULT. */
static bool always_ready(int error) {
  return error == -EINVAL || error == -ENODEV || error == -EOPNOTSUPP || error == -EPIPE || error == -EBADF ||
         (REMEMBERS_CLOSED && error == -EFAULT);
}

/* Deletes kevents first: existing ones would keep their flags and might hide the present state. */
static int kqueue_backend_watch(void *opaque, int fd, uint32_t generation, unsigned interest, uint32_t previous) {
  struct kqueue_state *state = opaque;
  if (state->forks != gyre_forks) return -EBADF;
  struct stat status;
  if (fstat(fd, &status) < 0) return -errno;
  /* kqueue stops reporting a file when its end is reached */
  if (S_ISREG(status.st_mode) || S_ISDIR(status.st_mode)) return -EPERM;

  struct kevent changes[2 * FILTERS_LIMIT];
  int count = 0;
  for (size_t i = 0; i < FILTERS; i++) {
    if (previous || REMEMBERS_CLOSED) change(&changes[count++], fd, i, EV_DELETE, generation);
    if (interest & filters[i].interest)
      change(&changes[count++], fd, i, EV_ADD | (interest & GYRE_LEVEL ? 0 : EV_CLEAR), generation);
  }
  int error = count ? apply(state->fd, changes, count) : 0;
  /* One of two directions may have been registered. */
  if (error < 0) kqueue_backend_unwatch(state, fd, generation);
  return always_ready(error) ? -EPERM : error;
}

/* Translates a kevent. An end with an error (fflags) ends both sides. Otherwise the read side's end
 * is the peer's half-close; the write side's end may be this process's own shutdown(2). */
static unsigned readiness(const struct kevent *event) {
  bool end = event->flags & EV_EOF;
  if (event->flags & EV_ERROR || (end && event->fflags))
    return GYRE_READABLE | GYRE_WRITABLE | GYRE_READ_ENDED | GYRE_WRITE_ENDED;
  if (event->filter == EVFILT_WRITE) return GYRE_WRITABLE | (end ? GYRE_WRITE_ENDED : 0);
  if (event->filter == EVFILT_READ) return GYRE_READABLE | (end ? GYRE_READ_ENDED : 0);
  return GYRE_PRIORITY;
}

static int kqueue_backend_wait(void *opaque, struct gyre_event *events, int capacity, int64_t timeout_ns) {
  struct kqueue_state *state = opaque;
  struct kevent ready[EVENTS_LIMIT];
  struct timespec timeout = {timeout_ns / 1000000000, timeout_ns % 1000000000};
  if (timeout.tv_sec > TIMEOUT_LIMIT_S) timeout.tv_sec = TIMEOUT_LIMIT_S;
  int count = kevent(state->fd, NULL, 0, ready, capacity < EVENTS_LIMIT ? capacity : EVENTS_LIMIT,
                     timeout_ns < 0 ? NULL : &timeout);
  if (count < 0) return errno == EINTR ? 0 : -errno;

  int filled = 0;
  for (int i = 0; i < count; i++) {
    uint32_t generation = (uint32_t)(uintptr_t)ready[i].udata;
    if (generation == 0) continue; /* the wake-up */
    events[filled++] =
        (struct gyre_event){.fd = (int)ready[i].ident, .generation = generation, .ready = readiness(&ready[i])};
  }
  return filled;
}

static void kqueue_backend_wake(void *opaque) { gyre_wakeup_signal(&((struct kqueue_state *)opaque)->wakeup); }

GYRE_BACKEND(kqueue, .capabilities = GYRE_BACKEND_EDGE);
#endif
