/*
 * What the hooks of Gyre::Scheduler and of Gyre::Async::Selector ask of Ruby's IO and IO::Buffer in
 * the same way.
 */
#ifndef GYRE_RUBY_IO_H
#define GYRE_RUBY_IO_H

#include "feature.h"

#include <ruby/fiber/scheduler.h>
#include <ruby/io.h>
#include <stdbool.h>

#ifndef RUBY_FIBER_SCHEDULER_VERSION
#define RUBY_FIBER_SCHEDULER_VERSION 1 /* Ruby 3.1 has no macro */
#endif

/* What can be read and written in one is most likely a socket. */
static inline bool gyre_io_is_duplex(VALUE io) {
  if (!RB_TYPE_P(io, T_FILE)) return false;
#ifdef GYRE_HAVE_IO_MODE
  return rb_io_mode(io) & FMODE_DUPLEX;
#else
  return RFILE(io)->fptr->mode & FMODE_DUPLEX;
#endif
}

/* The bytes of an IO::Buffer and how many it has; raises when they are not there, or may not be
 * changed and `writes` (to the descriptor) is false. */
size_t gyre_buffer_bytes(VALUE buffer, bool writes, char **bytes);

/* A call that may wait for a disk, without the GVL. `from`: a place in the file, or -1 for its own.
 * A count or -errno. */
ssize_t gyre_file_call(int fd, char *bytes, size_t length, off_t from, bool writes);

#endif
