/* Reads and writes files without the GVL; accesses IO::Buffer. For scheduler_io.c and
 * selector.c. */
#include "fiber/ruby_io.h"

#include <ruby/io/buffer.h>
#include <ruby/thread.h>

size_t gyre_buffer_bytes(VALUE buffer, bool writes, char **bytes) {
  size_t size;
  if (writes) {
    rb_io_buffer_get_bytes_for_reading(buffer, (const void **)bytes, &size);
  } else {
    rb_io_buffer_get_bytes_for_writing(buffer, (void **)bytes, &size);
  }
  return size;
}

struct file_call {
  int fd;
  char *bytes;
  size_t length;
  off_t from;
  bool writes;
  ssize_t result;
};

static void *call_without_gvl(void *opaque) {
  struct file_call *call = opaque;
  if (call->from >= 0) {
    call->result = call->writes ? pwrite(call->fd, call->bytes, call->length, call->from)
                                : pread(call->fd, call->bytes, call->length, call->from);
  } else {
    call->result =
        call->writes ? write(call->fd, call->bytes, call->length) : read(call->fd, call->bytes, call->length);
  }
  if (call->result < 0) call->result = -errno;
  return NULL;
}

ssize_t gyre_file_call(int fd, char *bytes, size_t length, off_t from, bool writes) {
  struct file_call call = {fd, bytes, length, from, writes, 0};
  do {
    rb_nogvl(call_without_gvl, &call, RUBY_UBF_IO, NULL, 0);
  } while (call.result == -EINTR);
  return call.result;
}
