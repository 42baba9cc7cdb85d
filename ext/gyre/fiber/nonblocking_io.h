/* Reads and writes that never wait, whatever the mode: return a count, -EAGAIN, or another -errno.
 * No ruby.h.
 *
 * A regular file is always "ready" and may still wait for the disk: GYRE_IO_FILE_WAITS asks for a
 * call in a thread, GYRE_IO_FILE for a plain call, which should be quick. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define GYRE_IO_FILE (-100000) /* not an errno */
#define GYRE_IO_FILE_WAITS (-100001)

/* A guess about a descriptor, which saves system calls. Ruby or another process may change it: a
 * wrong guess never makes a call wait. */
enum gyre_io_kind {
  GYRE_IO_ANY,
  GYRE_IO_SOCKET,  /* probably a socket */
  GYRE_IO_REGULAR, /* probably a file without RWF_NOWAIT writes */
  GYRE_IO_PIPE     /* probably a pipe: "would block" does not mean a disk */
};

/* Returns present events of GYRE_READABLE, GYRE_PRIORITY, GYRE_WRITABLE, 0, or -errno. */
int gyre_ready_now(int fd, unsigned events);

bool gyre_is_pipe(int fd);

/* Returns SOCK_STREAM or another type; -1: no socket. */
int gyre_socket_type(int fd);

/* Reads into the bytes, or writes them. */
ssize_t gyre_nonblocking_move(int fd, void *bytes, size_t length, bool writes, enum gyre_io_kind kind);

/* Reads at an offset from memory; GYRE_IO_FILE or GYRE_IO_FILE_WAITS if that is impossible. */
ssize_t gyre_nonblocking_pread(int fd, void *bytes, size_t length, off_t from);
