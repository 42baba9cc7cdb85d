/*
 * Reads and writes that never wait, whatever mode the descriptor is in: the answer is a count, or
 * -EAGAIN where the caller would have had to wait, or another -errno. No ruby.h.
 *
 * A regular file is always "ready" and may wait for the disk all the same: where that threatens, the
 * answer is GYRE_IO_IS_FILE, and the caller makes the plain call where waiting does no harm.
 */
#ifndef GYRE_NONBLOCKING_IO_H
#define GYRE_NONBLOCKING_IO_H

#include <stddef.h>
#include <sys/types.h>

#define GYRE_IO_IS_FILE (-100000) /* no errno */

ssize_t gyre_nonblocking_read(int fd, void *bytes, size_t length);
ssize_t gyre_nonblocking_write(int fd, const void *bytes, size_t length);

#endif
