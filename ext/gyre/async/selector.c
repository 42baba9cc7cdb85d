/* Gyre::Async::Selector: IO::Event::Selector's interface on Gyre's loop, for the gem Async
 * (lib/gyre/async.rb). Moves fibers only by transfer, between waiting fibers and the loop's fiber,
 * which calls `select`. Does not use Gyre::Scheduler.
 *
 * Enters fibers only after the poll has reported all events: a fiber may raise out of `select`, and
 * the kernel reports each change only once. */
#include "fiber/nonblocking_io.h"
#include "fiber/ruby_io.h"
#include "fiber/scheduler.h"
#include "loop/forks.h"

#define ROUNDS_LIMIT 32 /* maximum calls of `select` in a row that skip the kernel */

/* A wait for a descriptor, on its fiber's stack. */
struct gyre_selector_wait {
  struct gyre_selector *selector;
  struct gyre_list node; /* in waiting or reported */
  struct gyre_watch watch;
  VALUE fiber, io; /* io: only compared; nil for a process */
  unsigned ready;
};

struct gyre_selector {
  struct gyre_loop loop;
  VALUE loop_fiber;                   /* the fiber that calls #select */
  VALUE thread;                       /* the thread that made the selector */
  VALUE *ready;                       /* ring of fibers or similar objects; nil once entered */
  uint64_t first, end;                /* the queue's first position and end; both only grow */
  size_t capacity;                    /* a power of two */
  struct gyre_list waiting, reported; /* struct gyre_selector_wait */
  struct gyre_timer limit;
  unsigned rounds;  /* calls of `select` since the kernel was asked */
  int64_t slice_ns; /* coarse time when `rounds` began */
  int64_t slept_ns; /* when this sleep began; 0: awake */
  int64_t idle_ns;  /* time slept in the last `select` */
  unsigned forks;   /* gyre_forks of the process that made it */
  bool closed;
};

static VALUE *queue_slot(struct gyre_selector *selector, uint64_t place) {
  return &selector->ready[place & (selector->capacity - 1)];
}

static void selector_mark(void *opaque) {
  struct gyre_selector *selector = opaque;
  GYRE_MARK(selector->loop_fiber, selector->thread);
  for (uint64_t place = selector->first; place < selector->end; place++) rb_gc_mark(*queue_slot(selector, place));
  GYRE_EACH(struct gyre_selector_wait, wait, &selector->waiting, node) rb_gc_mark(wait->fiber);
  GYRE_EACH(struct gyre_selector_wait, wait, &selector->reported, node) rb_gc_mark(wait->fiber);
}

/* Detaches the waits, whose fibers may still live, from a selector that closes. */
static void abandon_waits(struct gyre_list *list) {
  GYRE_EACH_TAKEN(struct gyre_selector_wait, wait, list, node) {
    gyre_list_remove(&wait->watch.unverified);
    wait->watch.fd = -1;
  }
}

/* Does nothing in a forked child, where the descriptors are the parent's. */
static void close_loop(struct gyre_selector *selector) {
  if (selector->forks == gyre_forks) gyre_loop_close(&selector->loop);
}

/* Does not touch the waits: their fibers are unreachable, too, and may be freed. */
static void selector_free(void *opaque) {
  struct gyre_selector *selector = opaque;
  close_loop(selector);
  xfree(selector->ready);
  xfree(selector);
}

static size_t selector_size(const void *opaque) {
  const struct gyre_selector *selector = opaque;
  return sizeof(*selector) + selector->capacity * sizeof(VALUE) +
         (size_t)selector->loop.descriptor_capacity * sizeof(struct gyre_descriptor);
}

/* Has no write barriers: the marked objects are on fibers' stacks and change at every switch. */
GYRE_TYPE(selector_type, "Gyre::Async::Selector", selector_mark, selector_free, selector_size, 0);

static struct gyre_selector *selector_get(VALUE self) { return rb_check_typeddata(self, &selector_type); }

