/* Two descriptors that Ruby cannot make, for watch_process and watch_file (lib/gyre/loop/). */
#include "feature.h"

#include "keyed/keyed_loop.h"

#include <errno.h>
#include <ruby/io.h>
#include <unistd.h>

#ifdef GYRE_HAVE_INOTIFY
#include <sys/inotify.h>
#define CHANGES                                                                                                        \
  (IN_CREATE | IN_DELETE | IN_MODIFY | IN_ATTRIB | IN_MOVED_FROM | IN_MOVED_TO | IN_MOVE_SELF | IN_DELETE_SELF)

/* Returns an inotify(7) descriptor and watch numbers of the paths; nil without inotify. Raises
 * SystemCallError. */
static VALUE keyed_inotify(VALUE class, VALUE paths) {
  Check_Type(paths, T_ARRAY);
  int fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
  if (fd < 0) rb_sys_fail("inotify");
  rb_update_max_fd(fd);
  VALUE numbers = rb_ary_new_from_args(1, INT2NUM(fd));
  for (long i = 0; i < RARRAY_LEN(paths); i++) {
    VALUE path = rb_ary_entry(paths, i);
    int number = RB_TYPE_P(path, T_STRING) ? inotify_add_watch(fd, RSTRING_PTR(path), CHANGES) : (errno = EINVAL, -1);
    if (number < 0) {
      int error = errno;
      close(fd);
      rb_syserr_fail_str(error, rb_sprintf("watch %+" PRIsVALUE, path));
    }
    rb_ary_push(numbers, INT2NUM(number));
  }
  return numbers;
}
#else
static VALUE keyed_inotify(VALUE class, VALUE paths) { return Qnil; }
#endif

/* Returns nil without kernel support, or if there is no such child. */
static VALUE keyed_pidfd(VALUE class, VALUE pid) {
  int fd = gyre_child_descriptor(NUM2PIDT(pid));
  return fd < 0 ? Qnil : INT2NUM(fd);
}

void gyre_init_keyed_helper(void) {
  VALUE native = rb_define_module_under(gyre_mGyre, "Native");
  rb_define_singleton_method(native, "inotify", keyed_inotify, 1);
  rb_define_singleton_method(native, "pidfd", keyed_pidfd, 1);
}
