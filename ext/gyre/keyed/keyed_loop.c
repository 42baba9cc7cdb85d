/* Gyre::Loop on the native engine: the object, its waits and its methods (keyed_loop.h). Contract:
 * test/contracts/loop_contract.rb; in Ruby: lib/gyre/loop/portable_keyed.rb. */
#include "keyed/keyed_loop.h"
#include "loop/forks.h"

#include <ruby/fiber/scheduler.h>
#include <ruby/io.h>

static VALUE thread_error;

static void keyed_mark(void *opaque) {
  struct gyre_keyed *keyed = opaque;
  GYRE_MARK(keyed->self, keyed->backend, keyed->thread);
  if (keyed->scheduler) rb_gc_mark(keyed->scheduler->self);
  for (size_t i = 0; i < keyed->count; i++) {
    struct gyre_keyed_event *event = &keyed->events[(keyed->first + i) & (keyed->capacity - 1)];
    GYRE_MARK(event->key, event->helper);
  }
  gyre_keyed_watches_mark(keyed);
}

/* Does not touch the scheduler's loop, which may be freed already. */
static void keyed_free(void *opaque) {
  struct gyre_keyed *keyed = opaque;
  gyre_loop_close(&keyed->own);
  gyre_keyed_watches_free(keyed);
  free(keyed->events);
  xfree(keyed);
}

static size_t keyed_size(const void *opaque) {
  const struct gyre_keyed *keyed = opaque;
  return sizeof(*keyed) + keyed->capacity * sizeof(struct gyre_keyed_event) +
         (keyed->watch_count + keyed->free_count) * sizeof(struct gyre_keyed_watch) +
         (size_t)keyed->own.descriptor_capacity * sizeof(struct gyre_descriptor) +
         keyed->own.timers.capacity * sizeof(struct gyre_timers_entry);
}

/* Has no write barriers: keys change with every event. */
GYRE_TYPE(keyed_type, "Gyre::Loop", keyed_mark, keyed_free, keyed_size, 0);

static struct gyre_keyed *keyed_get(VALUE self) { return rb_check_typeddata(self, &keyed_type); }

static void leave_scheduler(struct gyre_keyed *keyed) {
  gyre_list_remove(&keyed->client.node);
  keyed->scheduler = NULL;
  keyed->loop = NULL;
  if (keyed->depth == 0) keyed->thread = Qnil;
}

/* Takes the watches off a closing scheduler's loop, and keeps them for the next use of this object.
 * The scheduler's fibers that wait here never continue. */
static void closing(struct gyre_client *client) {
  struct gyre_keyed *keyed = GYRE_CONTAINER(client, struct gyre_keyed, client);
  while (!gyre_list_empty(&keyed->waiters)) gyre_list_remove(keyed->waiters.next);
  keyed->depth = 0;
  gyre_keyed_detach(keyed);
  leave_scheduler(keyed);
}

static void drop_events(struct gyre_keyed *keyed) {
  for (; keyed->count > 0; keyed->count--) {
    struct gyre_keyed_watch *watch = keyed->events[(keyed->first + keyed->count - 1) & (keyed->capacity - 1)].watch;
    if (!watch) continue;
    watch->queued = false;
    if (watch->state == GYRE_KEYED_FREE) gyre_keyed_recycle(keyed, watch);
  }
}

/* Forgets watches and events in a forked child. Calls helpers last: if a helper raises, the next
 * method call does all of this again. */
static void forked(struct gyre_client *client) {
  struct gyre_keyed *keyed = GYRE_CONTAINER(client, struct gyre_keyed, client);
  if (keyed->scheduler) leave_scheduler(keyed);
  keyed->loop = NULL;
  if (keyed->own.backend_state) {
    int error = gyre_loop_reopen(&keyed->own);
    if (error < 0) rb_syserr_fail(-error, "open the event loop after fork");
    gyre_loop_enlist(&keyed->own);
  }
  drop_events(keyed);
  keyed->sweep.place = 0;
  keyed->stopped = keyed->signalled = keyed->sweep_due = false;
  if (keyed->thread != rb_thread_current()) { /* that thread exists only in the parent */
    keyed->thread = Qnil;
    keyed->depth = 0;
  }
  gyre_list_init(&keyed->waiters);
  gyre_keyed_clear(keyed);
  keyed->client.forks = gyre_forks;
}

