/* Tables of the limits that C enforces: each row binds a limit of Ruby
 * (Gyre::Settings::Limits) to a field of a struct. A number above the maximum of the field or the
 * row becomes that maximum. */
#pragma once

#include <ruby.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gyre_limit_row {
  const char *name;
  size_t offset, size;
  bool time;     /* else a number of 2, 4 or 8 bytes; 8 are signed */
  uint64_t most; /* 0: the field's own */
};

#define GYRE_LIMIT_FIELD(type, field) offsetof(type, field), sizeof(((type *)0)->field)
/* A count or bytes; nil is 0. */
#define GYRE_LIMIT_NUMBER(type, field, name, most)                                                                     \
  { name, GYRE_LIMIT_FIELD(type, field), false, most }
/* Nanoseconds in an int64_t or a float; nil is -1. */
#define GYRE_LIMIT_TIME(type, field, name)                                                                             \
  { name, GYRE_LIMIT_FIELD(type, field), true, 0 }

#define GYRE_LIMITS_READ(rows, values, limits) gyre_limits_read(rows, sizeof(rows) / sizeof((rows)[0]), values, limits)

/* Sets the rows' fields in the struct `values`. */
void gyre_limits_read(const struct gyre_limit_row *rows, size_t count, void *values, VALUE limits);