static struct gyre_selector *selector_opened(VALUE self) {
  struct gyre_selector *selector = selector_get(self);
  if (selector->closed) rb_raise(rb_eRuntimeError, "the selector is closed");
  /* Watches of a child would take away its parent's reports. */
  if (selector->forks != gyre_forks)
    rb_raise(rb_eRuntimeError, "the selector belongs to the process that this one was forked from");
  return selector;
}

static VALUE selector_allocate(VALUE class) {
  struct gyre_selector *selector;
  VALUE self = TypedData_Make_Struct(class, struct gyre_selector, &selector_type, selector);
  selector->loop_fiber = selector->thread = Qnil;
  gyre_list_init(&selector->waiting);
  gyre_list_init(&selector->reported);
  selector->closed = true;
  return self;
}

static bool sleeping(struct gyre_loop *loop);

/* Does nothing: firing the timer ends the sleep. */
static void time_is_over(struct gyre_timer *timer, void *context) {}

/* `loop_fiber` is the fiber that calls #select. */
static VALUE selector_initialize(VALUE self, VALUE loop_fiber, VALUE backend) {
  struct gyre_selector *selector = selector_get(self);
  if (!selector->closed) rb_raise(rb_eRuntimeError, "initialized twice");

  gyre_loop_open_on(&selector->loop, backend);
  selector->loop.sleeping = sleeping;
  selector->loop_fiber = loop_fiber;
  selector->thread = rb_thread_current();
  selector->limit.fire = time_is_over;
  selector->forks = gyre_forks;
  selector->closed = false;
  return self;
}

static VALUE selector_loop(VALUE self) { return selector_get(self)->loop_fiber; }

static VALUE selector_backend(VALUE self) { return rb_str_new_cstr(selector_opened(self)->loop.backend->name); }

/* Closes the descriptors; wakes no fibers. Raises ThreadError if another thread has made the
 * selector and still lives. */
static VALUE selector_close(VALUE self) {
  struct gyre_selector *selector = selector_get(self);
  if (selector->closed) return Qnil;
  if (selector->thread != rb_thread_current() && RTEST(rb_funcall(selector->thread, rb_intern("alive?"), 0)))
    rb_raise(rb_eThreadError, "this selector belongs to another thread, which may be waiting on it");
  selector->closed = true;
  abandon_waits(&selector->waiting);
  abandon_waits(&selector->reported);
  selector->first = selector->end;
  gyre_timers_cancel_all(&selector->loop.timers);
  close_loop(selector);
  return Qnil;
}

/* Also true in a child that was forked later. */
static VALUE selector_closed_p(VALUE self) {
  struct gyre_selector *selector = selector_get(self);
  return selector->closed || selector->forks != gyre_forks ? Qtrue : Qfalse;
}

/* Enters a fiber, unless it is dead. */
static VALUE enter(VALUE fiber) {
  if (rb_obj_is_fiber(fiber)) return RTEST(rb_fiber_alive_p(fiber)) ? gyre_transfer(fiber) : Qnil;
  return RTEST(rb_funcallv(fiber, rb_intern("alive?"), 0, NULL)) ? rb_funcallv(fiber, rb_intern("transfer"), 0, NULL)
                                                                 : Qnil;
}

static VALUE selector_leave(struct gyre_selector *selector) {
  if (rb_fiber_current() == selector->loop_fiber) return Qnil;
  return gyre_transfer(selector->loop_fiber);
}

/* Enters the loop's fiber, and does not queue the current one. Returns the transfer's value. */
static VALUE selector_transfer(VALUE self) { return selector_leave(selector_opened(self)); }

/* Queues a fiber, and returns its position. */
static uint64_t queue_push(struct gyre_selector *selector, VALUE fiber) {
  if (selector->end - selector->first == selector->capacity) {
    size_t capacity = selector->capacity ? 2 * selector->capacity : 64;
    VALUE *ready = ALLOC_N(VALUE, capacity);
    for (uint64_t place = selector->first; place < selector->end; place++)
      ready[place & (capacity - 1)] = *queue_slot(selector, place);
    xfree(selector->ready);
    selector->ready = ready;
    selector->capacity = capacity;
  }
  *queue_slot(selector, selector->end) = fiber;
  return selector->end++;
}

