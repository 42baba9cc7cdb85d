/* Gyre::Async::Selector, for selector.c (object, fibers, select) and selector_io.c (descriptors,
 * processes). */
#pragma once

#include "loop/loop.h"

#include <ruby.h>

struct gyre_selector;

/* A wait for a descriptor, on its fiber's stack. */
struct gyre_selector_wait {
  struct gyre_selector *selector;
  struct gyre_list node; /* in waiting or reported */
  struct gyre_watch watch;
  VALUE fiber, io; /* io: only compared; nil for a process */
  unsigned ready;
};

struct gyre_selector {
  struct gyre_loop loop;
  VALUE loop_fiber;
  /* the loop's fiber, which made it */
  VALUE thread;
  VALUE *ready;                       /* a ring of fibers, or objects with alive? and transfer; nil: entered already */
  uint64_t first, end;                /* places in it, ever growing */
  size_t capacity;                    /* a power of two */
  struct gyre_list waiting, reported; /* struct gyre_selector_wait */
  struct gyre_timer limit;
  unsigned rounds;  /* since the kernel was asked */
  int64_t slice_ns; /* coarse time of that question */
  int64_t slept_ns; /* begin of this sleep; 0: awake */
  int64_t idle_ns;  /* of the last select */
  unsigned forks;   /* of its process */
  bool closed;
};

struct gyre_selector *gyre_selector_get(VALUE self);

/* Raises RuntimeError if it is closed. */
struct gyre_selector *gyre_selector_opened(VALUE self);

/* Enters the loop's fiber; returns the transfer's value. */
VALUE gyre_selector_leave(struct gyre_selector *selector);
