/*
 * The connection of the threads that have no loop: they share its pipeline, and one of those that
 * wait reads for all, so there is no thread of its own. When that one has its reply, it wakes the
 * next. A thread that sends while another one reads is written at once.
 *
 * The one that reads, or the next, may be a fiber of another library's scheduler, which can let it
 * go for ever without an exception. So the one that reads runs at least every second, the others
 * look at that after twice as long, and one of them takes its place where it has not. Where there
 * are threads only they need not: a wait with a limit costs half as much again.
 */
#include "memcached/memcached.h"
#include "net/socket_wait.h"

#include <ruby/fiber/scheduler.h>

static ID id_new, id_park, id_wake;

static VALUE new_waiter(void) {
  static VALUE class;
  if (!class) {
    class = rb_path2class("Gyre::Waiter");
    rb_gc_register_mark_object(class);
  }
  return rb_funcall(class, id_new, 0);
}

struct leading {
  struct gyre_memcached_connection *connection;
  struct gyre_memcached_call *call; /* NULL: until there is room */
  uint64_t number;                  /* of the connection's leaders */
};

static bool leads(const struct leading *leading) { return leading->connection->leader == leading->number; }

static bool is_over(const struct leading *leading) {
  const struct gyre_memcached_connection *connection = leading->connection;
  if (leading->call) return leading->call->outstanding == 0;
  return connection->failed || gyre_memcached_connection_has_room(connection);
}

/* One at which an exception of this thread comes is woken again: it stays in the list. */
static void wake_all(VALUE waiters) {
  while (RARRAY_LEN(waiters) > 0) {
    VALUE waiter = RARRAY_AREF(waiters, 0);
    rb_funcall(waiter, id_wake, 0);
    if (RARRAY_LEN(waiters) > 0 && RARRAY_AREF(waiters, 0) == waiter) {
      rb_ary_shift(waiters);
    } else {
      rb_ary_delete(waiters, waiter); /* others have run */
    }
  }
}

static void wake_those_that_are_over(struct gyre_memcached_connection *connection) {
  wake_all(connection->woken);
  if (connection->failed || gyre_memcached_connection_has_room(connection)) wake_all(connection->crowd);
}

static int64_t left_ns(const struct gyre_memcached_connection *connection) {
  if (connection->timeout_ns < 0) return -1;
  int64_t left = connection->moved_ns + connection->timeout_ns - gyre_timers_now();
  return left > 0 ? left : 0;
}

/* Sends what is left and waits until something has come, unless libssl holds some already, or until
 * it is time to run. */
static void wait_for_socket(struct leading *leading) {
  struct gyre_memcached_connection *connection = leading->connection;
  unsigned events = connection->transport->read.wants ? connection->transport->read.wants : GYRE_READABLE;
  if (gyre_transport_unsent(connection->transport)) {
    gyre_memcached_connection_send(connection, true);
    if (gyre_transport_unsent(connection->transport)) events |= connection->transport->write.wants;
  }
  if (connection->failed) return;
  bool held = gyre_transport_pending(connection->transport);
  int64_t timeout_ns = held ? 0 : left_ns(connection);
  int64_t most_ns = gyre_memcached_connection_leads_ns(connection);
  if (timeout_ns < 0 || timeout_ns > most_ns) timeout_ns = most_ns;
  connection->led_ns = gyre_timers_now();
  VALUE io = connection->late.io;
  if (!gyre_socket_is_open(io, connection->transport->fd)) {
    gyre_memcached_connection_fail(connection, GYRE_MEMCACHED_CLOSED);
  } else if (!gyre_socket_wait(io, connection->transport->fd, events, timeout_ns) && !held && leads(leading) &&
             left_ns(connection) == 0) {
    gyre_memcached_connection_expire(connection);
  }
}

static VALUE lead(VALUE argument) {
  struct leading *leading = (struct leading *)argument;
  struct gyre_memcached_connection *connection = leading->connection;
  while (!is_over(leading) && leads(leading)) {
    wait_for_socket(leading);
    if (!leads(leading)) break; /* another one has its place: it was lost for a time */
    if (!connection->failed) gyre_memcached_connection_read(connection);
    wake_those_that_are_over(connection);
  }
  return Qnil;
}

