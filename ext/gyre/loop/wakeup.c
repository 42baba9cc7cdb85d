/* Wakes a loop by eventfd or pipe (wakeup.h). Backends watch the descriptor edge-triggered: each
 * signal is a new edge, and the bytes usually stay unread. */
#include "loop/wakeup.h"

#ifndef GYRE_HAVE_IOCP /* iocp wakes through its port */
#include <fcntl.h>

#ifdef GYRE_HAVE_EVENTFD
#include <sys/eventfd.h>

int gyre_wakeup_open(struct gyre_wakeup *wakeup) {
  int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (fd < 0) return -errno;
  wakeup->read_fd = wakeup->write_fd = fd;
  return 0;
}
#else
static int prepare(int fd) {
  int flags = fcntl(fd, F_GETFL);
  if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 || fcntl(fd, F_SETFD, FD_CLOEXEC) < 0) return -errno;
  return 0;
}

int gyre_wakeup_open(struct gyre_wakeup *wakeup) {
  int fds[2], error;
  if (pipe(fds) < 0) return -errno;
  wakeup->read_fd = fds[0];
  wakeup->write_fd = fds[1];
  if ((error = prepare(fds[0])) < 0 || (error = prepare(fds[1])) < 0) {
    gyre_wakeup_close(wakeup);
    return error;
  }
  return 0;
}
#endif

void gyre_wakeup_close(struct gyre_wakeup *wakeup) {
  close(wakeup->read_fd);
  if (wakeup->write_fd != wakeup->read_fd) close(wakeup->write_fd);
  wakeup->read_fd = wakeup->write_fd = -1;
}

void gyre_wakeup_signal(const struct gyre_wakeup *wakeup) {
  int saved_errno = errno;
  uint64_t one = 1;
  ssize_t written = write(wakeup->write_fd, &one, sizeof(one));
  if (written < 0 && errno == EAGAIN) {
    /* The pipe is full, so the reader is awake. Makes room and writes again, for a new edge. */
    char bytes[512];
    if (read(wakeup->read_fd, bytes, sizeof(bytes)) > 0) written = write(wakeup->write_fd, &one, sizeof(one));
  }
  (void)written;
  errno = saved_errno;
}
#endif
