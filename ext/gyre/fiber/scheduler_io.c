/* Gyre::Scheduler's hooks io_wait, io_read, io_write, io_pread, io_pwrite, io_close. Tries the
 * system call first and parks on "would block". `struct transfer` hides that the hooks' arguments
 * differ between Ruby's versions. */
#include "fiber/nonblocking_io.h"
#include "fiber/ruby_io.h"
#include "fiber/scheduler.h"

#include <fcntl.h>
#include <ruby/debug.h>
#include <sys/socket.h>
#include <sys/stat.h>

/* Yields if the slice is over, for methods without a hook (lib/gyre/scheduler/pacing.rb). */
static VALUE scheduler_pace(VALUE self) {
  struct gyre_scheduler *scheduler = gyre_scheduler_get(self);
  if (!scheduler->closed && gyre_clock_is_due(scheduler)) gyre_yield_if_due(scheduler);
  return Qnil;
}

/* For a timeout of 0: asks the kernel without waiting. If `fd` is not ready, lets other fibers run,
 * because they may change that. */
static int ready_now(struct gyre_scheduler *scheduler, int fd, unsigned events) {
  int ready = gyre_ready_now(fd, events);
  if (ready == 0) {
    gyre_yield(scheduler);
  } else if (gyre_clock_is_due(scheduler)) {
    gyre_yield_if_due(scheduler);
  }
  return ready;
}

/* Waits for up to `timeout`; if that is nil, for up to the IO's own timeout (IO#timeout, Ruby 3.2
 * and later), which raises IO::TimeoutError. Returns ready events, 0 after `timeout`, or -errno. */
static int wait_within_timeout(struct gyre_scheduler *scheduler, VALUE io, int fd, unsigned events, VALUE timeout) {
  VALUE own_timeout = Qnil;
#if RUBY_API_VERSION_CODE >= 30200
  if (NIL_P(timeout) && RB_TYPE_P(io, T_FILE)) timeout = own_timeout = rb_io_timeout(io);
#endif
  int64_t timeout_ns = gyre_duration_ns(timeout);
  int ready = timeout_ns == 0 ? ready_now(scheduler, fd, events) : gyre_wait_io(scheduler, fd, events, timeout_ns, io);
  if (ready == 0 && !NIL_P(own_timeout)) {
    rb_raise(rb_const_get(rb_cIO, rb_intern("TimeoutError")),
             "%" PRIsVALUE " was not ready within its timeout of %" PRIsVALUE " s", io, own_timeout);
  }
  return ready;
}

/* Parks until `io` is ready (Fiber::Scheduler#io_wait). Returns ready events; false after the
 * timeout. */
static VALUE scheduler_io_wait(VALUE self, VALUE io, VALUE events, VALUE timeout) {
  unsigned asked = NUM2UINT(events) & (GYRE_READABLE | GYRE_PRIORITY | GYRE_WRITABLE);
  int ready = wait_within_timeout(gyre_scheduler_opened(self), io, rb_io_descriptor(io), asked, timeout);
  if (ready < 0) rb_syserr_fail(-ready, "wait for a descriptor");
  return ready ? INT2NUM(ready) : Qfalse;
}

#define FILE_PART ((size_t)1024 * 1024) /* maximum bytes per call for a file */

struct transfer {
  struct gyre_scheduler *scheduler;
  VALUE io, buffer;
  int fd;
  bool writes, positioned; /* positioned: for pread and pwrite */
  enum gyre_io_kind kind;
  char *base;   /* the buffer's bytes; a wait may invalidate them */
  size_t least; /* minimum bytes to move; 0: try once */
  size_t most;  /* maximum bytes to move */
  size_t offset;
  off_t from; /* offset in the file, if positioned */
};

/* Values of `kind` in struct gyre_descriptor. */
enum { UNKNOWN, OTHER, ANY_SOCKET, STREAM_SOCKET, PIPE, REGULAR };

static VALUE transfer_result(ssize_t result) { return result < 0 ? INT2NUM((int)result) : SIZET2NUM((size_t)result); }

/* Reads length and offset. Up to Ruby 4.0 the length is first, and is a minimum (0: one try). From
 * Ruby 4.1 (interface version 4) the offset is first, and the length is a maximum. */
