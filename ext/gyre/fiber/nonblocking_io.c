/* Reads and writes that never wait (nonblocking_io.h).
 *
 * On Linux RWF_NOWAIT makes one call non-blocking. Descriptors that do not support it (terminals,
 * pipes of older kernels) are polled first. Never changes the mode, which other processes share. */
#include "fiber/nonblocking_io.h"
#include "loop/backend.h"
#include "loop/direct_calls.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/stat.h>
#ifdef GYRE_HAVE_LINUX_MAGIC
#include <linux/magic.h>
#include <sys/vfs.h>
#endif

int gyre_ready_now(int fd, unsigned events) {
  struct pollfd descriptor = {.fd = fd};
  if (events & GYRE_READABLE) descriptor.events |= POLLIN;
  if (events & GYRE_PRIORITY) descriptor.events |= POLLPRI;
  if (events & GYRE_WRITABLE) descriptor.events |= POLLOUT;
  int count = poll(&descriptor, 1, 0);
  if (count <= 0) return count == 0 || errno == EINTR ? 0 : -errno;
  unsigned ready = 0;
  if (descriptor.revents & POLLNVAL) return -EBADF;
  if (descriptor.revents & (POLLIN | POLLHUP | POLLERR)) ready |= GYRE_READABLE;
  if (descriptor.revents & POLLPRI) ready |= GYRE_PRIORITY;
  if (descriptor.revents & (POLLOUT | POLLHUP | POLLERR)) ready |= GYRE_WRITABLE;
  return (int)(ready & events);
}

/* Files and block devices, which epoll cannot watch, have a position. */
static int is_file(int fd) { return lseek(fd, 0, SEEK_CUR) >= 0; }

/* For files that do not support RWF_NOWAIT: a network file system may wait long, a file system in
 * memory never does. */
static ssize_t unasked_file(int fd) {
#if defined(GYRE_HAVE_PREADV2_NOWAIT) && defined(GYRE_HAVE_LINUX_MAGIC)
  static const unsigned long in_memory[] = {TMPFS_MAGIC,         RAMFS_MAGIC,   PROC_SUPER_MAGIC, SYSFS_MAGIC,
                                            CGROUP2_SUPER_MAGIC, DEBUGFS_MAGIC, TRACEFS_MAGIC};
  struct statfs system;
  if (fstatfs(fd, &system) < 0) return GYRE_IO_FILE;
  for (size_t i = 0; i < sizeof(in_memory) / sizeof(*in_memory); i++) {
    if ((unsigned long)system.f_type == in_memory[i]) return GYRE_IO_FILE;
  }
  return GYRE_IO_FILE_WAITS;
#else
  return GYRE_IO_FILE;
#endif
}

bool gyre_is_pipe(int fd) {
  struct stat status;
  return fstat(fd, &status) == 0 && S_ISFIFO(status.st_mode);
}

int gyre_socket_type(int fd) {
  int type = 0;
  socklen_t size = sizeof(type);
  return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 ? type : -1;
}

ssize_t gyre_nonblocking_move(int fd, void *bytes, size_t length, bool writes, enum gyre_io_kind kind) {
  ssize_t count;
  if (kind == GYRE_IO_SOCKET) {
    if (MSG_DONTWAIT == 0) { /* Windows */
      int state = gyre_ready_now(fd, writes ? GYRE_WRITABLE : GYRE_READABLE);
      if (state <= 0) return state < 0 ? state : -EAGAIN;
    }
    count = GYRE_RETRY(writes ? gyre_send(fd, bytes, length, MSG_DONTWAIT | MSG_NOSIGNAL)
                              : gyre_recv(fd, bytes, length, MSG_DONTWAIT));
    if (count >= 0) return count;
    if (errno == EWOULDBLOCK) return -EAGAIN;
    if (errno != ENOTSOCK) return -errno;
  }
  if (kind == GYRE_IO_REGULAR && writes && is_file(fd)) return GYRE_IO_FILE;
#ifdef GYRE_HAVE_PREADV2_NOWAIT
  struct iovec vector = {bytes, length};
  count = GYRE_RETRY(writes ? gyre_write_now(fd, &vector) : gyre_read_now(fd, &vector));
  if (count >= 0) return count;
  if (errno == EAGAIN) return kind != GYRE_IO_PIPE && is_file(fd) ? GYRE_IO_FILE_WAITS : -EAGAIN;
  if (errno != EOPNOTSUPP && errno != ENOSYS && errno != EINVAL && errno != ESPIPE) return -errno;
#endif
  if (kind != GYRE_IO_PIPE && is_file(fd)) return writes ? GYRE_IO_FILE : unasked_file(fd);
  int state = gyre_ready_now(fd, writes ? GYRE_WRITABLE : GYRE_READABLE);
  if (state <= 0) return state < 0 ? state : -EAGAIN;
  /* A ready blocking pipe takes PIPE_BUF bytes at once; a longer write may wait. */
  if (writes && length > PIPE_BUF && !(fcntl(fd, F_GETFL) & O_NONBLOCK)) length = PIPE_BUF;
  count = GYRE_RETRY(writes ? gyre_write(fd, bytes, length) : gyre_read(fd, bytes, length));
  return count < 0 ? -errno : count;
}

ssize_t gyre_nonblocking_pread(int fd, void *bytes, size_t length, off_t from) {
#ifdef GYRE_HAVE_PREADV2_NOWAIT
  struct iovec vector = {bytes, length};
  if (from < 0) return GYRE_IO_FILE;
  ssize_t count = preadv2(fd, &vector, 1, from, RWF_NOWAIT);
  if (count >= 0) return count;
  if (errno == EAGAIN) return GYRE_IO_FILE_WAITS;
  /* Other errors are left to the caller's plain call, which fails again. */
  if (errno != EOPNOTSUPP && errno != ENOSYS && errno != EINVAL) return GYRE_IO_FILE;
#endif
  return unasked_file(fd);
}
