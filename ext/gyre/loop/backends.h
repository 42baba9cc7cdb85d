/*
 * Which backends there are, the best first. The table is read where a loop is made
 * (loop_backend.c), and by the plain C test of their contract. A new backend gets its line in
 * backends.c.
 */
#ifndef GYRE_BACKENDS_H
#define GYRE_BACKENDS_H

#include "loop/backend.h"

struct gyre_backend_choice {
  const char *name;                                 /* NULL after the last one */
  const struct gyre_backend_operations *operations; /* NULL: this build does not have it */
  const char *missing;                              /* what the build did not find then */
};

extern const struct gyre_backend_choice gyre_backends[];

#endif