static void transfer_bounds(struct transfer *transfer, VALUE first, VALUE second, size_t size) {
#if RUBY_FIBER_SCHEDULER_VERSION >= 4
  transfer->offset = NUM2SIZET(first);
  size_t length = NUM2SIZET(second);
  if (transfer->offset > size)
    rb_raise(rb_eArgError, "offset %" PRIuSIZE " is beyond the buffer's %" PRIuSIZE " bytes", transfer->offset, size);
  transfer->most = size - transfer->offset < length ? size - transfer->offset : length;
  transfer->least = 0;
#else
  transfer->least = NUM2SIZET(first);
  transfer->offset = NUM2SIZET(second);
  if (transfer->offset > size)
    rb_raise(rb_eArgError, "offset %" PRIuSIZE " is beyond the buffer's %" PRIuSIZE " bytes", transfer->offset, size);
  transfer->most = size - transfer->offset;
  if (transfer->least > transfer->most)
    rb_raise(rb_eArgError, "length %" PRIuSIZE " is beyond the buffer's %" PRIuSIZE " bytes", transfer->least, size);
#endif
}

/* Reads the arguments after io and buffer. pread and pwrite have (length, from) in Ruby 3.1, (from,
 * length, offset) from 3.2, (from, offset, length) from 4.1. The last argument may be missing. */
static void transfer_arguments(struct transfer *transfer, int count, const VALUE *arguments, size_t size) {
  VALUE first = arguments[0], second = count > 1 ? arguments[1] : INT2FIX(0);
  if (transfer->positioned) {
#if RUBY_FIBER_SCHEDULER_VERSION >= 2
    transfer->from = NUM2OFFT(first);
    first = second;
    second = count > 2 ? arguments[2] : INT2FIX(0);
#else
    transfer->from = NUM2OFFT(second);
    second = INT2FIX(0);
#endif
  }
  transfer_bounds(transfer, first, second, size);
}

/* Returns the offset in the file; -1 stands for the file's position. */
static off_t transfer_place(const struct transfer *transfer) { return transfer->positioned ? transfer->from : -1; }

/* Fetches the descriptor and the buffer's bytes; returns the buffer's size. Repeated after each
 * wait, in which the program may close the IO or free the buffer. */
static size_t transfer_open(struct transfer *transfer) {
  transfer->fd = rb_io_descriptor(transfer->io);
  return gyre_buffer_bytes(transfer->buffer, transfer->writes, &transfer->base);
}

/* Runs in a thread of Gyre::Offload. The fiber may leave meanwhile: so the read fills its own
 * memory, and fails if the IO was closed. `read`: IO, descriptor, offset, String to fill. */
static VALUE read_in_thread(RB_BLOCK_CALL_FUNC_ARGLIST(yielded, read)) {
  VALUE bytes = RARRAY_AREF(read, 3);
  if (RTEST(rb_funcallv(RARRAY_AREF(read, 0), rb_intern("closed?"), 0, NULL))) return INT2FIX(-EBADF);
  ssize_t count = gyre_file_call(NUM2INT(RARRAY_AREF(read, 1)), RSTRING_PTR(bytes), (size_t)RSTRING_LEN(bytes),
                                 NUM2OFFT(RARRAY_AREF(read, 2)), false);
  RB_GC_GUARD(bytes);
  return SSIZET2NUM(count);
}

/* Parks until a thread has read the bytes. Then fetches descriptor and bytes again, because the
 * program may close the IO or free the buffer meanwhile. */
static ssize_t file_read_in_thread(struct transfer *transfer, size_t at, size_t length) {
  VALUE bytes = rb_str_new(NULL, (long)length);
  VALUE read = rb_ary_new_from_args(4, transfer->io, INT2NUM(transfer->fd), OFFT2NUM(transfer_place(transfer)), bytes);
  VALUE result = rb_funcall(rb_const_get(gyre_mGyre, rb_intern("Offload")), rb_intern("run"), 1,
                            rb_proc_new(read_in_thread, read));
  if (transfer_open(transfer) < transfer->offset + transfer->most) rb_raise(rb_eIOError, "the buffer was made smaller");
  ssize_t count = NUM2SSIZET(result);
  if (count > 0) memcpy(transfer->base + at, RSTRING_PTR(bytes), (size_t)count);
  rb_str_resize(bytes, 0); /* frees the memory before the collector does */
  return count;
}

