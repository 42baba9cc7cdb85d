/* Drives the connection of threads without a loop. One waiting thread reads for all; when it has
 * its reply, the next thread reads. Commands are written at once.
 *
 * For a fiber of another library's scheduler, a thread of Gyre::Offload waits: that scheduler may
 * drop the fiber, so the lists must not have entries on the fiber's stack. */
#include "loop/forks.h"
#include "memcached/memcached.h"
#include "net/socket_wait.h"

#include <ruby/fiber/scheduler.h>

/* Limit of a wait of the main thread: a trap handler may interrupt it and read the awaited reply;
 * then Ruby resumes the wait, which nothing else may end. */
#define TRAP_NS INT64_C(50000000)

/* Returns the time left for the next reply; -1: no limit. */
static int64_t left_ns(const struct gyre_memcached_connection *connection) {
  if (connection->timeout_ns < 0) return -1;
  int64_t left = connection->moved_ns + connection->timeout_ns - gyre_timers_now();
  return left > 0 ? left : 0;
}

/* Sends unsent bytes, and waits for input unless TLS holds some. True if the caller must read. */
static bool wait_for_socket(const struct gyre_memcached_reader *reader) {
  struct gyre_memcached_connection *connection = reader->connection;
  struct gyre_transport *transport = connection->transport;
  unsigned events = transport->read.wants ? transport->read.wants : GYRE_READABLE;
  if (gyre_transport_unsent(transport)) {
    uint64_t sent = transport->sent_bytes;
    gyre_memcached_connection_send(connection, true);
    if (transport->sent_bytes != sent) connection->moved_ns = gyre_timers_now();
    if (gyre_transport_unsent(transport)) events |= transport->write.wants;
  }
  if (connection->failed) return false;
  bool held = gyre_transport_pending(transport);
  int64_t timeout_ns = held ? 0 : left_ns(connection);
  if (reader->thread == rb_thread_main() && (timeout_ns < 0 || timeout_ns > TRAP_NS)) timeout_ns = TRAP_NS;
  if (!gyre_socket_is_open(connection->io, transport->fd)) {
    gyre_memcached_connection_fail(connection, rb_intern("closed"), "the client was closed");
  } else if (gyre_socket_wait(connection->io, transport->fd, events, timeout_ns) || held) {
    return !connection->failed;
  } else if (left_ns(connection) == 0) {
    gyre_memcached_connection_expire(connection);
  }
  return false;
}

static VALUE read_or_sleep(VALUE argument) {
  struct gyre_memcached_reader *reader = (struct gyre_memcached_reader *)argument;
  struct gyre_memcached_connection *connection = reader->connection;
  do {
    const struct gyre_memcached_reader *reading = connection->on_threads.reading;
    if (reading && reading->thread != reader->thread) { /* another thread reads */
      if (gyre_list_empty(&reader->node)) gyre_list_append(&connection->on_threads.sleeping, &reader->node);
      rb_thread_sleep_forever();
    } else {
      connection->on_threads.reading = reader;
      if (wait_for_socket(reader)) gyre_memcached_connection_read(connection);
      gyre_memcached_connection_wake_threads(connection);
    }
  } while (!gyre_memcached_is_over(connection, reader->call));
  return Qnil;
}

/* Also runs when the thread is killed, so that another thread reads. */
static VALUE leave(VALUE argument) {
  struct gyre_memcached_reader *reader = (struct gyre_memcached_reader *)argument;
  struct gyre_memcached_connection *connection = reader->connection;
  /* In a forked child, the lists have entries on stacks that are gone. */
  if (connection->on_loop.client.forks != gyre_forks) return Qnil;
  gyre_list_remove(&reader->node);
  if (connection->on_threads.reading == reader) connection->on_threads.reading = NULL;
  gyre_memcached_connection_wake_threads(connection);
  return Qnil;
}

void gyre_memcached_threads_wait(struct gyre_memcached_connection *connection, const struct gyre_memcached_call *call) {
  struct gyre_memcached_reader reader = {.connection = connection, .call = call, .thread = rb_thread_current()};
  if (gyre_memcached_is_over(connection, call)) return;
  if (!NIL_P(rb_fiber_scheduler_current())) {
    rb_funcall(connection->self, rb_intern("wait_beside"), 1, call ? call->owner : Qnil);
    return;
  }
  gyre_list_init(&reader.node);
  rb_ensure(read_or_sleep, (VALUE)&reader, leave, (VALUE)&reader);
}

/* Called in a thread of Gyre::Offload. Waits for the call; if `call` is nil, for room. */
static VALUE connection_wait(VALUE self, VALUE call) {
  const struct gyre_memcached_call *waited = NIL_P(call) ? NULL : gyre_memcached_call_get(call);
  gyre_memcached_threads_wait(gyre_memcached_connection_get(self), waited);
  RB_GC_GUARD(call);
  return Qnil;
}

void gyre_init_memcached_threads(void) {
  VALUE class = rb_define_class_under(rb_define_module_under(gyre_mGyre, "Memcached"), "Connection", rb_cObject);
  rb_define_private_method(class, "wait", connection_wait, 1);
}
