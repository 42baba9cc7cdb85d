/*
 * The contract between the loop and a way of asking the kernel (epoll, io_uring, kqueue,
 * iocp).
 *
 * A backend is a table of functions and capability bits. loop.c keeps the books, once for all
 * backends. Never includes ruby.h, raises or calls back; returns counts or -errno. `wait` may run
 * without the GVL, `wake` from any thread and from a signal handler, everything else on the loop's
 * own thread. `watch` and `wait` return -EEXIST if the backend cannot be used from a new thread;
 * the loop then reopens it.
 */
#ifndef GYRE_BACKEND_H
#define GYRE_BACKEND_H

#include "loop/list.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The values of IO::READABLE, IO::PRIORITY and IO::WRITABLE. An error or a complete hang-up
 * counts as both readable and writable: the next call shows the cause. */
#define GYRE_READABLE 1u
#define GYRE_PRIORITY 2u
#define GYRE_WRITABLE 4u

/*
 * Reported at most once, and never requested: one side has ended, so its calls return at once
 * (remaining bytes, end of file, or error). Comes with GYRE_READABLE or GYRE_WRITABLE. The peer's
 * half-close ends only the read side; writers go on waiting. A reset or complete hang-up ends both.
 *
 * Requests the rest of the events after a reported GYRE_READ_ENDED. Keeps the watch until
 * `unwatch`, even in a backend whose watches end with a report.
 */
#define GYRE_READ_ENDED 8u
#define GYRE_WRITE_ENDED 256u

/* Requested: reports as long as the descriptor is ready, rather than once for each change. */
#define GYRE_LEVEL 16u

/* Requested: the watcher promises to end the watch before the descriptor is closed. So a backend
 * that keeps descriptors open can leave the watch in place. */
#define GYRE_STANDING 32u

/* Requested: a call on the descriptor returned "would block", so it can be waited for. Saves a
 * late check. */
#define GYRE_BLOCKED 128u

/* Only reported: the watch has ended with this report. */
#define GYRE_ENDED 64u

/* A change of a descriptor. `generation` identifies the `watch` that it belongs to: reports for an
 * earlier use of the number have an older one. */
struct gyre_event {
  int fd;
  uint32_t generation;
  unsigned ready;
};

/*
 * A watch stays with the kernel until the descriptor is closed and reports each change once;
 * another `watch` reports the present state again. Without this bit only GYRE_STANDING watches
 * stay, unless they have GYRE_LEVEL; the loop asks again each turn.
 */
#define GYRE_BACKEND_EDGE 1u

struct gyre_backend_operations {
  const char *name;
  unsigned capabilities;

  /* Sets *state. Returns 0, or -errno if this machine lacks what the backend needs. */
  int (*open)(void **state);
  void (*close)(void *state);

  /*
   * Reports `fd` when it is or becomes ready for `interest`. `previous` is the generation of an
   * earlier watch that this one replaces, or 0. Returns 0 or -errno; -EPERM: always ready, cannot
   * be waited for. A backend that registers later reports such descriptors as ready for everything.
   */
  int (*watch)(void *state, int fd, uint32_t generation, unsigned interest, uint32_t previous);

  /* Ends the watch of this generation; harmless if there is none. May reach the kernel with the
   * next wait, as `watch` may. */
  void (*unwatch)(void *state, int fd, uint32_t generation);

  /* Fills `events` and returns their number, 0 after the timeout or a wake-up, or -errno. A
   * negative timeout has no limit. */
  int (*wait)(void *state, struct gyre_event *events, int capacity, int64_t timeout_ns);

  /* Ends the present or the next wait. */
  void (*wake)(void *state);

  /* Optional: describes the flags and features of this machine, for messages; valid as long as the
   * state. */
  const char *(*describe)(const void *state);
  /* Optional: the meaning of an errno of `open`; NULL if the errno is clear. */
  const char *(*refusal)(int error);
};

extern const struct gyre_backend_operations gyre_backend_epoll, gyre_backend_io_uring, gyre_backend_kqueue,
    gyre_backend_iocp;

#endif
