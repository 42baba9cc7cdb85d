/*
 * Gyre::Async::Selector, the loop with the interface of IO::Event::Selector: what its two files
 * share, selector.c (the object, moving between fibers, select) and selector_io.c (waiting for
 * descriptors and processes). Besides, only the extension's entry includes it.
 */
#ifndef GYRE_SELECTOR_H
#define GYRE_SELECTOR_H

#include "loop/loop.h"

#include <ruby.h>

struct gyre_selector;

/* A fiber that waits for a descriptor, on its own C stack. */
struct gyre_selector_wait {
  struct gyre_selector *selector;
  struct gyre_list node; /* in waiting or reported */
  struct gyre_watch watch;
  VALUE fiber, io; /* io: only ever compared; nil for a process */
  unsigned ready;
};

struct gyre_selector {
  struct gyre_loop loop;
  VALUE loop_fiber;
  /* The one that made it, and that waits on the loop. */
  VALUE thread;
  struct gyre_list ready;                /* struct gyre_selector_entry */
  struct gyre_list waiting, reported;    /* struct gyre_selector_wait */
  struct gyre_list spare;                /* entries on the heap, to be used again */
  struct gyre_selector_entry *allocated; /* all on the heap */
  struct gyre_timer limit, sweep;
  unsigned rounds;  /* since the kernel was asked */
  int64_t slice_ns; /* the coarse time when it was */
  int64_t slept_ns; /* when the present sleep began, 0 outside */
  int64_t idle_ns;  /* of the last select */
  bool swept;       /* nothing ran since the descriptors were looked at */
  unsigned forks;   /* in the process that made it */
  bool closed;
};

struct gyre_selector *gyre_selector_get(VALUE self);

/* The same; raises RuntimeError when it is closed. */
struct gyre_selector *gyre_selector_opened(VALUE self);

/* To the loop's fiber; the value that the transfer back hands over is returned. */
VALUE gyre_selector_leave(struct gyre_selector *selector);

/* The class; its other methods are defined by the second. */
VALUE gyre_init_selector(void);
void gyre_init_selector_io(VALUE class);

#endif
