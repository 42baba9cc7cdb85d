/* Reads and writes that never wait, whatever the descriptor's mode. They return a count, -EAGAIN,
 * or another -errno. No ruby.h.
 *
 * A regular file is always "ready", yet a read may wait for the disk. GYRE_IO_FILE_WAITS asks the
 * caller to use a thread; GYRE_IO_FILE asks for a plain call, which should be quick. */
#pragma once

#include "feature.h"

#define GYRE_IO_FILE (-100000) /* not an errno */
#define GYRE_IO_FILE_WAITS (-100001)

/* A guess about the descriptor, which saves system calls. The descriptor may have changed, but a
 * wrong guess never makes a call wait. */
enum gyre_io_kind {
  GYRE_IO_ANY,
  GYRE_IO_SOCKET,  /* probably a socket */
  GYRE_IO_REGULAR, /* probably a file whose writes do not support RWF_NOWAIT */
  GYRE_IO_PIPE     /* probably a pipe: EAGAIN does not mean a wait for a disk */
};

/* Returns those of `events` (GYRE_READABLE, …) that are present, 0, or -errno. */
int gyre_ready_now(int fd, unsigned events);

bool gyre_is_pipe(int fd);

/* Returns the socket's type, such as SOCK_STREAM; -1 if `fd` is not a socket. */
int gyre_socket_type(int fd);

/* Reads into `bytes`, or writes them. */
ssize_t gyre_nonblocking_move(int fd, void *bytes, size_t length, bool writes, enum gyre_io_kind kind);

/* Reads at an offset if the bytes are in memory. Otherwise returns GYRE_IO_FILE or
 * GYRE_IO_FILE_WAITS. */
ssize_t gyre_nonblocking_pread(int fd, void *bytes, size_t length, off_t from);