/* Queues a fiber for {#select}. Any thread may call it; {#wakeup} should follow. */
static VALUE selector_push(VALUE self, VALUE fiber) {
  queue_push(selector_opened(self), fiber);
  return Qnil;
}

struct passing {
  struct gyre_selector *selector;
  uint64_t place; /* position of the suspended fiber in the queue */
  ID method;
  int argc;
  const VALUE *argv;
  int keywords;
};

static VALUE pass_ensure(VALUE argument) {
  const struct passing *passing = (const struct passing *)argument;
  if (passing->place >= passing->selector->first) *queue_slot(passing->selector, passing->place) = Qnil;
  return Qnil;
}

static VALUE pass_body(VALUE argument) {
  struct passing *passing = (struct passing *)argument;
  const VALUE fiber = passing->argv[0], *rest = passing->argv + 1;
  if (passing->method == rb_intern("transfer") && rb_obj_is_fiber(fiber) && passing->keywords == RB_NO_KEYWORDS)
    return rb_fiber_transfer(fiber, passing->argc - 1, rest);
  return rb_funcallv_kw(fiber, passing->method, passing->argc - 1, rest, passing->keywords);
}

/* Queues the current fiber, and calls `method` of the fiber argv[0]. */
static VALUE pass(VALUE self, ID method, int argc, const VALUE *argv) {
  struct gyre_selector *selector = selector_opened(self);
  struct passing passing = {.selector = selector, .method = method, .argc = argc, .argv = argv};
  passing.keywords = rb_keyword_given_p() ? RB_PASS_KEYWORDS : RB_NO_KEYWORDS;
  passing.place = queue_push(selector, rb_fiber_current());
  VALUE result = rb_ensure(pass_body, (VALUE)&passing, pass_ensure, (VALUE)&passing);
  RB_GC_GUARD(self);
  return result;
}

/* Enters the given fiber, and queues the current one. */
static VALUE selector_resume(int argc, VALUE *argv, VALUE self) {
  rb_check_arity(argc, 1, UNLIMITED_ARGUMENTS);
  return pass(self, rb_intern("transfer"), argc, argv);
}

/* Queues the current fiber at the end, and enters the loop's fiber. */
static VALUE selector_yield(VALUE self) {
  VALUE loop_fiber = selector_get(self)->loop_fiber;
  return pass(self, rb_intern("transfer"), 1, &loop_fiber);
}

/* Raises in the given fiber like Fiber#raise, and queues the current one. */
static VALUE selector_raise(int argc, VALUE *argv, VALUE self) {
  rb_check_arity(argc, 2, UNLIMITED_ARGUMENTS);
  return pass(self, rb_intern("raise"), argc, argv);
}

static bool anything_ready(struct gyre_selector *selector) { return selector->first < selector->end; }

static VALUE selector_ready_p(VALUE self) { return anything_ready(selector_get(self)) ? Qtrue : Qfalse; }

/* Enters queued fibers. Fibers that are queued meanwhile wait for the next flush. */
static long flush_ready(struct gyre_selector *selector) {
  long count = 0;
  for (uint64_t due = selector->end; selector->first < due;) {
    VALUE fiber = *queue_slot(selector, selector->first++);
    if (NIL_P(fiber)) continue;
    count++;
    enter(fiber);
  }
  return count;
}

/* Enters fibers whose descriptors were reported. */
static long flush_reported(struct gyre_selector *selector) {
  long count = 0;
  GYRE_EACH_TAKEN(struct gyre_selector_wait, wait, &selector->reported, node) {
    gyre_list_append(&selector->waiting, &wait->node);
    count++;
    enter(wait->fiber);
  }
  return count;
}

/* Called before each sleep. A pending interrupt prevents the sleep: Async masks signals during
 * `select`, so a signal would not end the sleep. */
static bool sleeping(struct gyre_loop *loop) {
  struct gyre_selector *selector = GYRE_CONTAINER(loop, struct gyre_selector, loop);
  if (RTEST(rb_funcallv(rb_cThread, rb_intern("pending_interrupt?"), 0, NULL))) return false;
  selector->slept_ns = gyre_timers_now();
  return true;
}

