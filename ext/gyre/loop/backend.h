/* The contract between the loop and a way of asking the kernel (epoll, io_uring, kqueue, iocp).
 *
 * A backend is a table of functions and capability bits; loop.c keeps the books. Never includes
 * ruby.h, raises or calls back; returns counts or -errno. `wait` may run without the GVL, `wake` in
 * any thread and signal handler, the rest in the loop's thread. `watch` and `wait` return -EEXIST
 * in a new thread if the loop must reopen the backend. */
#pragma once

#include "loop/list.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* IO::READABLE, IO::PRIORITY, IO::WRITABLE. An error or complete hang-up counts as readable and
 * writable: the next call shows the cause. */
#define GYRE_READABLE 1u
#define GYRE_PRIORITY 2u
#define GYRE_WRITABLE 4u

/* Reported at most once, never requested: one side has ended, so that its calls return at once.
 * Comes with GYRE_READABLE or GYRE_WRITABLE. A peer's half-close ends only reading; a reset or
 * complete hang-up ends both.
 *
 * Requests the remaining events after GYRE_READ_ENDED, and keeps the watch until `unwatch`, even in
 * a backend whose watches end with a report. */
#define GYRE_READ_ENDED 8u
#define GYRE_WRITE_ENDED 256u

/* Requested: reports while the descriptor is ready, not once per change. */
#define GYRE_LEVEL 16u

/* Requested: the watch ends before the descriptor is closed, so a backend that holds files open may
 * keep it. */
#define GYRE_STANDING 32u

/* Requested: a call returned "would block", so a late check is needless. */
#define GYRE_BLOCKED 128u

/* Only reported: the watch has ended. */
#define GYRE_ENDED 64u

/* A change. `generation` is that of the `watch`: reports of the number's earlier use are older. */
struct gyre_event {
  int fd;
  uint32_t generation;
  unsigned ready;
};

/* A watch stays until the close and reports each change once; another `watch` reports the present
 * state. Without this bit, only GYRE_STANDING watches without GYRE_LEVEL stay, and the loop asks
 * again each turn. */
#define GYRE_BACKEND_EDGE 1u

struct gyre_backend_operations {
  const char *name;
  unsigned capabilities;

  /* Returns 0, or -errno if the machine lacks something. */
  int (*open)(void **state);
  void (*close)(void *state);

  /* Reports `fd` when ready for `interest`. `previous`: the replaced watch's generation, or 0.
   * Returns 0 or -errno; -EPERM: always ready. A backend that registers later reports such
   * descriptors as ready for everything. */
  int (*watch)(void *state, int fd, uint32_t generation, unsigned interest, uint32_t previous);

  /* Ends this generation's watch, if any. Like `watch`, it may reach the kernel with the next
   * wait. */
  void (*unwatch)(void *state, int fd, uint32_t generation);

  /* Fills `events`. Returns their number, 0 after the timeout (negative: none) or a wake-up, or
   * -errno. */
  int (*wait)(void *state, struct gyre_event *events, int capacity, int64_t timeout_ns);

  /* Ends the present or the next wait. */
  void (*wake)(void *state);

  /* Optional: this machine's flags and features as text, valid like the state. */
  const char *(*describe)(const void *state);
  /* Optional: the meaning of an errno of `open`, or NULL. */
  const char *(*refusal)(int error);
};

extern const struct gyre_backend_operations gyre_backend_epoll, gyre_backend_io_uring, gyre_backend_kqueue,
    gyre_backend_iocp;
