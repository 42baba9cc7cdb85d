/*
 * The contract between the loop and a way of asking the kernel (epoll, later io_uring and kqueue).
 *
 * A backend is a table of functions and a few capability bits. It keeps no books: which descriptor
 * is watched by whom lives once, in loop.c. A backend never includes ruby.h, never raises and never
 * calls back; it answers with counts or -errno. `wait` may run without the GVL, `wake` from any
 * thread and from a signal handler; everything else runs on the loop's own thread.
 */
#ifndef GYRE_BACKEND_H
#define GYRE_BACKEND_H

#include <stdbool.h>
#include <stdint.h>

/* What can be waited for: the values of IO::READABLE, IO::PRIORITY and IO::WRITABLE. An error or a
 * hang-up counts as both readable and writable, for the next call is what tells which. */
#define GYRE_READABLE 1u
#define GYRE_PRIORITY 2u
#define GYRE_WRITABLE 4u

/* Only reported, never asked for: the peer will send no more, or the descriptor is in error. Comes with
 * GYRE_READABLE, at most once: whoever reads less than everything has to remember it. */
#define GYRE_HANGUP 8u

/* Something happened to a descriptor. The generation is the one given to the latest `watch`: a
 * report that was under way for an older use of the same number is told apart by it. */
struct gyre_event {
  int fd;
  uint32_t generation;
  unsigned ready;
};

/* A watch stays with the kernel until the descriptor is closed and reports each change once; `watch`
 * again makes it report the present state anew. Without this bit a watch ends with its report. */
#define GYRE_BACKEND_EDGE 1u

struct gyre_backend_operations {
  const char *name;
  unsigned capabilities;

  /* Makes *state. 0 or -errno: this machine does not have what the backend needs. */
  int (*open)(void **state);
  void (*close)(void *state);

  /* Reports `fd` when it is or becomes ready for `interest`. `known` says that an earlier watch of
   * this number may still stand. 0 or -errno; -EPERM: cannot be waited for, always ready. */
  int (*watch)(void *state, int fd, uint32_t generation, unsigned interest, bool known);

  /* Ends the watch. Harmless when there is none. */
  void (*unwatch)(void *state, int fd);

  /* Fills `events`; returns how many, 0 after the time or a wake-up, or -errno. A negative timeout
   * waits for ever. */
  int (*wait)(void *state, struct gyre_event *events, int capacity, int64_t timeout_ns);

  /* Ends the present or the next wait. */
  void (*wake)(void *state);
};

extern const struct gyre_backend_operations gyre_backend_epoll;

#endif
