/* The table of backends, best first, for loop_backend.c and the contract's test in plain C. */
#pragma once

#include "loop/backend.h"

struct gyre_backend_choice {
  const char *name;                                 /* NULL ends the table */
  const struct gyre_backend_operations *operations; /* NULL: not in this build */
  const char *missing;                              /* why this build lacks the backend, or NULL */
};

extern const struct gyre_backend_choice gyre_backends[];
