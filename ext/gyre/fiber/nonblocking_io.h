/*
 * Reads and writes that never wait, whatever mode the descriptor is in: the answer is a count, or
 * -EAGAIN where the caller would have had to wait, or another -errno. No ruby.h.
 *
 * A regular file is always "ready" and may wait for the disk all the same: then the answer is
 * GYRE_IO_FILE_WAITS, and the caller makes the call where waiting does no harm. GYRE_IO_FILE asks
 * for the plain call, which is not expected to wait long.
 */
#ifndef GYRE_NONBLOCKING_IO_H
#define GYRE_NONBLOCKING_IO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define GYRE_IO_FILE (-100000) /* no errno */
#define GYRE_IO_FILE_WAITS (-100001)

/* What the caller has seen of the descriptor, so that fewer calls do. It may be wrong, for Ruby and
 * other processes change what a number stands for and the mode that it is in: no call here waits
 * for that. */
enum gyre_io_kind {
  GYRE_IO_ANY,
  GYRE_IO_SOCKET,  /* most likely a socket */
  GYRE_IO_REGULAR, /* most likely a file whose writes do not support RWF_NOWAIT */
  GYRE_IO_PIPE     /* most likely a pipe: "would block" means that; of a file it would mean the disk */
};

/* Which of GYRE_READABLE, GYRE_PRIORITY and GYRE_WRITABLE it is ready for now; 0 or -errno. */
int gyre_ready_now(int fd, unsigned events);

bool gyre_is_pipe(int fd);

/* SOCK_STREAM and so on; -1: no socket. */
int gyre_socket_type(int fd);

ssize_t gyre_nonblocking_read(int fd, void *bytes, size_t length, enum gyre_io_kind kind);
ssize_t gyre_nonblocking_write(int fd, const void *bytes, size_t length, enum gyre_io_kind kind);

/* At a place of a file, as much as is in memory; GYRE_IO_FILE or GYRE_IO_FILE_WAITS where that is
 * nothing, or cannot be found out. */
ssize_t gyre_nonblocking_pread(int fd, void *bytes, size_t length, off_t from);

#endif
