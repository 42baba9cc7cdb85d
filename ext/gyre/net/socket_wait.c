/* Waits for a socket (socket_wait.h). */
#include "net/socket_wait.h"
#include "fiber/scheduler.h"

#include <ruby/fiber/scheduler.h>
#include <ruby/io.h>

struct gyre_scheduler *gyre_socket_scheduler(void) {
  return NIL_P(rb_fiber_scheduler_current()) ? NULL : gyre_scheduler_here();
}

int64_t gyre_socket_now(void) {
  struct gyre_scheduler *scheduler = gyre_socket_scheduler();
  return scheduler ? gyre_loop_now(&scheduler->loop) : gyre_timers_now();
}

bool gyre_socket_wait(VALUE io, int fd, unsigned events, int64_t timeout_ns) {
  struct gyre_scheduler *scheduler = gyre_socket_scheduler();
  if (!scheduler)
    return RTEST(rb_io_wait(io, UINT2NUM(events), timeout_ns < 0 ? Qnil : DBL2NUM((double)timeout_ns / 1e9)));
  gyre_loop_drained(&scheduler->loop, fd, events);
  int result = gyre_wait_io(scheduler, fd, events, timeout_ns, io);
  if (result < 0) rb_syserr_fail(-result, "wait for a socket");
  return result != 0;
}

/* Returns the IO's entry in the loop, which the scheduler's hooks use, too; NULL: there is none. */
static struct gyre_descriptor *held(struct gyre_scheduler *scheduler, VALUE io, int fd) {
  return scheduler ? gyre_loop_held(&scheduler->loop, fd, (uintptr_t)io) : NULL;
}

void gyre_socket_drained(VALUE io, int fd, unsigned events) {
  struct gyre_descriptor *descriptor = held(gyre_socket_scheduler(), io, fd);
  if (descriptor) gyre_descriptor_drained(descriptor, events);
}

bool gyre_socket_is_drained(VALUE io, int fd, unsigned events) {
  struct gyre_scheduler *scheduler = gyre_socket_scheduler();
  struct gyre_descriptor *descriptor = held(scheduler, io, fd);
  return descriptor && gyre_loop_is_drained(&scheduler->loop, descriptor, events);
}

bool gyre_socket_looked_lately(void) {
  struct gyre_scheduler *scheduler = gyre_socket_scheduler();
  return scheduler && gyre_timers_now() - scheduler->loop.polled_ns < 1000000;
}

void gyre_socket_give_way(void) {
  struct gyre_scheduler *scheduler = gyre_socket_scheduler();
  if (!scheduler) {
    rb_thread_check_ints(); /* lets another thread run if its time has come */
  } else if (gyre_clock_is_due(scheduler)) {
    gyre_yield_if_due(scheduler);
  }
}

bool gyre_socket_is_open(VALUE io, int fd) { return !gyre_io_is_closed(io) && rb_io_descriptor(io) == fd; }
