/*
 * The backends, the best first. Read where a loop is made (loop_backend.c) and by the plain C test
 * of the contract. A new backend gets a line in backends.c.
 */
#ifndef GYRE_BACKENDS_H
#define GYRE_BACKENDS_H

#include "loop/backend.h"

struct gyre_backend_choice {
  const char *name;                                 /* NULL after the last one */
  const struct gyre_backend_operations *operations; /* NULL: not in this build */
  const char *missing;                              /* then: the library or call that the build lacks */
};

extern const struct gyre_backend_choice gyre_backends[];

#endif
