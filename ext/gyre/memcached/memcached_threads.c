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

static ID id_new, id_park, id_wake, id_io_wait;

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
  int64_t until_ns;                 /* -1: without a limit */
  uint64_t number;                  /* of the connection's leaders */
};

static bool leads(const struct leading *leading) { return leading->connection->leader == leading->number; }

static bool is_over(const struct leading *leading) {
  const struct gyre_memcached_connection *connection = leading->connection;
  if (leading->call) return leading->call->outstanding == 0;
  return connection->failed || gyre_memcached_connection_has_room(connection);
}

/* So long this thread still waits; -1: without a limit. */
static int64_t patience_ns(const struct leading *leading) {
  if (leading->until_ns < 0) return -1;
  int64_t left = leading->until_ns - gyre_timers_now();
  return left > 0 ? left : 0;
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

/* As gyre_socket_wait. On Ruby 4.0 rb_io_wait puts each wait, which stands on the fiber's stack,
 * into a list of the IO: its close would read what is left of a fiber that was let go. */
static bool wait_for_events(VALUE io, int fd, unsigned events, int64_t timeout_ns) {
  VALUE scheduler = rb_fiber_scheduler_current();
  if (NIL_P(scheduler) || gyre_socket_scheduler()) return gyre_socket_wait(io, fd, events, timeout_ns);
  return RTEST(rb_funcall(scheduler, id_io_wait, 3, io, UINT2NUM(events), DBL2NUM((double)timeout_ns / 1e9)));
}

/* Sends what is left and waits until something has come, unless libssl holds some already, or until
 * it is time to run. */
static void wait_for_socket(struct leading *leading) {
  struct gyre_memcached_connection *connection = leading->connection;
  unsigned events = connection->transport->read.wants ? connection->transport->read.wants : GYRE_READABLE;
  if (gyre_transport_unsent(connection->transport)) {
    uint64_t sent = connection->transport->sent_bytes;
    gyre_memcached_connection_send(connection, true);
    if (connection->transport->sent_bytes != sent) connection->moved_ns = gyre_timers_now(); /* it takes them */
    if (gyre_transport_unsent(connection->transport)) events |= connection->transport->write.wants;
  }
  if (connection->failed) return;
  bool held = gyre_transport_pending(connection->transport);
  int64_t timeout_ns = held ? 0 : left_ns(connection);
  int64_t most_ns = gyre_memcached_connection_leads_ns(connection), patience = patience_ns(leading);
  if (patience >= 0 && patience < most_ns) most_ns = patience;
  if (timeout_ns < 0 || timeout_ns > most_ns) timeout_ns = most_ns;
  connection->led_ns = gyre_timers_now();
  VALUE io = connection->late.io;
  if (!gyre_socket_is_open(io, connection->transport->fd)) {
    gyre_memcached_connection_fail(connection, GYRE_MEMCACHED_CLOSED);
  } else if (!wait_for_events(io, connection->transport->fd, events, timeout_ns) && !held && leads(leading) &&
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
    if (patience_ns(leading) == 0) break;
  }
  return Qnil;
}

/* The next one reads: the first whose thread waits. */
void gyre_memcached_threads_hand_over(struct gyre_memcached_connection *connection) {
  if (connection->leader) return;
  wake_those_that_are_over(connection);
  for (uint64_t number = connection->head; number != connection->tail; number++) {
    struct gyre_memcached_call *call = connection->entries[number & (connection->capacity - 1)].call;
    if (!call || NIL_P(call->waiters) || RARRAY_LEN(call->waiters) == 0) continue;
    rb_funcall(RARRAY_AREF(call->waiters, 0), id_wake, 0);
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

struct following {
  int64_t limit_ns; /* -1: none */
  VALUE list, waiter;
};

static VALUE park(VALUE argument) {
  struct following *following = (struct following *)argument;
  VALUE limit_s = following->limit_ns < 0 ? Qnil : DBL2NUM((double)following->limit_ns / 1e9);
  return rb_funcall(following->waiter, id_park, 1, limit_s);
}

static VALUE stop_following(VALUE argument) {
  struct following *following = (struct following *)argument;
  rb_ary_delete(following->list, following->waiter);
  return Qnil;
}

/* Until it is over, this thread is to read, or it is time to look at the one that reads. */
static void follow(struct leading *leading) {
  struct gyre_memcached_connection *connection = leading->connection;
  struct gyre_memcached_call *call = leading->call;
  VALUE waiter = new_waiter();
  if (call && NIL_P(call->waiters)) call->waiters = rb_ary_new();
  if (is_over(leading) || !gyre_memcached_connection_is_led(connection)) return;
  int64_t limit_ns = patience_ns(leading);
  if (connection->guests) {
    int64_t trusted_ns = gyre_memcached_connection_trusted_ns(connection);
    if (limit_ns < 0 || trusted_ns < limit_ns) limit_ns = trusted_ns > 0 ? trusted_ns : 0;
  }
  struct following following = {limit_ns, call ? call->waiters : connection->crowd, waiter};
  rb_ary_push(following.list, waiter);
  rb_ensure(park, (VALUE)&following, stop_following, (VALUE)&following);
}

/* From now on those that wait have a limit, and so have to begin their waits again. */
static void expect_guests(struct gyre_memcached_connection *connection) {
  connection->guests = true;
  VALUE waiters = rb_ary_new();
  for (uint64_t number = connection->head; number != connection->tail; number++) {
    const struct gyre_memcached_call *call = connection->entries[number & (connection->capacity - 1)].call;
    if (call && !NIL_P(call->waiters)) rb_ary_concat(waiters, call->waiters);
  }
  wake_all(waiters); /* lets others run */
  wake_all(connection->crowd);
}

void gyre_memcached_threads_wait(struct gyre_memcached_connection *connection, struct gyre_memcached_call *call,
                                 int64_t until_ns) {
  struct leading leading = {.connection = connection, .call = call, .until_ns = until_ns};
  if (!connection->guests && !NIL_P(rb_fiber_scheduler_current())) expect_guests(connection);
  do {
    if (is_over(&leading)) return;
    if (gyre_memcached_connection_is_led(connection)) {
      follow(&leading);
    } else {
      leading.number = connection->leader = ++connection->leaders;
      connection->led_ns = gyre_timers_now();
      rb_ensure(lead, (VALUE)&leading, stop_leading, (VALUE)&leading);
    }
  } while (patience_ns(&leading) != 0);
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
  id_io_wait = rb_intern("io_wait");
}
