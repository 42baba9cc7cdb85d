/* The contract between the loop and a way of asking the kernel (epoll, io_uring, kqueue, iocp).
 *
 * A backend is a table of functions and capability bits; loop.c does the bookkeeping. A backend
 * never includes ruby.h, raises or calls the loop. `wait` may run without the GVL, `wake` in any
 * thread and signal handler, the others in the loop's thread. `watch` and `wait` return -EEXIST if
 * the thread has changed and the loop must reopen the backend. */
#pragma once

#include "loop/list.h"

/* The values of IO::READABLE, IO::PRIORITY and IO::WRITABLE. An error or complete hang-up is
 * reported as readable and writable, and the next read or write returns the cause. */
#define GYRE_READABLE 1u
#define GYRE_PRIORITY 2u
#define GYRE_WRITABLE 4u

/* Reported, perhaps only once: reading or writing has ended, so calls return at once. Accompanies
 * GYRE_READABLE or GYRE_WRITABLE. A peer's half-close ends only reading; a reset or complete
 * hang-up ends both.
 *
 * As interest, GYRE_READ_ENDED says that reading has already ended: the watch for other events then
 * stays until `unwatch`, even on a backend whose watches end with a report. */
#define GYRE_READ_ENDED 8u
#define GYRE_WRITE_ENDED 256u

/* Only requested: the backend reports as long as the descriptor is ready, not once per change. */
#define GYRE_LEVEL 16u

/* Only requested: the caller ends the watch before it closes the descriptor. So even a backend that
 * keeps watched files open may keep the watch after a report. */
#define GYRE_STANDING 32u

/* Only requested: a call has returned "would block", so the descriptor is not a regular file. */
#define GYRE_BLOCKED 128u

/* Only reported: the watch has ended. */
#define GYRE_ENDED 64u

/* A report. `generation` was passed to `watch`; reports with an older one are ignored. */
struct gyre_event {
  int fd;
  uint32_t generation;
  unsigned ready;
};

/* A watch stays until the close and reports each change once; another `watch` reports the present
 * state. On a backend that lacks this bit, a watch ends with its first report, unless the watch has
 * GYRE_READ_ENDED, or GYRE_STANDING but not GYRE_LEVEL. The loop then calls `watch` again. */
#define GYRE_BACKEND_EDGE 1u

struct gyre_backend_operations {
  const char *name;
  unsigned capabilities;

  /* Returns 0 or -errno, for instance if the machine lacks a needed feature. */
  int (*open)(void **state);
  void (*close)(void *state);

  /* Begins to report when `fd` is ready for `interest`. `previous`: generation of the replaced
   * watch, or 0. Returns 0 or -errno; -EPERM means that `fd` is always ready. A backend that
   * registers only in `wait` may instead report such an `fd` as ready for everything. */
  int (*watch)(void *state, int fd, uint32_t generation, unsigned interest, uint32_t previous);

  /* Ends the watch of this generation, if there is one. The kernel may learn of `watch` and
   * `unwatch` only in the next `wait`. */
  void (*unwatch)(void *state, int fd, uint32_t generation);

  /* Fills `events`. Returns their number, 0 after the timeout or a wake-up, or -errno. A negative
   * timeout means none. */
  int (*wait)(void *state, struct gyre_event *events, int capacity, int64_t timeout_ns);

  /* Ends the present `wait`, or the next one. */
  void (*wake)(void *state);

  /* Optional: returns the flags in use as text, which is valid as long as the state. */
  const char *(*describe)(const void *state);
  /* Optional: explains an errno of `open`; returns NULL for an unknown one. */
  const char *(*refusal)(int error);
};

/* Defines the table of a backend, whose functions are named after it: epoll_backend_open. */
#define GYRE_BACKEND(backend, ...)                                                                                     \
  const struct gyre_backend_operations gyre_backend_##backend = {.name = #backend,                                     \
                                                                 .open = backend##_backend_open,                       \
                                                                 .close = backend##_backend_close,                     \
                                                                 .watch = backend##_backend_watch,                     \
                                                                 .unwatch = backend##_backend_unwatch,                 \
                                                                 .wait = backend##_backend_wait,                       \
                                                                 .wake = backend##_backend_wake,                       \
                                                                 __VA_ARGS__}

extern const struct gyre_backend_operations gyre_backend_epoll, gyre_backend_io_uring, gyre_backend_kqueue,
    gyre_backend_iocp;