/* True while fibers are ready, for up to ROUNDS_LIMIT rounds and some milliseconds. */
static bool may_skip_the_kernel(struct gyre_selector *selector) {
  if (!anything_ready(selector)) return false;
  int64_t now_ns = gyre_timers_coarse_now();
  if (selector->rounds++ < ROUNDS_LIMIT && now_ns == selector->slice_ns) return true;
  selector->rounds = 0;
  selector->slice_ns = now_ns;
  return false;
}

/* Enters queued fibers, asks the kernel, enters fibers with ready descriptors. If no fiber was
 * queued, sleeps up to `duration` seconds (nil: no limit). Returns the number of ended waits. */
static VALUE selector_select(VALUE self, VALUE duration) {
  struct gyre_selector *selector = selector_opened(self);
  int64_t duration_ns = gyre_duration_ns(duration);
  selector->idle_ns = 0;
  long queued = flush_ready(selector), count = flush_reported(selector);
  if (selector->closed || may_skip_the_kernel(selector)) return LONG2NUM(count);

  bool wait = duration_ns != 0 && !queued && !count && !anything_ready(selector);
  if (wait && duration_ns > 0 &&
      gyre_timers_arm(&selector->loop.timers, &selector->limit, gyre_timers_now() + duration_ns) < 0)
    rb_memerror();
  gyre_loop_poll(&selector->loop, wait);
  if (wait) gyre_timers_cancel(&selector->loop.timers, &selector->limit);
  if (selector->slept_ns) {
    selector->idle_ns = selector->loop.now_ns - selector->slept_ns;
    selector->slept_ns = 0;
  }
  count += flush_reported(selector);
  RB_GC_GUARD(self);
  return LONG2NUM(count);
}

static VALUE selector_idle_duration(VALUE self) { return DBL2NUM((double)selector_get(self)->idle_ns / 1e9); }

/* Ends the sleep of the present or next {#select}. Returns true if the loop was sleeping. Any
 * thread and trap handler may call it. */
static VALUE selector_wakeup(VALUE self) {
  struct gyre_selector *selector = selector_get(self);
  if (selector->closed) return Qfalse;
  if (selector->loop.waiting) {
    gyre_loop_wake(&selector->loop);
    return Qtrue;
  }
  __atomic_store_n(&selector->loop.woken, 1, __ATOMIC_SEQ_CST);
  return Qfalse;
}

/* --- descriptors and processes ---
 *
 * Tries the system call first, whatever the descriptor's mode, and registers a descriptor once
 * (loop.c). This is faster than io-event's selectors. */

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

static VALUE wait_body(VALUE wait) { return selector_leave(((struct gyre_selector_wait *)wait)->selector); }

static VALUE wait_ensure(VALUE argument) {
  struct gyre_selector_wait *wait = (struct gyre_selector_wait *)argument;
  gyre_list_remove(&wait->node);
  gyre_loop_unwatch(&wait->selector->loop, &wait->watch);
  return Qnil;
}

