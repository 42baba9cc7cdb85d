/*
 * Reads and writes that never wait (see nonblocking_io.h).
 *
 * On Linux RWF_NOWAIT makes a single call non-blocking, so that nothing has to be known or changed
 * about the descriptor. What does not support it (terminals; pipes on older kernels) is asked by poll(2)
 * first, for its mode belongs to other processes as well.
 */
#include "feature.h"

#include "nonblocking_io.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/uio.h>
#include <unistd.h>

static int ready(int fd, short events) {
  struct pollfd descriptor = {.fd = fd, .events = events};
  int count = poll(&descriptor, 1, 0);
  if (count < 0) return errno == EINTR ? 0 : -errno;
  return count;
}

/* Something with a position is a file (or a block device): epoll cannot watch it. */
static int is_file(int fd) { return lseek(fd, 0, SEEK_CUR) >= 0; }

ssize_t gyre_nonblocking_read(int fd, void *bytes, size_t length) {
  ssize_t count;
#ifdef GYRE_HAVE_PREADV2_NOWAIT
  struct iovec vector = {bytes, length};
  do {
    count = preadv2(fd, &vector, 1, -1, RWF_NOWAIT);
  } while (count < 0 && errno == EINTR);
  if (count >= 0) return count;
  if (errno == EAGAIN) return is_file(fd) ? GYRE_IO_IS_FILE : -EAGAIN;
  if (errno != EOPNOTSUPP && errno != ENOSYS && errno != EINVAL && errno != ESPIPE) return -errno;
#endif
  if (is_file(fd)) return GYRE_IO_IS_FILE;
  int state = ready(fd, POLLIN);
  if (state <= 0) return state < 0 ? state : -EAGAIN;
  do {
    count = read(fd, bytes, length);
  } while (count < 0 && errno == EINTR);
  return count < 0 ? -errno : count;
}

ssize_t gyre_nonblocking_write(int fd, const void *bytes, size_t length) {
  ssize_t count;
#ifdef GYRE_HAVE_PREADV2_NOWAIT
  struct iovec vector = {(void *)bytes, length};
  do {
    count = pwritev2(fd, &vector, 1, -1, RWF_NOWAIT);
  } while (count < 0 && errno == EINTR);
  if (count >= 0) return count;
  if (errno == EAGAIN) return is_file(fd) ? GYRE_IO_IS_FILE : -EAGAIN;
  if (errno != EOPNOTSUPP && errno != ENOSYS && errno != EINVAL && errno != ESPIPE) return -errno;
#endif
  if (is_file(fd)) return GYRE_IO_IS_FILE;
  int state = ready(fd, POLLOUT);
  if (state <= 0) return state < 0 ? state : -EAGAIN;
  /* In blocking mode a pipe that is ready still waits for room beyond PIPE_BUF. */
  if (length > PIPE_BUF && !(fcntl(fd, F_GETFL) & O_NONBLOCK)) length = PIPE_BUF;
  do {
    count = write(fd, bytes, length);
  } while (count < 0 && errno == EINTR);
  return count < 0 ? -errno : count;
}
