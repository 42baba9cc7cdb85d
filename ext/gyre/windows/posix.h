/*
 * Windows versions of the POSIX calls in loop/, fiber/, keyed/, async/ and net/ that Ruby's
 * <ruby/win32.h> lacks. extconf.rb includes this file before each source file, and in place of
 * headers that Windows lacks. Calls that Ruby has (recv, close, fcntl) link to Ruby's functions.
 */
#ifndef GYRE_WINDOWS_POSIX_H
#define GYRE_WINDOWS_POSIX_H

#include <winsock2.h>

#include <afunix.h>
#include <ruby.h>
#include <ws2tcpip.h>

#define MSG_DONTWAIT 0 /* all sockets used with it are nonblocking */
#define MSG_NOSIGNAL 0
#ifndef MSG_TRUNC
#define MSG_TRUNC 0x100
#endif
#define SHUT_WR SD_SEND
/* Winsock cannot return the flags: F_GETFL gives 0, and setting O_NONBLOCK again is harmless. */
#define F_GETFL 3
#define fcntl(...) gyre_fcntl(__VA_ARGS__, 0, 0)

#define getsockopt(fd, level, name, value, size) (getsockopt)(fd, level, name, (char *)(value), size)
#define setsockopt(fd, level, name, value, size) (setsockopt)(fd, level, name, (const char *)(value), size)
#define timegm _mkgmtime
#define pread rb_w32_pread
#define pwrite rb_w32_pwrite
ssize_t rb_w32_pread(int fd, void *bytes, size_t length, rb_off_t offset);
ssize_t rb_w32_pwrite(int fd, const void *bytes, size_t length, rb_off_t offset);

typedef unsigned short sa_family_t;
typedef unsigned nfds_t;

static inline int gyre_fcntl(int fd, int command, int value, ...) {
  return command == F_GETFL ? 0 : (fcntl)(fd, command, value);
}

/* Never waits. pollfd.fd is a C descriptor. A descriptor that is not a socket counts as ready. */
static inline int poll(struct pollfd *descriptors, nfds_t count, int unused) {
  int ready = 0;
  for (nfds_t i = 0; i < count; i++) {
    struct pollfd one = {(SOCKET)rb_w32_get_osfhandle((int)descriptors[i].fd), descriptors[i].events, 0};
    if (one.fd == INVALID_SOCKET) {
      one.revents = POLLNVAL;
    } else if (WSAPoll(&one, 1, 0) < 0) {
      one.revents = one.events;
    }
    descriptors[i].revents = one.revents;
    ready += one.revents != 0;
  }
  return ready;
}

static inline void *memmem(const void *bytes, size_t length, const void *part, size_t part_length) {
  for (const char *place = bytes; part_length <= length; place++, length--) {
    if (!memcmp(place, part, part_length)) return (void *)place;
  }
  return NULL;
}

#endif
