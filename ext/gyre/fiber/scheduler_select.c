/* The io_select hook: asks poll(2), then waits on the loop. */
#include "fiber/scheduler.h"

#include <poll.h>
#include <ruby/io.h>

/* The watch of one IO in one array. */
struct selected_watch {
  struct gyre_watch watch;
  struct gyre_wait *wait;
  int kind; /* index of the array */
};

struct selecting {
  struct gyre_wait wait;
  VALUE arrays[3];
  VALUE elements, ios; /* all arrays' objects and their IOs */
  long count;
  struct pollfd *descriptors;
  struct selected_watch *watches;
  bool limited; /* there is a timeout */
};

static const short poll_events[3] = {POLLIN, POLLOUT, POLLPRI};
static const unsigned watch_events[3] = {GYRE_READABLE, GYRE_WRITABLE, GYRE_PRIORITY};

static bool has_buffered_input(VALUE io) {
  rb_io_t *file;
  GetOpenFile(io, file);
  return rb_io_read_pending(file) != 0;
}

/* Returns three arrays of ready elements, or nil if none is ready. */
static VALUE select_now(struct selecting *selecting) {
  int ready = poll(selecting->descriptors, (nfds_t)selecting->count, 0);
  if (ready < 0 && errno != EINTR) rb_sys_fail("select");

  VALUE result = Qnil;
  for (long i = 0; i < selecting->count; i++) {
    int kind = selecting->watches[i].kind;
    short events = ready > 0 ? selecting->descriptors[i].revents : 0;
    if (events & POLLNVAL) rb_syserr_fail(EBADF, "select");
    bool is_ready = events & (poll_events[kind] | (kind < 2 ? POLLERR | POLLHUP : 0));
    if (!is_ready && kind == 0) is_ready = has_buffered_input(RARRAY_AREF(selecting->ios, i));
    if (!is_ready) continue;
    if (NIL_P(result)) result = rb_ary_new_from_args(3, rb_ary_new(), rb_ary_new(), rb_ary_new());
    rb_ary_push(rb_ary_entry(result, kind), RARRAY_AREF(selecting->elements, i));
  }
  return result;
}

static void selected(struct gyre_loop *loop, struct gyre_watch *watch, unsigned ready) {
  gyre_wake(gyre_scheduler_of(loop), &GYRE_CONTAINER(watch, struct selected_watch, watch)->wait->parked);
}

static bool io_is_closed(struct gyre_loop *loop, struct gyre_watch *watch, VALUE io) {
  if (watch->ready != selected) return false;
  selected(loop, watch, 0); /* wakes the fiber; then poll(2) finds the close */
  return true;
}

static bool is_broken(struct gyre_wait *wait) {
  struct selecting *selecting = GYRE_CONTAINER(wait, struct selecting, wait);
  if (poll(selecting->descriptors, (nfds_t)selecting->count, 0) <= 0) return false;
  for (long i = 0; i < selecting->count; i++) {
    if (selecting->descriptors[i].revents & POLLNVAL) return true;
  }
  return false;
}

static VALUE select_body(VALUE argument) {
  struct selecting *selecting = (struct selecting *)argument;
  struct gyre_wait *wait = &selecting->wait;
  VALUE result;
  while (NIL_P(result = select_now(selecting)) && !wait->timed_out) {
    for (long i = 0; i < selecting->count; i++) {
      struct selected_watch *selected_watch = &selecting->watches[i];
      if (selected_watch->kind == 2 && selecting->descriptors[i].revents & (POLLERR | POLLHUP)) {
        /* The peer has ended: select(2) does not report this for urgent data, and the kernel would
         * report it endlessly. */
        gyre_loop_unwatch(&wait->parked.scheduler->loop, &selected_watch->watch);
        continue;
      }
      if (selected_watch->watch.fd >= 0) continue;
      int error = gyre_loop_watch(&wait->parked.scheduler->loop, &selected_watch->watch, selecting->descriptors[i].fd,
                                  watch_events[selected_watch->kind]);
      if (error < 0 && error != -EPERM) rb_syserr_fail(-error, "select");
    }
    gyre_wait_again(wait);
    /* The timer does not set timed_out if the fiber is ready already. */
    if (selecting->limited && !gyre_timer_armed(&wait->timer)) wait->timed_out = true;
  }
  return result;
}

