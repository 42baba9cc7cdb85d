/*
 * Mends a fault of libkqueue up to 2.7.0, which its later versions have mended themselves: it keeps
 * a pointer to a freed knote when the number of a closed descriptor stands for another file, for
 * epoll_ctl(2) then fails with ENOENT, and it expects EBADF. Linked with the C tests of the kqueue
 * backend, preloaded for its Ruby tests. test/loop/libkqueue_faults_test.rb shows the fault.
 */
#ifdef __linux__
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>

int epoll_ctl(int queue, int operation, int fd, struct epoll_event *event) {
  static int (*next)(int, int, int, struct epoll_event *);
  Dl_info caller;
  if (!next) *(void **)&next = dlsym(RTLD_NEXT, "epoll_ctl");
  int result = next(queue, operation, fd, event);
  if (result < 0 && errno == ENOENT && dladdr(__builtin_return_address(0), &caller) &&
      strstr(caller.dli_fname, "libkqueue"))
    errno = EBADF;
  return result;
}
#endif
