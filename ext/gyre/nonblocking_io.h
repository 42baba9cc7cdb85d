/*
 * Reads and writes that never wait, whatever mode the descriptor is in: the answer is a count, or
 * -EAGAIN where the caller would have had to wait, or another -errno. No ruby.h.
 */
#ifndef GYRE_NONBLOCKING_IO_H
#define GYRE_NONBLOCKING_IO_H

#include <stddef.h>
#include <sys/types.h>

ssize_t gyre_nonblocking_read(int fd, void *bytes, size_t length);
ssize_t gyre_nonblocking_write(int fd, const void *bytes, size_t length);

#endif