/* Keeps watches and events in a daemon. */
static void moved(struct gyre_client *client) {
  struct gyre_keyed *keyed = GYRE_CONTAINER(client, struct gyre_keyed, client);
  int error = keyed->own.backend_state ? gyre_loop_move(&keyed->own) : 0;
  if (error < 0) rb_syserr_fail(-error, "open the event loop of the daemon");
}

static VALUE keyed_allocate(VALUE class) {
  struct gyre_keyed *keyed;
  VALUE self = TypedData_Make_Struct(class, struct gyre_keyed, &keyed_type, keyed);
  keyed->self = self;
  keyed->backend = keyed->thread = keyed->equality = Qnil;
  keyed->client =
      (struct gyre_client){.forks = gyre_forks, .self = self, .closing = closing, .forked = forked, .moved = moved};
  gyre_list_init(&keyed->client.node);
  gyre_list_init(&keyed->waiters);
  gyre_list_init(&keyed->own.unverified.watches);
  gyre_keyed_watches_init(keyed);
  keyed->closed = true;
  return self;
}

/* Returns this thread's open native scheduler, or NULL. Raises if the scheduler is portable. */
static struct gyre_scheduler *present_scheduler(void) {
  VALUE scheduler = rb_fiber_scheduler_get();
  if (NIL_P(scheduler)) return NULL;
  if (!gyre_scheduler_is_native(scheduler)) {
    if (!RTEST(rb_obj_is_kind_of(scheduler, gyre_cScheduler)))
      return NULL; /* under another library's scheduler, waits block the thread */
    rb_raise(rb_eRuntimeError,
             "this loop is native, and the scheduler of its thread is portable: make the loop in that thread");
  }
  return gyre_scheduler_get(scheduler)->closed ? NULL : gyre_scheduler_get(scheduler);
}

static void check_thread(struct gyre_keyed *keyed) {
  if (NIL_P(keyed->thread) || keyed->thread == rb_thread_current()) return;
  rb_raise(thread_error,
           "the loop is used by another thread, %+" PRIsVALUE ": only emit, signal and stop may be called here",
           keyed->thread);
}

static void check_fork(struct gyre_keyed *keyed) {
  if (keyed->client.forks != gyre_forks) forked(&keyed->client);
}

static void check_open(struct gyre_keyed *keyed) {
  if (keyed->closed) rb_raise(rb_eRuntimeError, "the loop is closed");
  check_fork(keyed);
}

static void settle(struct gyre_keyed *keyed) {
  check_open(keyed);
  check_thread(keyed);
  struct gyre_scheduler *scheduler = present_scheduler();
  if (keyed->loop && keyed->scheduler == scheduler) return;

  if (!scheduler && !keyed->own.backend_state) gyre_loop_open_on(&keyed->own, keyed->backend);
  if (keyed->loop) gyre_keyed_detach(keyed);
  if (keyed->scheduler) leave_scheduler(keyed);
  keyed->scheduler = scheduler;
  if (scheduler) {
    keyed->loop = &scheduler->loop;
    keyed->thread = rb_thread_current();
    gyre_list_append(&scheduler->clients, &keyed->client.node);
  } else {
    keyed->loop = &keyed->own;
  }
  gyre_keyed_attach(keyed);
}

static void unsettle(struct gyre_keyed *keyed) {
  if (!keyed->scheduler || keyed->depth > 0 || keyed->watch_count > 0) return;
  gyre_keyed_detach(keyed);
  leave_scheduler(keyed);
}