/* Returns ready events, 0 if something else has entered the fiber, or -errno. */
static int wait_for(VALUE self, VALUE fiber, VALUE io, int fd, unsigned events) {
  struct gyre_selector *selector = selector_opened(self);
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

/* Parks until `io` is ready. Returns ready events; false if something else has entered the fiber.
 * Raises IOError if `io` was closed. */
static VALUE selector_io_wait(VALUE self, VALUE fiber, VALUE io, VALUE events) {
  int ready = wait_for(self, fiber, io, rb_io_descriptor(io), NUM2UINT(events));
  if (ready < 0) rb_syserr_fail(-ready, "wait for a descriptor");
  if (ready) rb_io_descriptor(io); /* raises if `io` was closed */
  return ready ? INT2NUM(ready) : Qfalse;
}

struct moving {
  VALUE io, buffer;
  size_t offset, most; /* where the bytes start in the buffer; maximum bytes to move */
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

/* Waits, then fetches descriptor and bytes again: the program may have closed or freed them. */
static int wait_to_move(VALUE self, VALUE fiber, struct moving *moving, unsigned interest) {
  int ready = wait_for(self, fiber, moving->io, moving->fd, interest);
  if (ready < 0) return ready;
  moving->fd = rb_io_descriptor(moving->io);
  return gyre_buffer_bytes(moving->buffer, moving->writes, &moving->bytes) < moving->offset + moving->most ? -EFAULT
                                                                                                           : 0;
}

/* Moves at least `least` bytes; 0: tries once. Returns an error only if no bytes were moved. */
static ssize_t move(VALUE self, VALUE fiber, struct moving *moving, size_t least) {
  unsigned interest = moving->writes ? GYRE_WRITABLE : GYRE_READABLE;
  size_t moved = 0;
  while (moved < moving->most) {
    ssize_t count = move_once(moving, moving->bytes + moving->offset + moved, moving->most - moved);
    if (count == -EAGAIN) {
      gyre_loop_drained(&selector_opened(self)->loop, moving->fd, interest);
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

/* The arguments after `buffer` are least and offset up to Ruby 4.0, offset and most from 4.1. */
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

/* Reads at least `length` bytes; 0: tries once. From Ruby 4.1 the arguments are (…, offset,
 * length), and it tries once to read up to `length`. Returns the count, 0 at the end, or -errno. */
static VALUE selector_io_read(int argc, VALUE *argv, VALUE self) { return move_arguments(self, argc, argv, false); }

/* Writes at least `length` bytes. Otherwise like {#io_read}. */
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
  struct gyre_selector *selector = selector_get(wait->self);
  if (!selector->closed) gyre_loop_forget(&selector->loop, wait->fd);
  close(wait->fd);
  return Qnil;
}

/* Parks until the child has ended. Waits by pidfd (Linux 5.3) or in a thread. Returns false if
 * something else has entered the fiber. */
static VALUE selector_process_wait(VALUE self, VALUE fiber, VALUE pid, VALUE flags) {
  struct process_wait wait = {self, fiber, pid, NUM2INT(flags), -1};
  struct gyre_selector *selector = selector_opened(self);
  if (!(wait.flags & ~WNOHANG)) wait.fd = gyre_child_descriptor(NUM2PIDT(pid));
  if (wait.fd < 0) return rb_funcall(self, rb_intern("process_wait_in_thread"), 2, pid, flags);
  gyre_loop_forget(&selector->loop, wait.fd); /* forgets an earlier file with this number */
  return rb_ensure(process_wait_body, (VALUE)&wait, process_wait_ensure, (VALUE)&wait);
}

void gyre_init_selector(void) {
  VALUE class = gyre_class(rb_define_module_under(gyre_mGyre, "Async"), "Selector", selector_allocate);
  rb_define_method(class, "initialize", selector_initialize, 2);
  rb_define_method(class, "loop", selector_loop, 0);
  rb_define_method(class, "backend", selector_backend, 0);
  rb_define_method(class, "close", selector_close, 0);
  rb_define_method(class, "closed?", selector_closed_p, 0);
  rb_define_method(class, "transfer", selector_transfer, 0);
  rb_define_method(class, "resume", selector_resume, -1);
  rb_define_method(class, "yield", selector_yield, 0);
  rb_define_method(class, "push", selector_push, 1);
  rb_define_method(class, "raise", selector_raise, -1);
  rb_define_method(class, "ready?", selector_ready_p, 0);
  rb_define_method(class, "select", selector_select, 1);
  rb_define_method(class, "idle_duration", selector_idle_duration, 0);
  rb_define_method(class, "wakeup", selector_wakeup, 0);
  gyre_loop_on_io_close(io_is_closed);
  rb_define_method(class, "io_wait", selector_io_wait, 3);
  rb_define_method(class, "io_read", selector_io_read, -1);
  rb_define_method(class, "io_write", selector_io_write, -1);
  rb_define_method(class, "process_wait", selector_process_wait, 3);
}
