/* Reads files in a thread of Gyre::Offload, for scheduler_io.c. The thread uses its own memory, as
 * it may outlive the wait and the buffer. */
#include "feature.h"
#include "fiber/ruby_io.h"
#include "fiber/scheduler.h"

#include <errno.h>

static VALUE read_class;

struct thread_read {
  VALUE io;
  int fd;
  off_t offset;
  size_t length;
  ssize_t result;
  char bytes[];
};

static void thread_read_mark(void *opaque) { rb_gc_mark(((struct thread_read *)opaque)->io); }

static size_t thread_read_size(const void *opaque) {
  return sizeof(struct thread_read) + ((const struct thread_read *)opaque)->length;
}

GYRE_TYPE(thread_read_type, "Gyre::Scheduler::Read", thread_read_mark, RUBY_DEFAULT_FREE, thread_read_size, 0);

static struct thread_read *get(VALUE self) { return rb_check_typeddata(self, &thread_read_type); }

/* Runs in the thread, maybe after the descriptor was reused. */
static VALUE thread_read_call(VALUE self) {
  struct thread_read *read = get(self);
  if (RTEST(rb_funcallv(read->io, rb_intern("closed?"), 0, NULL))) return Qnil;
  read->result = gyre_file_call(read->fd, read->bytes, read->length, read->offset, false);
  RB_GC_GUARD(self);
  return Qnil;
}

VALUE gyre_read_in_thread(VALUE io, int fd, off_t offset, size_t length) {
  struct thread_read *read = xmalloc(sizeof(*read) + length);
  *read = (struct thread_read){.io = io, .fd = fd, .offset = offset, .length = length, .result = -EBADF};
  VALUE self = TypedData_Wrap_Struct(read_class, &thread_read_type, read);
  rb_funcall(rb_const_get(gyre_mGyre, rb_intern("Offload")), rb_intern("run"), 1, self);
  return self;
}

ssize_t gyre_thread_read_result(VALUE self, const char **bytes) {
  struct thread_read *read = get(self);
  *bytes = read->bytes;
  return read->result;
}

void gyre_thread_read_free(VALUE self) {
  struct thread_read *read = get(self);
  RTYPEDDATA_DATA(self) = NULL;
  xfree(read);
}

void gyre_init_scheduler_read(void) {
  read_class = rb_define_class_under(gyre_cScheduler, "Read", rb_cObject);
  rb_undef_alloc_func(read_class);
  rb_define_method(read_class, "call", thread_read_call, 0);
  rb_funcall(gyre_cScheduler, rb_intern("private_constant"), 1, ID2SYM(rb_intern("Read")));
}