/* Takes the first event. Returns its key, or Qundef if the watch's helper drops the event. */
static VALUE take(struct gyre_keyed *keyed) {
  struct gyre_keyed_event event = keyed->events[keyed->first];
  keyed->first = (keyed->first + 1) & (keyed->capacity - 1);
  keyed->count--;
  if (keyed->count > 0) gyre_keyed_wake_one(keyed);
  keyed->active_since_sweep = true;
  if (event.watch) {
    event.watch->queued = false;
    if (event.watch->state == GYRE_KEYED_FREE) gyre_keyed_recycle(keyed, event.watch);
  }
  return NIL_P(event.helper) || RTEST(rb_funcall(event.helper, rb_intern("event"), 0)) ? event.key : Qundef;
}

static VALUE waiter_ensure(VALUE argument) {
  struct gyre_keyed_waiter *waiter = (struct gyre_keyed_waiter *)argument;
  gyre_list_remove(&waiter->node);
  gyre_wait_end(&waiter->wait);
  if (waiter->keyed && waiter->keyed->count > 0) gyre_keyed_wake_one(waiter->keyed);
  return Qnil;
}

static VALUE waiter_body(VALUE argument) {
  struct gyre_keyed_waiter *waiter = (struct gyre_keyed_waiter *)argument;
  VALUE result = gyre_wait_body((VALUE)&waiter->wait);
  waiter->keyed = NULL;
  return result;
}

static void park(struct gyre_keyed *keyed) {
  struct gyre_keyed_waiter waiter = {.keyed = keyed};
  gyre_wait_begin(keyed->scheduler, &waiter.wait, keyed->self);
  gyre_list_append(&keyed->waiters, &waiter.node);
  rb_ensure(waiter_body, (VALUE)&waiter, waiter_ensure, (VALUE)&waiter);
}

static void ask(struct gyre_keyed *keyed, bool wait) {
  keyed->polled_ns = gyre_timers_coarse_now();
  if (!keyed->scheduler) {
    gyre_loop_poll(keyed->loop, wait);
  } else if (wait) {
    park(keyed);
  } else {
    gyre_yield(keyed->scheduler);
  }
}

/* Lets other threads run first. If they hand an IO back (emit), it is watched again without a
 * system call or sleep. Does nothing under a scheduler, whose other fibers would have to wait. */
static void let_threads_run(struct gyre_keyed *keyed) {
  if (!keyed->handed_back || keyed->scheduler || gyre_list_empty(&keyed->lists[GYRE_KEYED_RESTING])) return;
  keyed->handed_back = false;
  rb_thread_schedule();
}

static void wait_for_events(struct gyre_keyed *keyed) {
  let_threads_run(keyed);
  if (keyed->count > 0 || keyed->stopped || keyed->signalled) return;
  settle(keyed);
  gyre_keyed_prepare(keyed, true);
  if (keyed->count > 0 || keyed->stopped || keyed->signalled) return;
  bool always = !gyre_list_empty(&keyed->lists[GYRE_KEYED_ALWAYS]);
  ask(keyed, !always);
  if (always) gyre_keyed_queue_always(keyed);
}

/* Asks the kernel once per tick of the coarse clock, even if the queue never empties. */
static void look_now_and_then(struct gyre_keyed *keyed) {
  if (gyre_timers_coarse_now() == keyed->polled_ns) return;
  settle(keyed);
  gyre_keyed_prepare(keyed, false);
  if (!keyed->closed) ask(keyed, false); /* a helper may have closed the loop */
}

static void enter(struct gyre_keyed *keyed) {
  settle(keyed);
  if (keyed->depth++ == 0) keyed->thread = rb_thread_current();
}

static VALUE leave(VALUE self) {
  struct gyre_keyed *keyed = keyed_get(self);
  if (keyed->depth > 0 && --keyed->depth == 0 && !keyed->scheduler) keyed->thread = Qnil;
  if (keyed->depth == 0) unsettle(keyed);
  return Qnil;
}

static VALUE each_body(VALUE self) {
  struct gyre_keyed *keyed = keyed_get(self);
  for (;;) {
    if (keyed->count == 0) {
      if (keyed->stopped) break;
      wait_for_events(keyed);
      keyed->signalled = false;
    } else {
      look_now_and_then(keyed);
    }
    for (size_t batch = keyed->count; batch > 0 && keyed->count > 0; batch--) {
      VALUE key = take(keyed);
      if (key != Qundef) rb_yield(key);
    }
    if (keyed->stopped) break;
  }
  keyed->stopped = false;
  return self;
}

