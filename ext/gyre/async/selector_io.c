/* Gyre::Async::Selector's io_wait, io_read, io_write, process_wait. Tries the system call first,
 * whatever the mode, and registers once (loop.c): faster than io-event's selectors. */
#include "feature.h"

#include "async/selector.h"
#include "fiber/nonblocking_io.h"
#include "fiber/ruby_io.h"
#include "fiber/scheduler.h"

#include <errno.h>
#include <unistd.h>

static void descriptor_is_ready(struct gyre_loop *loop, struct gyre_watch *watch, unsigned ready) {
  struct gyre_selector_wait *wait = GYRE_CONTAINER(watch, struct gyre_selector_wait, watch);
  wait->ready |= ready & watch->interest;
  gyre_list_remove(&wait->node);
  gyre_list_append(&wait->selector->reported, &wait->node);
}

static bool io_is_closed(struct gyre_loop *loop, struct gyre_watch *watch, VALUE io) {
  if (watch->ready != descriptor_is_ready) return false;
  if (GYRE_CONTAINER(watch, struct gyre_selector_wait, watch)->io == io) {
    descriptor_is_ready(loop, watch, watch->interest);
    gyre_loop_wake(loop);
  }
  return true;
}

static VALUE wait_body(VALUE wait) { return gyre_selector_leave(((struct gyre_selector_wait *)wait)->selector); }

static VALUE wait_ensure(VALUE argument) {
  struct gyre_selector_wait *wait = (struct gyre_selector_wait *)argument;
  gyre_list_remove(&wait->node);
  gyre_loop_unwatch(&wait->selector->loop, &wait->watch);
  return Qnil;
}

/* Returns ready events, 0 after another entry of the fiber, or -errno. */
static int wait_for(VALUE self, VALUE fiber, VALUE io, int fd, unsigned events) {
  struct gyre_selector *selector = gyre_selector_opened(self);
  struct gyre_selector_wait wait = {
      .selector = selector, .fiber = fiber, .io = io, .watch = {.fd = -1, .ready = descriptor_is_ready}};
  events &= GYRE_READABLE | GYRE_PRIORITY | GYRE_WRITABLE;
  int error = gyre_loop_watch(&selector->loop, &wait.watch, fd, events);
  if (error < 0) return error == -EPERM ? (int)events : error;

  gyre_list_append(&selector->waiting, &wait.node);
  rb_ensure(wait_body, (VALUE)&wait, wait_ensure, (VALUE)&wait);
  RB_GC_GUARD(self);
  return (int)wait.ready;
}

/* Parks until `io` is ready. Returns ready events; false after another transfer. Raises IOError if
 * it was closed. */
static VALUE selector_io_wait(VALUE self, VALUE fiber, VALUE io, VALUE events) {
  int ready = wait_for(self, fiber, io, rb_io_descriptor(io), NUM2UINT(events));
  if (ready < 0) rb_syserr_fail(-ready, "wait for a descriptor");
  if (ready) rb_io_descriptor(io); /* raises if it was closed */
  return ready ? INT2NUM(ready) : Qfalse;
}

struct moving {
  VALUE io, buffer;
  size_t offset, most; /* in the buffer */
  bool writes;
  int fd;
  char *bytes;
};

static ssize_t move_once(const struct moving *moving, char *bytes, size_t length) {
  enum gyre_io_kind kind = gyre_io_is_duplex(moving->io) ? GYRE_IO_SOCKET : GYRE_IO_ANY;
  ssize_t count = gyre_nonblocking_move(moving->fd, bytes, length, moving->writes, kind);
  if (count != GYRE_IO_FILE && count != GYRE_IO_FILE_WAITS) return count;
  return gyre_file_call(moving->fd, bytes, length, -1, moving->writes);
}

/* Meanwhile the program may close the IO or free the buffer. */
static int wait_to_move(VALUE self, VALUE fiber, struct moving *moving, unsigned interest) {
  int ready = wait_for(self, fiber, moving->io, moving->fd, interest);
  if (ready < 0) return ready;
  moving->fd = rb_io_descriptor(moving->io);
  return gyre_buffer_bytes(moving->buffer, moving->writes, &moving->bytes) < moving->offset + moving->most ? -EFAULT
                                                                                                           : 0;
}