/* Uses no thread for a write, which usually reaches only the kernel's memory. */
static ssize_t file_part(struct transfer *transfer, size_t at, size_t length, bool waits) {
  if (waits && !transfer->writes) return file_read_in_thread(transfer, at, length);
  return gyre_file_call(transfer->fd, transfer->base + at, length, transfer_place(transfer), transfer->writes);
}

static ssize_t file_step(struct transfer *transfer, size_t at, size_t length, bool waits) {
  size_t moved = 0, part;
  ssize_t count;
  do {
    part = length - moved < FILE_PART ? length - moved : FILE_PART;
    count = file_part(transfer, at + moved, part, waits);
    if (count < 0) return moved ? (ssize_t)moved : count;
    moved += (size_t)count;
    transfer->from += count;
  } while ((size_t)count == part && moved < length);
  return (ssize_t)moved;
}

/* Directly reads the bytes that are in memory, and the rest by file_step. */
static ssize_t pread_step(struct transfer *transfer, size_t at, size_t length) {
  size_t moved = 0;
  while (moved < length) {
    ssize_t count = gyre_nonblocking_pread(transfer->fd, transfer->base + at + moved, length - moved, transfer->from);
    if (count == 0) break;
    if (count < 0) {
      count = file_step(transfer, at + moved, length - moved, count == GYRE_IO_FILE_WAITS);
      return count < 0 && moved == 0 ? count : (ssize_t)moved + (count > 0 ? count : 0);
    }
    moved += (size_t)count;
    transfer->from += count;
  }
  return (ssize_t)moved;
}

static ssize_t transfer_step(struct transfer *transfer, size_t at, size_t length) {
  if (transfer->positioned)
    return transfer->writes ? file_step(transfer, at, length, false) : pread_step(transfer, at, length);

  char *bytes = transfer->base + at;
  ssize_t count = gyre_nonblocking_move(transfer->fd, bytes, length, transfer->writes, transfer->kind);
  if (count != GYRE_IO_FILE && count != GYRE_IO_FILE_WAITS) return count;
  if (transfer->writes && transfer->kind == GYRE_IO_ANY) {
    struct gyre_descriptor *held = gyre_loop_held(&transfer->scheduler->loop, transfer->fd, (uintptr_t)transfer->io);
    if (held && held->kind == OTHER) held->kind = REGULAR;
  }
  return file_step(transfer, at, length, count == GYRE_IO_FILE_WAITS);
}

/* Guesses the descriptor's kind; transfer_learn drops a guess after a useless wait. Does not look
 * at the mode, which IO#nonblock=, IO#reopen and other processes change. */
static enum gyre_io_kind transfer_kind(const struct transfer *transfer, struct gyre_descriptor *held) {
  static const enum gyre_io_kind kinds[] = {[ANY_SOCKET] = GYRE_IO_SOCKET,
                                            [STREAM_SOCKET] = GYRE_IO_SOCKET,
                                            [PIPE] = GYRE_IO_PIPE,
                                            [REGULAR] = GYRE_IO_REGULAR};
  bool duplex = gyre_io_is_duplex(transfer->io);
  if (!held) return duplex ? GYRE_IO_SOCKET : GYRE_IO_ANY;
  if (held->kind == UNKNOWN || (held->kind == STREAM_SOCKET && !duplex)) {
    int type = duplex ? gyre_socket_type(transfer->fd) : -1;
    held->kind = type == SOCK_STREAM          ? STREAM_SOCKET
                 : type >= 0                  ? ANY_SOCKET
                 : gyre_is_pipe(transfer->fd) ? PIPE
                                              : OTHER;
  }
  return kinds[held->kind];
}

/* Returns 0 or -errno. */
static int transfer_wait(struct transfer *transfer, unsigned interest) {
  int ready = wait_within_timeout(transfer->scheduler, transfer->io, transfer->fd, interest, Qnil);
  if (ready < 0) return ready;
  return transfer_open(transfer) < transfer->offset + transfer->most ? -EFAULT : 0;
}