static VALUE keyed_each(VALUE self) {
  rb_need_block();
  enter(keyed_get(self));
  return rb_ensure(each_body, self, leave, self);
}

static VALUE next_event_body(VALUE self) {
  struct gyre_keyed *keyed = keyed_get(self);
  for (;;) {
    if (keyed->count > 0) {
      look_now_and_then(keyed);
      VALUE key = keyed->count > 0 ? take(keyed) : Qundef;
      if (key != Qundef) return key;
    } else if (keyed->stopped || keyed->signalled) {
      if (!keyed->stopped) keyed->signalled = false;
      keyed->stopped = false;
      return Qnil;
    } else {
      wait_for_events(keyed);
    }
  }
}

static VALUE keyed_next_event(VALUE self) {
  enter(keyed_get(self));
  return rb_ensure(next_event_body, self, leave, self);
}

static VALUE set_and_wake(VALUE self, bool *flag) {
  struct gyre_keyed *keyed = keyed_get(self);
  if (keyed->closed) return self;
  check_fork(keyed);
  *flag = true;
  gyre_keyed_wake(keyed);
  return self;
}

static VALUE keyed_stop(VALUE self) { return set_and_wake(self, &keyed_get(self)->stopped); }

static VALUE keyed_signal(VALUE self) { return set_and_wake(self, &keyed_get(self)->signalled); }

static VALUE keyed_emit(VALUE self, VALUE key) {
  struct gyre_keyed *keyed = keyed_get(self);
  if (key == ID2SYM(rb_intern("stop"))) {
    keyed_stop(self);
  } else if (!keyed->closed) {
    check_fork(keyed);
    gyre_keyed_reserve(keyed, 1);
    gyre_keyed_push(keyed, key, Qnil, NULL);
    if (keyed->thread != rb_thread_current()) keyed->handed_back = true;
  }
  return key;
}

static VALUE keyed_close(VALUE self) {
  struct gyre_keyed *keyed = keyed_get(self);
  if (keyed->closed) return Qnil;
  check_open(keyed);
  check_thread(keyed);
  gyre_keyed_detach(keyed);
  drop_events(keyed);
  gyre_keyed_clear(keyed);
  if (keyed->scheduler) leave_scheduler(keyed);
  keyed->closed = keyed->stopped = true; /* ends a surrounding `each` */
  keyed->loop = NULL;
  gyre_loop_close(&keyed->own);
  gyre_keyed_wake(keyed);
  return Qnil;
}

static VALUE keyed_closed_p(VALUE self) { return keyed_get(self)->closed ? Qtrue : Qfalse; }

static VALUE keyed_backend(VALUE self) {
  struct gyre_keyed *keyed = keyed_get(self);
  struct gyre_scheduler *scheduler = keyed->loop ? NULL : present_scheduler();
  struct gyre_loop *loop = keyed->loop ? keyed->loop : scheduler ? &scheduler->loop : &keyed->own;
  return loop->backend ? rb_str_new_cstr(loop->backend->name) : Qnil;
}

static VALUE keyed_open_native(VALUE self, VALUE backend) {
  struct gyre_keyed *keyed = keyed_get(self);
  if (!NIL_P(keyed->equality)) rb_raise(rb_eRuntimeError, "initialized twice");
  if (!present_scheduler()) gyre_loop_open_on(&keyed->own, backend);
  keyed->backend = backend;
  keyed->equality = rb_hash_new();
  keyed->identity = st_init_numtable();
  keyed->closed = false;
  return self;
}

/* --- watches: positional arguments (as in Ever) and keywords --- */

static ID options[4];

static int descriptor_of(VALUE io, VALUE key) {
  if (gyre_io_is_closed(io)) rb_raise(rb_eIOError, "watch %+" PRIsVALUE ": its io is closed", key);
  return rb_io_descriptor(io);
}