/* Moves `least` bytes or more; 0: one try. An error after some bytes is not reported. */
static ssize_t move(VALUE self, VALUE fiber, struct moving *moving, size_t least) {
  unsigned interest = moving->writes ? GYRE_WRITABLE : GYRE_READABLE;
  size_t moved = 0;
  while (moved < moving->most) {
    ssize_t count = move_once(moving, moving->bytes + moving->offset + moved, moving->most - moved);
    if (count == -EAGAIN) {
      gyre_loop_drained(&gyre_selector_opened(self)->loop, moving->fd, interest);
      if (moved >= least) return moved ? (ssize_t)moved : -EAGAIN;
      int error = wait_to_move(self, fiber, moving, interest);
      if (error < 0) return moved ? (ssize_t)moved : error;
      continue;
    }
    if (count < 0) return moved ? (ssize_t)moved : count;
    moved += (size_t)count;
    if (count == 0 || moved >= least) break;
  }
  return (ssize_t)moved;
}

/* After fiber, io, buffer: until Ruby 4.0 least and offset, from 4.1 offset and most. */
static VALUE move_arguments(VALUE self, int argc, const VALUE *argv, bool writes) {
  rb_check_arity(argc, 4, 5);
  struct moving moving = {.io = argv[1], .buffer = argv[2], .writes = writes};
  size_t size = gyre_buffer_bytes(moving.buffer, writes, &moving.bytes);
#if RUBY_FIBER_SCHEDULER_VERSION >= 4
  size_t least = 0;
  moving.offset = NUM2SIZET(argv[3]);
  moving.most = argc > 4 ? NUM2SIZET(argv[4]) : size;
  if (moving.offset > size || moving.most > size - moving.offset) return INT2NUM(-EINVAL);
#else
  size_t least = NUM2SIZET(argv[3]);
  moving.offset = argc > 4 ? NUM2SIZET(argv[4]) : 0;
  if (least > size)
    rb_raise(rb_eArgError, "length %" PRIuSIZE " is beyond the buffer's %" PRIuSIZE " bytes", least, size);
  if (moving.offset > size) return INT2NUM(-EINVAL);
  moving.most = size - moving.offset;
#endif
  if (moving.most == 0) return INT2FIX(0);
  moving.fd = rb_io_descriptor(moving.io);
  ssize_t moved = move(self, argv[0], &moving, least);
  RB_GC_GUARD(moving.buffer);
  return moved < 0 ? INT2NUM((int)moved) : SIZET2NUM((size_t)moved);
}

/* Reads at least `length` bytes; 0: one try. From Ruby 4.1: (…, offset, length), one try of at most
 * `length`. Returns bytes, 0 at the end, or -errno. */
static VALUE selector_io_read(int argc, VALUE *argv, VALUE self) { return move_arguments(self, argc, argv, false); }

/* Writes at least `length` bytes, otherwise like {#io_read}. */
static VALUE selector_io_write(int argc, VALUE *argv, VALUE self) { return move_arguments(self, argc, argv, true); }

struct process_wait {
  VALUE self, fiber, pid;
  int flags, fd;
};

static VALUE process_wait_body(VALUE argument) {
  struct process_wait *wait = (struct process_wait *)argument;
  VALUE status = gyre_child_status(wait->pid, wait->flags);
  if (!NIL_P(status) || wait->flags & WNOHANG) return status;
  int ready = wait_for(wait->self, wait->fiber, Qnil, wait->fd, GYRE_READABLE);
  if (ready < 0) rb_syserr_fail(-ready, "wait for a child process");
  return ready ? gyre_child_status(wait->pid, wait->flags) : Qfalse;
}

static VALUE process_wait_ensure(VALUE argument) {
  struct process_wait *wait = (struct process_wait *)argument;
  struct gyre_selector *selector = gyre_selector_get(wait->self);
  if (!selector->closed) gyre_loop_forget(&selector->loop, wait->fd);
  close(wait->fd);
  return Qnil;
}

/* Parks until the child has ended, by pidfd (Linux 5.3) or in a thread. Returns false after another
 * transfer. */
static VALUE selector_process_wait(VALUE self, VALUE fiber, VALUE pid, VALUE flags) {
  struct process_wait wait = {self, fiber, pid, NUM2INT(flags), -1};
  struct gyre_selector *selector = gyre_selector_opened(self);
  if (!(wait.flags & ~WNOHANG)) wait.fd = gyre_child_descriptor(NUM2PIDT(pid));
  if (wait.fd < 0) return rb_funcall(self, rb_intern("process_wait_in_thread"), 2, pid, flags);
  gyre_loop_forget(&selector->loop, wait.fd); /* its number's former use */
  return rb_ensure(process_wait_body, (VALUE)&wait, process_wait_ensure, (VALUE)&wait);
}

void gyre_init_selector_io(void) {
  VALUE class = rb_path2class("Gyre::Async::Selector");
  gyre_loop_on_io_close(io_is_closed);
  rb_define_method(class, "io_wait", selector_io_wait, 3);
  rb_define_method(class, "io_read", selector_io_read, -1);
  rb_define_method(class, "io_write", selector_io_write, -1);
  rb_define_method(class, "process_wait", selector_process_wait, 3);
}