/* The next one reads: the first whose thread waits. */
void gyre_memcached_threads_hand_over(struct gyre_memcached_connection *connection) {
  if (connection->leader) return;
  wake_those_that_are_over(connection);
  for (uint64_t number = connection->head; number != connection->tail; number++) {
    struct gyre_memcached_call *call = connection->entries[number & (connection->capacity - 1)].call;
    if (!call || NIL_P(call->waiter)) continue;
    rb_funcall(call->waiter, id_wake, 0);
    return;
  }
  wake_all(connection->crowd);
}

struct handing_over {
  struct gyre_memcached_connection *connection;
  bool done;
};

static VALUE hand_over(VALUE argument) {
  struct handing_over *handing_over = (struct handing_over *)argument;
  gyre_memcached_threads_hand_over(handing_over->connection);
  handing_over->done = true;
  return Qnil;
}

/* An exception of another thread, or a signal's, may come meanwhile, though this one has its reply:
 * the others wait for it without a limit. */
static VALUE hand_over_again(VALUE argument) {
  return ((struct handing_over *)argument)->done ? Qnil : hand_over(argument);
}

static VALUE stop_leading(VALUE argument) {
  struct leading *leading = (struct leading *)argument;
  if (!leads(leading)) return Qnil;
  leading->connection->leader = 0;
  leading->connection->led_ns = gyre_timers_now(); /* the next one has as long to begin */
  struct handing_over handing_over = {.connection = leading->connection};
  rb_ensure(hand_over, (VALUE)&handing_over, hand_over_again, (VALUE)&handing_over);
  return Qnil;
}

/* Until it is over, this thread is to read, or it is time to look at the one that reads. */
static void follow(struct leading *leading) {
  struct gyre_memcached_connection *connection = leading->connection;
  VALUE waiter = new_waiter();
  if (is_over(leading) || !gyre_memcached_connection_is_led(connection)) return;
  if (leading->call) {
    leading->call->waiter = waiter;
  } else {
    rb_ary_push(connection->crowd, waiter);
  }
  /* An exception: gyre_memcached_call_leave, and the next one reads. */
  VALUE limit_s = Qnil;
  if (connection->guests) limit_s = DBL2NUM((double)gyre_memcached_connection_trusted_ns(connection) / 1e9);
  rb_funcall(waiter, id_park, 1, limit_s);
  if (leading->call) {
    leading->call->waiter = Qnil;
  } else {
    rb_ary_delete(connection->crowd, waiter);
  }
}

/* From now on those that wait have a limit, and so have to begin their waits again. */
static void expect_guests(struct gyre_memcached_connection *connection) {
  connection->guests = true;
  VALUE waiters = rb_ary_new();
  for (uint64_t number = connection->head; number != connection->tail; number++) {
    const struct gyre_memcached_call *call = connection->entries[number & (connection->capacity - 1)].call;
    if (call && !NIL_P(call->waiter)) rb_ary_push(waiters, call->waiter);
  }
  wake_all(waiters); /* lets others run */
  wake_all(connection->crowd);
}

void gyre_memcached_threads_wait(struct gyre_memcached_connection *connection, struct gyre_memcached_call *call) {
  struct leading leading = {.connection = connection, .call = call};
  if (!connection->guests && !NIL_P(rb_fiber_scheduler_current())) expect_guests(connection);
  while (!is_over(&leading)) {
    if (gyre_memcached_connection_is_led(connection)) {
      follow(&leading);
    } else {
      leading.number = connection->leader = ++connection->leaders;
      connection->led_ns = gyre_timers_now();
      rb_ensure(lead, (VALUE)&leading, stop_leading, (VALUE)&leading);
    }
  }
}

/* @api private Of one that has failed: its threads learn of that. */
static VALUE connection_wake_threads(VALUE self) {
  gyre_memcached_threads_hand_over(gyre_memcached_connection_get(self));
  return Qnil;
}

void gyre_init_memcached_threads(void) {
  VALUE module = rb_define_module_under(gyre_mGyre, "Memcached");
  VALUE class = rb_define_class_under(module, "Connection", rb_cObject);
  rb_define_method(class, "wake_threads", connection_wake_threads, 0);
  id_new = rb_intern("new");
  id_park = rb_intern("park");
  id_wake = rb_intern("wake");
}
