/*
 * Reads and writes that never wait, whatever mode the descriptor is in: the answer is a count, or
 * -EAGAIN where the caller would have had to wait, or another -errno. No ruby.h.
 *
 * A regular file is always "ready" and may wait for the disk all the same: then the answer is GYRE_IO_FILE_WAITS, and the
 * caller makes the call where waiting does no harm. GYRE_IO_FILE asks for the plain call, which is not expected to wait long.
 */
#ifndef GYRE_NONBLOCKING_IO_H
#define GYRE_NONBLOCKING_IO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define GYRE_IO_FILE (-100000) /* no errno */
#define GYRE_IO_FILE_WAITS (-100001)

/* What the caller knows of the descriptor, so that a cheaper call does. A "most likely" may be wrong. */
enum gyre_io_kind {
  GYRE_IO_ANY,
  GYRE_IO_SOCKET,     /* most likely a socket */
  GYRE_IO_NONBLOCKING /* in non-blocking mode, and no file */
};

/* Whether this is a pipe in non-blocking mode, as Ruby makes them. */
bool gyre_is_nonblocking_pipe(int fd);

/* Whether this is a socket without bounds between messages. */
bool gyre_is_stream_socket(int fd);

/* How many bytes a read would find at least; 0 when that is not known. */
uint32_t gyre_bytes_available(int fd);

ssize_t gyre_nonblocking_read(int fd, void *bytes, size_t length, enum gyre_io_kind kind);
ssize_t gyre_nonblocking_write(int fd, const void *bytes, size_t length, enum gyre_io_kind kind);

/* At a place of a file, as much as is in memory; GYRE_IO_FILE or GYRE_IO_FILE_WAITS where that is nothing, or is not known. */
ssize_t gyre_nonblocking_pread(int fd, void *bytes, size_t length, off_t from);

#endif
