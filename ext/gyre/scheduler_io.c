/*
 * The hooks for descriptors of Gyre::Scheduler::Native: io_wait, io_read, io_write, io_pread,
 * io_pwrite, io_select, io_close. Each tries the system call first and parks only on "would block".
 * Ruby changed the arguments of the buffered hooks twice; `struct transfer` is where that ends.
 */
#include "feature.h"
#include "nonblocking_io.h"
#include "scheduler.h"

#include <errno.h>
#include <poll.h>
#include <ruby/fiber/scheduler.h>
#include <ruby/io.h>
#include <ruby/io/buffer.h>
#include <ruby/thread.h>
#include <ruby/version.h>
#include <unistd.h>

#ifndef RUBY_FIBER_SCHEDULER_VERSION
#define RUBY_FIBER_SCHEDULER_VERSION 1 /* Ruby 3.1 has no macro */
#endif

/*
 * Parks until `io` is ready for one of `events` (Fiber::Scheduler#io_wait).
 *
 * @param io [IO]
 * @param events [Integer] IO::READABLE | IO::PRIORITY | IO::WRITABLE
 * @param timeout [Numeric, nil] seconds
 * @return [Integer, false] the events that are ready; false when the time is over
 */
static VALUE scheduler_io_wait(VALUE self, VALUE io, VALUE events, VALUE timeout) {
  VALUE own_timeout = Qnil; /* IO#timeout, Ruby 3.2 and later */
#ifdef GYRE_HAVE_IO_TIMEOUT
  if (NIL_P(timeout)) timeout = own_timeout = rb_io_timeout(io);
#endif
  int ready = gyre_wait_io(gyre_scheduler_opened(self), rb_io_descriptor(io), NUM2UINT(events), gyre_duration_ns(timeout));
  if (ready == 0 && !NIL_P(own_timeout)) {
    rb_raise(rb_const_get(rb_cIO, rb_intern("TimeoutError")), "%" PRIsVALUE " was not ready within its timeout of %" PRIsVALUE " s", io, own_timeout);
  }
  if (ready < 0) rb_syserr_fail(-ready, "wait for a descriptor");
  return ready ? INT2NUM(ready) : Qfalse;
}

/* --- buffered reads and writes --- */

struct transfer {
  struct gyre_scheduler *scheduler;
  VALUE buffer;
  int fd;
  size_t least; /* 0: try once */
  size_t most;  /* bytes */
  size_t offset;
  off_t from; /* for pread and pwrite */
};

static VALUE transfer_result(ssize_t result) { return result < 0 ? INT2NUM((int)result) : SIZET2NUM((size_t)result); }

/* length, offset → transfer. Until Ruby 4.0 a length is the least that must be moved, and 0 means one
 * try; from 4.1 (interface version 4) the arguments are offset, length, and length is the most. */
static void transfer_bounds(struct transfer *transfer, VALUE first, VALUE second, size_t size) {
#if RUBY_FIBER_SCHEDULER_VERSION >= 4
  transfer->offset = NUM2SIZET(first);
  size_t length = NUM2SIZET(second);
  if (transfer->offset > size) rb_raise(rb_eArgError, "offset %" PRIuSIZE " is beyond the buffer's %" PRIuSIZE " bytes", transfer->offset, size);
  transfer->most = size - transfer->offset < length ? size - transfer->offset : length;
  transfer->least = 0;
#else
  transfer->least = NUM2SIZET(first);
  transfer->offset = NIL_P(second) ? 0 : NUM2SIZET(second);
  if (transfer->offset > size) rb_raise(rb_eArgError, "offset %" PRIuSIZE " is beyond the buffer's %" PRIuSIZE " bytes", transfer->offset, size);
  transfer->most = size - transfer->offset;
  if (transfer->least > transfer->most) rb_raise(rb_eArgError, "length %" PRIuSIZE " is beyond the buffer's %" PRIuSIZE " bytes", transfer->least, size);
#endif
}

/* Repeats `step` until `least` bytes are moved; -errno counts only when nothing was. */
static VALUE transfer_run(struct transfer *transfer, char *base, unsigned interest, ssize_t (*step)(struct transfer *, char *, size_t)) {
  size_t moved = 0;
  while (moved < transfer->most) {
    ssize_t count = step(transfer, base + transfer->offset + moved, transfer->most - moved);
    if (count > 0) {
      moved += (size_t)count;
      if (moved >= transfer->least) break;
    } else if (count == 0) {
      break;
    } else if (count == -EAGAIN) {
      gyre_loop_drained(&transfer->scheduler->loop, transfer->fd, interest);
      if (moved >= transfer->least) return transfer_result(moved ? (ssize_t)moved : -EAGAIN);
      int ready = gyre_wait_io(transfer->scheduler, transfer->fd, interest, -1);
      if (ready < 0) return transfer_result(moved ? (ssize_t)moved : ready);
    } else {
      return transfer_result(moved ? (ssize_t)moved : count);
    }
  }
  return transfer_result((ssize_t)moved);
}

