/* Makes system calls without the C library's wrappers: recv, send, read, write, epoll_wait, and
 * preadv2 and pwritev2 with RWF_NOWAIT. Up to glibc 2.40 the wrappers are cancellation points,
 * which cost about 60 ns, a quarter of an empty recv. On failure the functions return -1 and set
 * errno. Sanitizer builds use the wrappers. No ruby.h. */
#pragma once

#include "feature.h"

#include <sys/socket.h>
#include <sys/uio.h>

/* Repeats a call that a signal has interrupted. */
#define GYRE_RETRY(call)                                                                                               \
  ({                                                                                                                   \
    ssize_t retried;                                                                                                   \
    do retried = (call);                                                                                               \
    while (retried < 0 && errno == EINTR);                                                                             \
    retried;                                                                                                           \
  })

#if defined(__linux__) && defined(__LP64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#include <sys/syscall.h>
static inline ssize_t gyre_recv(int fd, void *bytes, size_t length, int flags) {
  return syscall(SYS_recvfrom, fd, bytes, length, flags, NULL, NULL);
}
static inline ssize_t gyre_send(int fd, const void *bytes, size_t length, int flags) {
  return syscall(SYS_sendto, fd, bytes, length, flags, NULL, (size_t)0);
}
static inline ssize_t gyre_read(int fd, void *bytes, size_t length) { return syscall(SYS_read, fd, bytes, length); }
static inline ssize_t gyre_write(int fd, const void *bytes, size_t length) {
  return syscall(SYS_write, fd, bytes, length);
}
#ifdef GYRE_HAVE_PREADV2_NOWAIT
/* Offset -1, passed in two halves, means the file's own position. */
static inline ssize_t gyre_read_now(int fd, const struct iovec *vector) {
  return syscall(SYS_preadv2, fd, vector, 1L, -1L, -1L, RWF_NOWAIT);
}
static inline ssize_t gyre_write_now(int fd, const struct iovec *vector) {
  return syscall(SYS_pwritev2, fd, vector, 1L, -1L, -1L, RWF_NOWAIT);
}
#endif
#else
#define gyre_recv recv
#define gyre_send send
#define gyre_read read
#define gyre_write write
#define gyre_read_now(fd, vector) preadv2(fd, vector, 1, -1, RWF_NOWAIT)
#define gyre_write_now(fd, vector) pwritev2(fd, vector, 1, -1, RWF_NOWAIT)
#endif

#ifdef GYRE_HAVE_EPOLL
#include <sys/epoll.h>
static inline int gyre_epoll_wait(int fd, struct epoll_event *events, int capacity, int timeout_ms) {
#if defined(__LP64__) && defined(SYS_epoll_pwait) /* some architectures lack the older epoll_wait */
  return (int)syscall(SYS_epoll_pwait, fd, events, capacity, timeout_ms, NULL, (size_t)0);
#else
  return epoll_wait(fd, events, capacity, timeout_ms);
#endif
}
#endif
