/*
 * Mends two faults of libkqueue up to 2.7.0. It keeps a pointer to a freed knote when the number of
 * a closed descriptor stands for another file, for epoll_ctl(2) then fails with ENOENT, and it
 * expects EBADF; its later versions have mended this themselves. And it takes a socket's error for
 * fflags by SO_ERROR, which clears the error: the program then finds a socket without an error and
 * without a peer. A kernel's kqueue leaves it. Linked with the C tests of the kqueue backend,
 * preloaded for its Ruby tests. test/loop/libkqueue_faults_test.rb shows the first fault.
 */
#ifdef __linux__
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>

static int in_libkqueue(void *address) {
  Dl_info caller;
  return dladdr(address, &caller) && strstr(caller.dli_fname, "libkqueue");
}

int epoll_ctl(int queue, int operation, int fd, struct epoll_event *event) {
  static int (*next)(int, int, int, struct epoll_event *);
  if (!next) *(void **)&next = dlsym(RTLD_NEXT, "epoll_ctl");
  int result = next(queue, operation, fd, event);
  if (result < 0 && errno == ENOENT && in_libkqueue(__builtin_return_address(0))) errno = EBADF;
  return result;
}

/* Keeps an error that libkqueue has cleared for the program's next call. */
int getsockopt(int fd, int level, int option, void *restrict value, socklen_t *restrict length) {
  static int (*next)(int, int, int, void *, socklen_t *);
  static struct {
    ino_t socket;
    int error;
  } kept[1024];
  if (!next) *(void **)&next = dlsym(RTLD_NEXT, "getsockopt");
  int result = next(fd, level, option, value, length);
  struct stat status;
  if (result < 0 || level != SOL_SOCKET || option != SO_ERROR || fd >= 1024 || fstat(fd, &status) < 0) return result;
  int *error = value;
  if (in_libkqueue(__builtin_return_address(0))) {
    if (*error) {
      kept[fd].socket = status.st_ino;
      kept[fd].error = *error;
    }
  } else if (kept[fd].error && kept[fd].socket == status.st_ino) {
    if (!*error) *error = kept[fd].error;
    kept[fd].error = 0;
  }
  return result;
}
#endif