/* --- calls that may wait for a disk: without the GVL --- */

struct file_call {
  struct transfer *transfer;
  char *bytes;
  size_t length;
  ssize_t result;
};

#define FILE_CALL(name, expression)                        \
  static void *name##_without_gvl(void *opaque) {          \
    struct file_call *call = opaque;                       \
    call->result = expression;                             \
    if (call->result < 0) call->result = -errno;           \
    return NULL;                                           \
  }

FILE_CALL(read, read(call->transfer->fd, call->bytes, call->length))
FILE_CALL(write, write(call->transfer->fd, call->bytes, call->length))
FILE_CALL(pread, pread(call->transfer->fd, call->bytes, call->length, call->transfer->from))
FILE_CALL(pwrite, pwrite(call->transfer->fd, call->bytes, call->length, call->transfer->from))

static ssize_t file_step(struct transfer *transfer, char *bytes, size_t length, void *(*function)(void *)) {
  struct file_call call = {transfer, bytes, length, 0};
  do {
    rb_nogvl(function, &call, RUBY_UBF_IO, NULL, 0);
  } while (call.result == -EINTR);
  if (call.result > 0) transfer->from += call.result;
  return call.result;
}

static ssize_t pread_step(struct transfer *transfer, char *bytes, size_t length) {
  return file_step(transfer, bytes, length, pread_without_gvl);
}

static ssize_t pwrite_step(struct transfer *transfer, char *bytes, size_t length) {
  return file_step(transfer, bytes, length, pwrite_without_gvl);
}

static ssize_t read_step(struct transfer *transfer, char *bytes, size_t length) {
  ssize_t count = gyre_nonblocking_read(transfer->fd, bytes, length);
  return count == GYRE_IO_IS_FILE ? file_step(transfer, bytes, length, read_without_gvl) : count;
}

static ssize_t write_step(struct transfer *transfer, char *bytes, size_t length) {
  ssize_t count = gyre_nonblocking_write(transfer->fd, bytes, length);
  return count == GYRE_IO_IS_FILE ? file_step(transfer, bytes, length, write_without_gvl) : count;
}

/*
 * @overload io_read(io, buffer, length, offset = 0)
 *   Reads at least `length` bytes into the buffer; with 0 what one try gives (Fiber::Scheduler#io_read).
 *   From Ruby 4.1: io_read(io, buffer, offset, length), one try of at most `length`.
 *   @return [Integer] bytes, 0 at the end of the file, or -errno (-EAGAIN: would block)
 */
static VALUE scheduler_io_read(int argc, VALUE *argv, VALUE self) {
  VALUE io, first, second;
  struct transfer transfer = {.scheduler = gyre_scheduler_opened(self)};
  rb_scan_args(argc, argv, "31", &io, &transfer.buffer, &first, &second);
  transfer.fd = rb_io_descriptor(io);

  void *base;
  size_t size;
  rb_io_buffer_get_bytes_for_writing(transfer.buffer, &base, &size);
  transfer_bounds(&transfer, first, second, size);
  VALUE result = transfer_run(&transfer, base, GYRE_READABLE, read_step);
  RB_GC_GUARD(transfer.buffer);
  return result;
}

/*
 * @overload io_write(io, buffer, length, offset = 0)
 *   Writes at least `length` bytes of the buffer (Fiber::Scheduler#io_write); as {#io_read} otherwise.
 *   @return [Integer] bytes or -errno
 */
static VALUE scheduler_io_write(int argc, VALUE *argv, VALUE self) {
  VALUE io, first, second;
  struct transfer transfer = {.scheduler = gyre_scheduler_opened(self)};
  rb_scan_args(argc, argv, "31", &io, &transfer.buffer, &first, &second);
  transfer.fd = rb_io_descriptor(io);

  const void *base;
  size_t size;
  rb_io_buffer_get_bytes_for_reading(transfer.buffer, &base, &size);
  transfer_bounds(&transfer, first, second, size);
  VALUE result = transfer_run(&transfer, (char *)base, GYRE_WRITABLE, write_step);
  RB_GC_GUARD(transfer.buffer);
  return result;
}

/* --- at a place in a file --- */

/* The arguments in the order of this Ruby: 3.1 (io, buffer, length, from), 3.2 (io, buffer, from, length, offset),
 * 4.1 (io, buffer, from, offset, length). */
