/*
 * The contract between the loop and a way of asking the kernel (epoll, io_uring, kqueue).
 *
 * A backend is a table of functions and a few capability bits. It keeps no books: which descriptor
 * has which watches is kept once, in loop.c. A backend never includes ruby.h, never raises and
 * never calls back; it answers with counts or -errno. `wait` may run without the GVL, `wake` from
 * any thread and from a signal handler; everything else runs on the loop's own thread. Where that
 * has changed and the backend cannot be used from it, `watch`, `wait` and `submit` answer -EEXIST:
 * it has to be reopened.
 */
#ifndef GYRE_BACKEND_H
#define GYRE_BACKEND_H

#include "loop/list.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What can be waited for: the values of IO::READABLE, IO::PRIORITY and IO::WRITABLE. An error or a
 * complete hang-up counts as both readable and writable, for only the next call shows which. */
#define GYRE_READABLE 1u
#define GYRE_PRIORITY 2u
#define GYRE_WRITABLE 4u

/* Only reported, never asked for: one side of the descriptor has ended, and calls on that side
 * answer at once from now on (what is left to read, the end of the file, an error). Each comes with
 * GYRE_READABLE or GYRE_WRITABLE, at most once, so a reader that takes less than everything has to
 * keep it. The peer's half-close ends the read side alone: what waits for room to write goes on
 * waiting. A reset or a complete hang-up ends both.
 *
 * GYRE_READ_ENDED is also asked for beside the others: the end was reported, and the watch is for
 * the rest. A backend whose watches would end with a report of it keeps this one standing until
 * `unwatch`. */
#define GYRE_READ_ENDED 8u
#define GYRE_WRITE_ENDED 256u

/* Asked for beside the others: reported again and again as long as it is so, not once for each
 * change. */
#define GYRE_LEVEL 16u

/* Asked for beside the others: the watcher promises to end the watch before the descriptor is
 * closed, and reports when it has read it empty (gyre_loop_drained). A backend that holds what it
 * watches open needs the first to keep a watch standing; one whose watches end with their report
 * (GYRE_ENDED) is asked again after the second. */
#define GYRE_STANDING 32u

/* Asked for beside the others: a call on the descriptor answered "would block", so that it can be
 * waited for: a backend that finds that out late need not ask. */
#define GYRE_BLOCKED 128u

/* Only reported: with this report the watch has ended, though it was perhaps to stand. */
#define GYRE_ENDED 64u

struct gyre_operation;

/* Something happened to a descriptor. The generation is the one given to the latest `watch`: a
 * report that was under way for an older use of the same number differs in it. */
struct gyre_event {
  int fd; /* or GYRE_OPERATION_ENDED */
  union {
    struct {
      uint32_t generation;
      unsigned ready;
    };
    struct gyre_operation *operation;
  };
};
#define GYRE_OPERATION_ENDED (-1)

/* Work that the kernel does by itself, where the backend can ask it to. The operation and its bytes
 * belong to the backend from `submit` until its end is reported, also when it was cancelled. */
enum gyre_operation_kind {
  GYRE_OPERATION_READ,  /* length bytes of fd at the offset, -1: where the file stands */
  GYRE_OPERATION_WRITE, /* the same */
  GYRE_OPERATION_WAITID /* until a child has ended: id_type and pid as in waitid(2); it stays to be waited for */
};

struct gyre_operation {
  struct gyre_list node; /* of the loop's */
  enum gyre_operation_kind kind;
  union {
    struct {
      int fd;
      size_t length;
      int64_t offset;
    };
    struct {
      int id_type, pid;
    };
  };
  int result; /* once it has ended; -errno, -ECANCELED after `cancel` if that came in time */
  /* Set by the submitter; runs on the loop's thread and takes the operation back. NULL: nothing
   * waits any more, and the loop frees it. */
  void (*complete)(struct gyre_operation *operation);
  void *context;
  bool lost; /* its end was not waited for: the kernel may use its memory for ever */
  char bytes[];
};

/* A watch stays with the kernel until the descriptor is closed and reports each change once;
 * `watch` again makes it report the present state again. Without this bit only one with
 * GYRE_STANDING does, any other ends with its report, and with GYRE_LEVEL too, unless there is the
 * next bit: then the loop asks again each turn. */
#define GYRE_BACKEND_EDGE 1u

/* A watch with GYRE_LEVEL stays, though others end with their report. */
#define GYRE_BACKEND_LEVEL 4u

/* It has `submit` and `cancel`. */
#define GYRE_BACKEND_OPERATIONS 2u

struct gyre_backend_operations {
  const char *name;
  unsigned capabilities;

  /* Makes *state. 0 or -errno: this machine does not have what the backend needs. */
  int (*open)(void **state);
  void (*close)(void *state);

  /* Reports `fd` when it is or becomes ready for `interest`. `previous` is the generation of an
   * earlier watch of this number that may still stand and that this one replaces, 0 when there is
   * none. 0 or -errno; -EPERM: cannot be waited for, always ready. One that registers it later
   * reports such a descriptor as ready for everything. */
  int (*watch)(void *state, int fd, uint32_t generation, unsigned interest, uint32_t previous);

  /* Ends the watch of this generation. Harmless when there is none. Both may reach the kernel with
   * the next wait. */
  void (*unwatch)(void *state, int fd, uint32_t generation);

  /* Fills `events`; returns how many, 0 after the time or a wake-up, or -errno. A negative timeout
   * waits for ever. */
  int (*wait)(void *state, struct gyre_event *events, int capacity, int64_t timeout_ns);

  /* Ends the present or the next wait. */
  void (*wake)(void *state);

  /* With GYRE_BACKEND_OPERATIONS. 0 or -errno; -ENOSYS: not this kind of operation. */
  int (*submit)(void *state, struct gyre_operation *operation);
  /* Asks for its end, which is reported in any case. */
  void (*cancel)(void *state, struct gyre_operation *operation);

  /* For messages, both optional. What it found on this machine, such as flags and features; valid
   * as long as the state. */
  const char *(*describe)(const void *state);
  /* What an error (errno) of `open` means here, where the errno alone is not clear; NULL where it
   * does not. */
  const char *(*refusal)(int error);
};

/* Those that feature.h names; backends.h has the table. */
extern const struct gyre_backend_operations gyre_backend_epoll, gyre_backend_io_uring, gyre_backend_kqueue,
    gyre_backend_poll;

#endif