/* Updates the descriptor's entry. Looks it up again: a signal handler may have moved the table. */
static void transfer_learn(struct transfer *transfer, unsigned interest, size_t length, ssize_t count, bool waited) {
  struct gyre_descriptor *held = gyre_loop_held(&transfer->scheduler->loop, transfer->fd, (uintptr_t)transfer->io);
  if (!held || (count <= 0 && count != -EAGAIN)) return;
  /* On descriptors of other kinds, more messages or lines may follow a short count. */
  if (count == -EAGAIN || (count < (ssize_t)length && (held->kind == PIPE || held->kind == STREAM_SOCKET)))
    gyre_descriptor_drained(held, interest);
  if (waited && count == -EAGAIN) held->kind = UNKNOWN;
}

static bool is_named(VALUE frame, const char *wanted) {
  VALUE name = rb_profile_frame_method_name(frame);
  return RB_TYPE_P(name, T_STRING) && (size_t)RSTRING_LEN(name) == strlen(wanted) &&
         memcmp(RSTRING_PTR(name), wanted, strlen(wanted)) == 0;
}

static bool is_override(VALUE frame, bool writes) {
  return !NIL_P(rb_profile_frame_path(frame)) && is_named(frame, writes ? "io_write" : "io_read");
}

/* True if the hook may wait: to reach `least`, or in Ruby's blocking methods (gets, readpartial,
 * read), where this saves two calls of hooks. False for direct calls of the hook and for
 * IO#read_nonblock, which is Ruby code. Ruby's methods for writing wait by themselves, except
 * IO#syswrite: it may return EAGAIN only in non-blocking mode. */
static bool may_wait(const struct transfer *transfer) {
  if (transfer->least > 0) return true;
  if (transfer->positioned || (transfer->writes && fcntl(transfer->fd, F_GETFL) & O_NONBLOCK)) return false;
  VALUE
  frames[8]; /* of the hook, its overrides and their caller; Ruby 3.1 omits C frames */
  int lines[8];
  /* Two frames are usually enough, and each further one takes time. */
  int count = rb_profile_frames(0, 2, frames, lines), caller = 1;
  if (count == 2 && is_override(frames[1], transfer->writes)) count = rb_profile_frames(0, 8, frames, lines);
  while (caller < count && is_override(frames[caller], transfer->writes)) caller++;
  if (caller == count || !NIL_P(rb_profile_frame_path(frames[caller]))) return false;
  return !transfer->writes || is_named(frames[caller], "syswrite");
}

/* Repeats until `least` bytes are moved. Returns the number moved; -errno only if that is 0. */
static ssize_t transfer_run(struct transfer *transfer) {
  unsigned interest = transfer->writes ? GYRE_WRITABLE : GYRE_READABLE;
  bool waited = false;
  size_t moved = 0;
  while (moved < transfer->most) {
    size_t length = transfer->most - moved;
    ssize_t count = -EAGAIN;
    struct gyre_descriptor *held = gyre_loop_held(&transfer->scheduler->loop, transfer->fd, (uintptr_t)transfer->io);
    /* Skips a call that would block, except after a wait. */
    if (waited || !held || !gyre_loop_is_drained(&transfer->scheduler->loop, held, interest) || !may_wait(transfer)) {
      if (!transfer->positioned) transfer->kind = transfer_kind(transfer, held);
      count = transfer_step(transfer, transfer->offset + moved, length);
      if (!transfer->positioned) transfer_learn(transfer, interest, length, count, waited);
    }
    if (count > 0) {
      moved += (size_t)count;
      if (moved >= transfer->least) break;
    } else if (count == 0) {
      break;
    } else if (count == -EAGAIN) {
      if (moved ? moved >= transfer->least : !may_wait(transfer)) return moved ? (ssize_t)moved : -EAGAIN;
      int error = transfer_wait(transfer, interest);
      if (error < 0) return moved ? (ssize_t)moved : error;
      waited = true;
    } else {
      return moved ? (ssize_t)moved : count;
    }
  }
  return (ssize_t)moved;
}