static VALUE watch(int argc, VALUE *argv, VALUE self, bool by_number) {
  struct gyre_keyed *keyed = keyed_get(self);
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
  settle(keyed);
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
  struct gyre_keyed *keyed = keyed_get(self);
  settle(keyed);
  gyre_keyed_watch_time(keyed, key, Qnil, duration_ns, interval_ns);
  return self;
}

/* For watch_process, watch_file, watch_signal. A helper has four methods. `io` returns the IO to
 * watch, or nil. `interval` returns the seconds between events, or nil. `event` is called when an
 * event is taken, and returns true to deliver it. `cancel` is called when the watch ends. */
static VALUE keyed_watch_helper(VALUE self, VALUE key, VALUE helper, VALUE oneshot) {
  struct gyre_keyed *keyed = keyed_get(self);
  VALUE io = rb_funcall(helper, rb_intern("io"), 0);
  int64_t interval_ns = gyre_duration_ns(rb_funcall(helper, rb_intern("interval"), 0));
  int fd = NIL_P(io) ? -1 : descriptor_of(io, key);
  settle(keyed);
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
  struct gyre_keyed *keyed = keyed_get(self);
  settle(keyed);
  struct gyre_keyed_watch *watch = gyre_keyed_find(keyed, key);
  if (watch && watch->state != GYRE_KEYED_RESTING) gyre_keyed_release(keyed, watch);
  unsettle(keyed);
  return self;
}

static VALUE keyed_watching_p(VALUE self, VALUE key) {
  struct gyre_keyed *keyed = keyed_get(self);
  if (keyed->closed) return Qfalse;
  settle(keyed);
  struct gyre_keyed_watch *watch = gyre_keyed_find(keyed, key);
  unsettle(keyed);
  return watch && watch->state != GYRE_KEYED_RESTING ? Qtrue : Qfalse;
}

static VALUE keyed_stats(VALUE self) {
  struct gyre_keyed *keyed = keyed_get(self);
  settle(keyed);
  VALUE stats = gyre_stats(keyed->loop, keyed->loop == &keyed->own ? NULL : keyed->scheduler);
  unsettle(keyed);
  return stats;
}

/* Two descriptors that Ruby cannot make, for watch_process and watch_file. */

#ifdef GYRE_HAVE_INOTIFY
#include <sys/inotify.h>
#define CHANGES                                                                                                        \
  (IN_CREATE | IN_DELETE | IN_MODIFY | IN_ATTRIB | IN_MOVED_FROM | IN_MOVED_TO | IN_MOVE_SELF | IN_DELETE_SELF)

/* Returns an inotify(7) descriptor and each path's watch number. Raises SystemCallError. Returns
 * nil if the system has no inotify. */
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

/* Returns a child's pidfd; nil if the kernel has no pidfds or the child does not exist. */
static VALUE keyed_pidfd(VALUE class, VALUE pid) {
  int fd = gyre_child_descriptor(NUM2PIDT(pid));
  return fd < 0 ? Qnil : INT2NUM(fd);
}

void gyre_init_keyed_loop(void) {
  thread_error = rb_path2class("ThreadError");

  VALUE class = gyre_class(gyre_mGyre, "Loop", keyed_allocate);
  rb_define_private_method(class, "open_native", keyed_open_native, 1);
  rb_define_method(class, "each", keyed_each, 0);
  rb_define_method(class, "next_event", keyed_next_event, 0);
  rb_define_method(class, "emit", keyed_emit, 1);
  rb_define_method(class, "signal", keyed_signal, 0);
  rb_define_method(class, "stop", keyed_stop, 0);
  rb_define_method(class, "close", keyed_close, 0);
  rb_define_method(class, "closed?", keyed_closed_p, 0);
  rb_define_method(class, "backend", keyed_backend, 0);
  VALUE native = rb_define_module_under(gyre_mGyre, "Native");
  rb_define_singleton_method(native, "inotify", keyed_inotify, 1);
  rb_define_singleton_method(native, "pidfd", keyed_pidfd, 1);
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
