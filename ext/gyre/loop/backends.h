/* The backends, the best first, for loop_backend.c and the contract's plain C test. */
#pragma once

#include "loop/backend.h"

struct gyre_backend_choice {
  const char *name;                                 /* NULL ends the table */
  const struct gyre_backend_operations *operations; /* NULL: not in this build */
  const char *missing;                              /* library or call that this build lacks */
};

extern const struct gyre_backend_choice gyre_backends[];
