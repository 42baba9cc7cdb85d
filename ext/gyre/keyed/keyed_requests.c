/* Methods that add watches to a keyed loop: parse positional (as in Ever) and keyword arguments. */
#include "feature.h"

#include "keyed/keyed_loop.h"

#include <errno.h>
#include <ruby/io.h>
#include <unistd.h>

static ID options[4];

static int descriptor_of(VALUE io, VALUE key) {
  if (gyre_io_is_closed(io)) rb_raise(rb_eIOError, "watch %+" PRIsVALUE ": its io is closed", key);
  return rb_io_descriptor(io);
}

static VALUE watch(int argc, VALUE *argv, VALUE self, bool by_number) {
  struct gyre_keyed *keyed = gyre_keyed_get(self);
  VALUE key, object, read_write, oneshot, keywords, values[3] = {Qundef, Qundef, Qundef};
  rb_scan_args(argc, argv, "22:", &key, &object, &read_write, &oneshot, &keywords);
  if (!NIL_P(keywords)) {
    rb_get_kwargs(keywords, options, 0, 3, values);
    if (values[1] != Qundef) read_write = values[1];
    if (values[2] != Qundef) oneshot = values[2];
  }
  bool write = RTEST(read_write), read = values[0] == Qundef ? !write : RTEST(values[0]);
  if (!read && !write) rb_raise(rb_eArgError, "watch %+" PRIsVALUE " for what? neither read nor write", key);
  unsigned interest = (read ? GYRE_READABLE : 0) | (write ? GYRE_WRITABLE : 0);
  VALUE io = by_number ? Qnil : rb_io_get_io(object);
  int fd = by_number ? NUM2INT(object) : descriptor_of(io, key);
  gyre_keyed_settle(keyed);
  gyre_keyed_watch_descriptor(keyed, key, io, fd, interest, RTEST(oneshot), Qnil);
  RB_GC_GUARD(io);
  return self;
}

static VALUE keyed_watch_io(int argc, VALUE *argv, VALUE self) { return watch(argc, argv, self, false); }

static VALUE keyed_watch_fd(int argc, VALUE *argv, VALUE self) { return watch(argc, argv, self, true); }

static VALUE keyed_watch_timer(int argc, VALUE *argv, VALUE self) {
  VALUE key, duration, interval, keywords, value = Qundef;
  rb_scan_args(argc, argv, "21:", &key, &duration, &interval, &keywords);
  if (!NIL_P(keywords)) rb_get_kwargs(keywords, &options[3], 0, 1, &value);
  if (NIL_P(duration)) rb_raise(rb_eTypeError, "watch %+" PRIsVALUE ": no time was given", key);
  int64_t duration_ns = gyre_duration_ns(duration);
  int64_t interval_ns = gyre_duration_ns(value == Qundef ? interval : value);
  struct gyre_keyed *keyed = gyre_keyed_get(self);
  gyre_keyed_settle(keyed);
  gyre_keyed_watch_time(keyed, key, Qnil, duration_ns, interval_ns);
  return self;
}

/* For watch_process, watch_file, watch_signal. A helper has io (to watch, or nil), interval
 * (seconds between events, or nil), event (called when an event is taken; true delivers it), cancel
 * (called at the watch's end). */
static VALUE keyed_watch_helper(VALUE self, VALUE key, VALUE helper, VALUE oneshot) {
  struct gyre_keyed *keyed = gyre_keyed_get(self);
  VALUE io = rb_funcall(helper, rb_intern("io"), 0);
  int64_t interval_ns = gyre_duration_ns(rb_funcall(helper, rb_intern("interval"), 0));
  int fd = NIL_P(io) ? -1 : descriptor_of(io, key);
  gyre_keyed_settle(keyed);
  if (!NIL_P(io)) {
    gyre_keyed_watch_descriptor(keyed, key, io, fd, GYRE_READABLE, RTEST(oneshot), helper);
  } else if (interval_ns > 0) {
    gyre_keyed_watch_time(keyed, key, helper, interval_ns, interval_ns);
  } else {
    gyre_keyed_watch_key(keyed, key, helper);
  }
  return self;
}

static VALUE keyed_unwatch(VALUE self, VALUE key) {
  struct gyre_keyed *keyed = gyre_keyed_get(self);
  gyre_keyed_settle(keyed);
  struct gyre_keyed_watch *watch = gyre_keyed_find(keyed, key);
  if (watch && watch->state != GYRE_KEYED_RESTING) gyre_keyed_release(keyed, watch);
  gyre_keyed_unsettle(keyed);
  return self;
}

static VALUE keyed_watching_p(VALUE self, VALUE key) {
  struct gyre_keyed *keyed = gyre_keyed_get(self);
  if (keyed->closed) return Qfalse;
  gyre_keyed_settle(keyed);
  struct gyre_keyed_watch *watch = gyre_keyed_find(keyed, key);
  gyre_keyed_unsettle(keyed);
  return watch && watch->state != GYRE_KEYED_RESTING ? Qtrue : Qfalse;
}

static VALUE keyed_stats(VALUE self) {
  struct gyre_keyed *keyed = gyre_keyed_get(self);
  gyre_keyed_settle(keyed);
  VALUE stats = gyre_stats(keyed->loop, keyed->loop == &keyed->own ? NULL : keyed->scheduler);
  gyre_keyed_unsettle(keyed);
  return stats;
}

/* Two descriptors that Ruby cannot make, for watch_process and watch_file. */

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

/* Returns nil without kernel support or such a child. */
static VALUE keyed_pidfd(VALUE class, VALUE pid) {
  int fd = gyre_child_descriptor(NUM2PIDT(pid));
  return fd < 0 ? Qnil : INT2NUM(fd);
}

void gyre_init_keyed_requests(void) {
  VALUE native = rb_define_module_under(gyre_mGyre, "Native");
  rb_define_singleton_method(native, "inotify", keyed_inotify, 1);
  rb_define_singleton_method(native, "pidfd", keyed_pidfd, 1);
  VALUE class = rb_define_class_under(gyre_mGyre, "Loop", rb_cObject);
  options[0] = rb_intern("read");
  options[1] = rb_intern("write");
  options[2] = rb_intern("oneshot");
  options[3] = rb_intern("interval");
  rb_define_method(class, "watch_io", keyed_watch_io, -1);
  rb_define_method(class, "watch_fd", keyed_watch_fd, -1);
  rb_define_method(class, "watch_timer", keyed_watch_timer, -1);
  rb_define_private_method(class, "watch_helper", keyed_watch_helper, 3);
  rb_define_method(class, "unwatch", keyed_unwatch, 1);
  rb_define_method(class, "watching?", keyed_watching_p, 1);
  rb_define_method(class, "stats", keyed_stats, 0);
}
