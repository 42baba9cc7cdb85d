/* Tables of the limits that C enforces. A list of limits is a macro over NUMBER(type, name, most)
 * and TIME(name), from which fields of a struct and rows for their reader follow: Ruby's limit
 * `name`_limit is the field `name`, and `name`_timeout_s is the field `name`_ns. A number above the
 * maximum of the field or the row becomes that maximum. */
#pragma once

#include "feature.h"

struct gyre_limit_row {
  const char *name; /* Ruby's */
  size_t offset, size;
  bool time;     /* else a number of 2, 4 or 8 bytes; 8 are signed */
  uint64_t most; /* 0: the field's own */
};

#define GYRE_LIMIT_NUMBER_FIELD(type, name, most) type name;
#define GYRE_LIMIT_TIME_FIELD(name) int64_t name##_ns; /* -1: no limit */
#define GYRE_LIMIT_FIELDS(LIMITS) LIMITS(GYRE_LIMIT_NUMBER_FIELD, GYRE_LIMIT_TIME_FIELD)

#define GYRE_LIMIT_FIELD(struct, field) offsetof(struct, field), sizeof(((struct *)0)->field)
/* A count or bytes; nil is 0. */
#define GYRE_LIMIT_NUMBER(struct, field, name, most)                                                                   \
  { name, GYRE_LIMIT_FIELD(struct, field), false, most }
/* Nanoseconds in an int64_t or a float; nil is -1. */
#define GYRE_LIMIT_TIME(struct, field, name)                                                                           \
  { name, GYRE_LIMIT_FIELD(struct, field), true, 0 }

#define GYRE_LIMITS_READ(rows, values, limits) gyre_limits_read(rows, sizeof(rows) / sizeof((rows)[0]), values, limits)

/* Sets the rows' fields in the struct `values`. `limits` (a VALUE; plain C programs include this
 * file) are Ruby's limits, or a Hash of some limits: other fields stay. */
void gyre_limits_read(const struct gyre_limit_row *rows, size_t count, void *values, uintptr_t limits);