static void positioned_bounds(struct transfer *transfer, int argc, VALUE *argv, size_t size) {
#if RUBY_FIBER_SCHEDULER_VERSION >= 2
  transfer->from = NUM2OFFT(argv[2]);
  transfer_bounds(transfer, argv[3], argc > 4 ? argv[4] : INT2FIX(0), size);
#else
  transfer_bounds(transfer, argv[2], INT2FIX(0), size);
  transfer->from = NUM2OFFT(argv[3]);
#endif
}

/*
 * Reads at a place of a file (Fiber::Scheduler#io_pread), outside the GVL.
 *
 * @return [Integer] bytes or -errno
 */
static VALUE scheduler_io_pread(int argc, VALUE *argv, VALUE self) {
  rb_check_arity(argc, 4, 5);
  struct transfer transfer = {.scheduler = gyre_scheduler_opened(self), .buffer = argv[1], .fd = rb_io_descriptor(argv[0])};
  void *base;
  size_t size;
  rb_io_buffer_get_bytes_for_writing(transfer.buffer, &base, &size);
  positioned_bounds(&transfer, argc, argv, size);
  VALUE result = transfer_run(&transfer, base, GYRE_READABLE, pread_step);
  RB_GC_GUARD(transfer.buffer);
  return result;
}

/*
 * Writes at a place of a file (Fiber::Scheduler#io_pwrite), outside the GVL.
 *
 * @return [Integer] bytes or -errno
 */
static VALUE scheduler_io_pwrite(int argc, VALUE *argv, VALUE self) {
  rb_check_arity(argc, 4, 5);
  struct transfer transfer = {.scheduler = gyre_scheduler_opened(self), .buffer = argv[1], .fd = rb_io_descriptor(argv[0])};
  const void *base;
  size_t size;
  rb_io_buffer_get_bytes_for_reading(transfer.buffer, &base, &size);
  positioned_bounds(&transfer, argc, argv, size);
  VALUE result = transfer_run(&transfer, (char *)base, GYRE_WRITABLE, pwrite_step);
  RB_GC_GUARD(transfer.buffer);
  return result;
}

/* --- IO.select --- */

struct selected_watch {
  struct gyre_watch watch;
  struct gyre_wait *wait;
};

struct selecting {
  struct gyre_wait wait;
  VALUE arrays[3];
  long count;
  struct pollfd *descriptors;
  struct selected_watch *watches;
};

static const short poll_events[3] = {POLLIN, POLLOUT, POLLPRI};
static const unsigned watch_events[3] = {GYRE_READABLE, GYRE_WRITABLE, GYRE_PRIORITY};

static bool has_buffered_input(VALUE io) {
  rb_io_t *file;
  GetOpenFile(io, file);
  return rb_io_read_pending(file) != 0;
}

/* The arrays of what is ready now, or nil. */
static VALUE select_now(struct selecting *selecting) {
  int ready = poll(selecting->descriptors, (nfds_t)selecting->count, 0);
  if (ready < 0 && errno != EINTR) rb_sys_fail("select");

  VALUE result = Qnil;
  long index = 0;
  for (int kind = 0; kind < 3; kind++) {
    if (NIL_P(selecting->arrays[kind])) continue;
    for (long i = 0; i < RARRAY_LEN(selecting->arrays[kind]) && index < selecting->count; i++, index++) {
      VALUE element = RARRAY_AREF(selecting->arrays[kind], i);
      short events = ready > 0 ? selecting->descriptors[index].revents : 0;
      if (events & POLLNVAL) rb_syserr_fail(EBADF, "select");
      bool is_ready = events & (poll_events[kind] | (kind < 2 ? POLLERR | POLLHUP : 0));
      if (!is_ready && kind == 0) is_ready = has_buffered_input(rb_io_get_io(element));
      if (!is_ready) continue;
      if (NIL_P(result)) result = rb_ary_new_from_args(3, rb_ary_new(), rb_ary_new(), rb_ary_new());
      rb_ary_push(rb_ary_entry(result, kind), element);
    }
  }
  return result;
}

static void selected(struct gyre_loop *loop, struct gyre_watch *watch, unsigned ready) {
  (void)ready;
  gyre_wake(gyre_scheduler_of(loop), &GYRE_CONTAINER(watch, struct selected_watch, watch)->wait->parked);
}

static VALUE select_body(VALUE argument) {
  struct selecting *selecting = (struct selecting *)argument;
  struct gyre_wait *wait = &selecting->wait;
  VALUE result;
  while (NIL_P(result = select_now(selecting)) && !wait->timed_out) {
    for (long i = 0, kind = 0, of_kind = 0; i < selecting->count; i++, of_kind++) {
      while (NIL_P(selecting->arrays[kind]) || of_kind >= RARRAY_LEN(selecting->arrays[kind])) kind++, of_kind = 0;
      struct selected_watch *selected_watch = &selecting->watches[i];
      if (selected_watch->watch.fd >= 0) continue;
      int error = gyre_loop_watch(&wait->scheduler->loop, &selected_watch->watch, selecting->descriptors[i].fd, watch_events[kind]);
      if (error < 0 && error != -EPERM) rb_syserr_fail(-error, "select");
    }
    gyre_wait_again(wait);
  }
  return result;
}