/* Runs one of the four hooks for reading and writing (arguments: transfer_arguments). */
static VALUE transfer_hook(VALUE self, int argc, const VALUE *argv, bool writes, bool positioned) {
  rb_check_arity(argc, positioned ? 4 : 3, positioned ? 5 : 4);
  struct transfer transfer = {gyre_scheduler_opened(self), .io = argv[0], .buffer = argv[1], .writes = writes,
                              .positioned = positioned};
  transfer_arguments(&transfer, argc - 2, argv + 2, transfer_open(&transfer));
  if (positioned && transfer.from < 0) return INT2FIX(-EINVAL); /* -1 is the file's position */
  if (gyre_clock_is_due(transfer.scheduler) && gyre_slice_is_over(transfer.scheduler) && may_wait(&transfer)) {
    gyre_yield_if_due(transfer.scheduler);
    if (transfer_open(&transfer) < transfer.offset + transfer.most) return INT2FIX(-EFAULT);
  }
  VALUE result = transfer_result(transfer_run(&transfer));
  RB_GC_GUARD(transfer.buffer);
  return result;
}

/* Reads at least `length` bytes; 0: tries once (Fiber::Scheduler#io_read). From Ruby 4.1,
 * io_read(io, buffer, offset, length) reads once, up to `length`. Returns the count, 0 at the end,
 * or -errno. */
static VALUE scheduler_io_read(int argc, VALUE *argv, VALUE self) {
  return transfer_hook(self, argc, argv, false, false);
}

/* Writes at least `length` bytes (Fiber::Scheduler#io_write). Otherwise like {#io_read}. */
static VALUE scheduler_io_write(int argc, VALUE *argv, VALUE self) {
  return transfer_hook(self, argc, argv, true, false);
}

/* Reads at an offset without the GVL (Fiber::Scheduler#io_pread). */
static VALUE scheduler_io_pread(int argc, VALUE *argv, VALUE self) {
  return transfer_hook(self, argc, argv, false, true);
}

/* Writes at an offset without the GVL (Fiber::Scheduler#io_pwrite). */
static VALUE scheduler_io_pwrite(int argc, VALUE *argv, VALUE self) {
  return transfer_hook(self, argc, argv, true, true);
}

/* True if opening the path may wait: it is a FIFO or device (waiting_path.rb). Calls stat(2)
 * directly, because File.stat would make objects or use a thread. */
static VALUE scheduler_path_waits_p(VALUE self, VALUE path) {
  struct stat status;
  if (memchr(RSTRING_PTR(path), '\0', RSTRING_LEN(path))) return Qfalse; /* Ruby refuses it */
  bool found = stat(StringValueCStr(path), &status) == 0;
  return found && (S_ISFIFO(status.st_mode) || S_ISCHR(status.st_mode)) ? Qtrue : Qfalse;
}

/* Closes a descriptor and wakes its waits (Fiber::Scheduler#io_close, Ruby 4.0 and later). */
static VALUE scheduler_io_close(VALUE self, VALUE descriptor) {
  int fd = RB_INTEGER_TYPE_P(descriptor) ? NUM2INT(descriptor) : rb_io_descriptor(descriptor);
  gyre_loop_let_go(&gyre_scheduler_opened(self)->loop, fd);
  if (close(fd) < 0 && errno != EINTR) rb_sys_fail("close");
  return Qtrue;
}

void gyre_init_scheduler_io(void) {
  /* Ruby before 3.3.1 may lose the buffer's lock in io_write (bug 19640), and 3.2.5 has a broken
   * interface. If a hook is missing, Ruby calls io_wait. */
  const char *version = StringValueCStr(*(VALUE[]){rb_const_get(rb_cObject, rb_intern("RUBY_VERSION"))});
  bool broken = strcmp(version, "3.2.5") == 0;
  /* In Ruby 3.3 and 3.4 IO#pwrite calls io_pwrite without the GVL, which deadlocks all threads. */
  bool without_gvl = strcmp(version, "3.3") >= 0 && strcmp(version, "3.5") < 0;
  VALUE class = gyre_cScheduler;
  rb_define_singleton_method(class, "path_waits?", scheduler_path_waits_p, 1);
  rb_define_method(class, "pace", scheduler_pace, 0);
  rb_define_method(class, "io_wait", scheduler_io_wait, 3);
  rb_define_method(class, "io_close", scheduler_io_close, 1);
  if (!broken) {
    rb_define_method(class, "io_read", scheduler_io_read, -1);
    rb_define_method(class, "io_pread", scheduler_io_pread, -1);
  }
  if (strcmp(version, "3.3.1") >= 0) rb_define_method(class, "io_write", scheduler_io_write, -1);
  if (!broken && !without_gvl) rb_define_method(class, "io_pwrite", scheduler_io_pwrite, -1);
}