static VALUE select_ensure(VALUE argument) {
  struct selecting *selecting = (struct selecting *)argument;
  for (long i = 0; i < selecting->count; i++) {
    gyre_loop_unwatch(&selecting->wait.parked.scheduler->loop, &selecting->watches[i].watch);
  }
  gyre_wait_end(&selecting->wait);
  xfree(selecting->watches);
  xfree(selecting->descriptors);
  return Qnil;
}

static void add_array(struct selecting *selecting, int kind) {
  VALUE array = selecting->arrays[kind] = rb_ary_dup(rb_Array(selecting->arrays[kind]));
  for (long i = 0; i < RARRAY_LEN(array); i++) {
    rb_ary_push(selecting->elements, RARRAY_AREF(array, i));
    rb_ary_push(selecting->ios, rb_io_get_io(RARRAY_AREF(array, i)));
  }
  selecting->count = RARRAY_LEN(selecting->ios);
}

/* IO.select (Fiber::Scheduler#io_select, Ruby 3.2 and later). The stack keeps the objects of
 * `selecting` alive. */
static VALUE scheduler_io_select(int argc, VALUE *argv, VALUE self) {
  struct gyre_scheduler *scheduler = gyre_scheduler_opened(self);
  struct selecting selecting = {.elements = rb_ary_new(), .ios = rb_ary_new()};
  VALUE timeout;
  rb_scan_args(argc, argv, "13", &selecting.arrays[0], &selecting.arrays[1], &selecting.arrays[2], &timeout);
  int64_t timeout_ns = gyre_duration_ns(timeout);

  long ends[3];
  for (int kind = 0; kind < 3; kind++) {
    if (!NIL_P(selecting.arrays[kind])) add_array(&selecting, kind);
    ends[kind] = selecting.count;
  }
  /* An element's to_io may have closed another IO: raises before anything is allocated. */
  for (long i = 0; i < selecting.count; i++) rb_io_descriptor(RARRAY_AREF(selecting.ios, i));

  selecting.descriptors = ALLOC_N(struct pollfd, selecting.count + 1);
  selecting.watches = ALLOC_N(struct selected_watch, selecting.count + 1);
  for (long i = 0, kind = 0; i < selecting.count; i++) {
    while (i >= ends[kind]) kind++;
    int fd = rb_io_descriptor(RARRAY_AREF(selecting.ios, i));
    selecting.descriptors[i] = (struct pollfd){.fd = fd, .events = poll_events[kind]};
    selecting.watches[i] =
        (struct selected_watch){.watch = {.fd = -1, .ready = selected}, .wait = &selecting.wait, .kind = (int)kind};
  }
  gyre_wait_begin(scheduler, &selecting.wait, rb_ary_new_from_values(3, selecting.arrays));
  selecting.wait.timed_out = timeout_ns == 0;
  selecting.limited = timeout_ns > 0;
  if (selecting.limited) gyre_wait_arm(&selecting.wait, timeout_ns);
  selecting.wait.is_broken = is_broken;
  gyre_list_append(&scheduler->sweeping.descriptor_waits, &selecting.wait.descriptor_node);
  VALUE result = rb_ensure(select_body, (VALUE)&selecting, select_ensure, (VALUE)&selecting);
  if (timeout_ns == 0 && NIL_P(result))
    gyre_yield(scheduler); /* lets other fibers run: a program that polls may wait for them */
  return result;
}

void gyre_init_scheduler_select(void) {
  gyre_loop_on_io_close(io_is_closed);
  rb_define_method(gyre_cScheduler, "io_select", scheduler_io_select, -1);
}