static VALUE select_ensure(VALUE argument) {
  struct selecting *selecting = (struct selecting *)argument;
  for (long i = 0; i < selecting->count; i++) {
    gyre_loop_unwatch(&selecting->wait.scheduler->loop, &selecting->watches[i].watch);
  }
  gyre_wait_end(&selecting->wait);
  xfree(selecting->watches);
  xfree(selecting->descriptors);
  return Qnil;
}

/*
 * IO.select (Fiber::Scheduler#io_select, Ruby 3.2 and later).
 *
 * @param readables [Array<IO>, nil]
 * @param writables [Array<IO>, nil]
 * @param exceptables [Array<IO>, nil]
 * @param timeout [Numeric, nil] seconds
 * @return [Array(Array<IO>, Array<IO>, Array<IO>), nil] what is ready; nil when the time is over
 */
static VALUE scheduler_io_select(int argc, VALUE *argv, VALUE self) {
  struct gyre_scheduler *scheduler = gyre_scheduler_opened(self);
  struct selecting selecting = {.count = 0};
  VALUE timeout;
  rb_scan_args(argc, argv, "13", &selecting.arrays[0], &selecting.arrays[1], &selecting.arrays[2], &timeout);
  int64_t timeout_ns = gyre_duration_ns(timeout);

  VALUE keep[3];
  for (int kind = 0; kind < 3; kind++) {
    keep[kind] = selecting.arrays[kind];
    if (NIL_P(keep[kind])) continue;
    keep[kind] = selecting.arrays[kind] = rb_ary_dup(rb_Array(keep[kind]));
    selecting.count += RARRAY_LEN(keep[kind]);
    for (long i = 0; i < RARRAY_LEN(keep[kind]); i++) rb_io_descriptor(rb_io_get_io(RARRAY_AREF(keep[kind], i))); /* raises here */
  }

  selecting.descriptors = ALLOC_N(struct pollfd, selecting.count + 1);
  selecting.watches = ALLOC_N(struct selected_watch, selecting.count + 1);
  for (long index = 0, kind = 0; kind < 3; kind++) {
    if (NIL_P(keep[kind])) continue;
    for (long i = 0; i < RARRAY_LEN(keep[kind]); i++, index++) {
      VALUE io = rb_io_get_io(RARRAY_AREF(keep[kind], i));
      selecting.descriptors[index] = (struct pollfd){.fd = rb_io_descriptor(io), .events = poll_events[kind]};
      selecting.watches[index].watch.fd = -1;
      selecting.watches[index].watch.ready = selected;
      selecting.watches[index].wait = &selecting.wait;
    }
  }
  gyre_wait_begin(scheduler, &selecting.wait);
  selecting.wait.timed_out = timeout_ns == 0;
  if (timeout_ns > 0) gyre_wait_arm(&selecting.wait, timeout_ns);
  VALUE result = rb_ensure(select_body, (VALUE)&selecting, select_ensure, (VALUE)&selecting);
  RB_GC_GUARD(keep[0]);
  RB_GC_GUARD(keep[1]);
  RB_GC_GUARD(keep[2]);
  return result;
}

/* --- closing --- */

/*
 * Closes a descriptor (Fiber::Scheduler#io_close, Ruby 4.0 and later): who waits for it is woken, the
 * loop forgets it.
 *
 * @param descriptor [Integer]
 * @return [true]
 */
static VALUE scheduler_io_close(VALUE self, VALUE descriptor) {
  int fd = RB_INTEGER_TYPE_P(descriptor) ? NUM2INT(descriptor) : rb_io_descriptor(descriptor);
  gyre_loop_abandon(&gyre_scheduler_opened(self)->loop, fd);
  if (close(fd) < 0 && errno != EINTR) rb_sys_fail("close");
  return Qtrue;
}

void gyre_init_scheduler_io(bool reads, bool writes, bool positioned_writes) {
  VALUE class = gyre_cNativeScheduler;
  rb_define_method(class, "io_wait", scheduler_io_wait, 3);
  rb_define_method(class, "io_select", scheduler_io_select, -1);
  rb_define_method(class, "io_close", scheduler_io_close, 1);
  if (reads) {
    rb_define_method(class, "io_read", scheduler_io_read, -1);
    rb_define_method(class, "io_pread", scheduler_io_pread, -1);
  }
  if (writes) rb_define_method(class, "io_write", scheduler_io_write, -1);
  if (positioned_writes) rb_define_method(class, "io_pwrite", scheduler_io_pwrite, -1);
}
