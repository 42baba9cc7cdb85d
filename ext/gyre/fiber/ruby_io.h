/* Access to Ruby's IO and IO::Buffer, for Gyre::Scheduler and Gyre::Async::Selector. */
#pragma once

#include "feature.h"

#include <ruby/fiber/scheduler.h>
#include <ruby/io.h>
#include <ruby/version.h>

#ifndef RUBY_FIBER_SCHEDULER_VERSION
#define RUBY_FIBER_SCHEDULER_VERSION 1 /* Ruby 3.1 lacks this macro */
#endif

/* True for an IO that reads and writes: probably a socket. */
static inline bool gyre_io_is_duplex(VALUE io) {
  if (!RB_TYPE_P(io, T_FILE)) return false;
#if RUBY_API_VERSION_CODE >= 30300
  return rb_io_mode(io) & FMODE_DUPLEX;
#else
  return RFILE(io)->fptr->mode & FMODE_DUPLEX;
#endif
}

/* Returns the size of an IO::Buffer and sets *bytes. Raises if the buffer is freed, or if it is
 * read-only but must be filled (not `writes`). */
size_t gyre_buffer_bytes(VALUE buffer, bool writes, char **bytes);

/* Reads or writes a file without the GVL, at `from` or, if that is -1, at the file's position.
 * Returns a count or -errno. */
ssize_t gyre_file_call(int fd, char *bytes, size_t length, off_t from, bool writes);
