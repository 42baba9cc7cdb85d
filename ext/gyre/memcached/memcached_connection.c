/*
 * The pipeline of one home to one memcached (see memcached.h): commands are queued behind each
 * other, leave together at the end of the loop's turn, and replies are matched in order. On a loop,
 * this file is all of it; the threads' connection is driven by memcached_threads.c. It never waits,
 * and connects nowhere.
 */
#include "loop/forks.h"
#include "memcached/memcached.h"
#include "net/net.h"
#include "net/socket_wait.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_ENTRIES 64
#define READ_AHEAD_BYTES (1 << 20)  /* reserved at once for a value that is to come */
#define LOOK_NS INT64_C(1000000000) /* unused for so long, it may have been closed by the server */
#define LEADS_NS LOOK_NS            /* for so long at most the thread that reads for all waits */
#define LINES_LIMIT 65536           /* of one reply: statistics, refusals of a group */
#define RECEPTIONS 16               /* before others have their turn */

static VALUE connection_class;

/* --- memory --- */

static void connection_mark(void *opaque) {
  const struct gyre_memcached_connection *connection = opaque;
  rb_gc_mark(connection->self); /* pinned: C keeps its address */
  rb_gc_mark(connection->transport_object);
  rb_gc_mark(connection->scheduler_object);
  rb_gc_mark(connection->name);
  rb_gc_mark(connection->woken);
  rb_gc_mark(connection->crowd);
  VALUE last = Qnil;
  if (connection->forks != gyre_forks) return; /* a child has no stacks of other threads */
  for (uint64_t number = connection->head; number != connection->tail; number++) {
    const struct gyre_memcached_call *call = connection->entries[number & (connection->capacity - 1)].call;
    if (call && call->owner != last) rb_gc_mark(last = call->owner);
  }
}

/* One that is in a loop's lists is marked by its scheduler: both are garbage then, and those lists
 * may be gone. */
static void connection_free(void *opaque) {
  struct gyre_memcached_connection *connection = opaque;
  gyre_deferred_cancel(&connection->late.deferred); /* the loop's end walks that list */
  free(connection->entries);
  xfree(connection);
}

static size_t connection_size(const void *opaque) {
  const struct gyre_memcached_connection *connection = opaque;
  return sizeof(*connection) + connection->capacity * sizeof(*connection->entries);
}

static const rb_data_type_t connection_type = {
    .wrap_struct_name = "Gyre::Memcached::Connection",
    .function = {.dmark = connection_mark, .dfree = connection_free, .dsize = connection_size},
    .flags = RUBY_TYPED_FREE_IMMEDIATELY,
};

static VALUE connection_allocate(VALUE class) {
  struct gyre_memcached_connection *connection;
  VALUE self = TypedData_Make_Struct(class, struct gyre_memcached_connection, &connection_type, connection);
  connection->self = self;
  connection->transport_object = connection->scheduler_object = connection->name = Qnil;
  connection->woken = connection->crowd = Qnil;
  connection->failed = true;
  connection->watch.fd = -1;
  gyre_list_init(&connection->room);
  gyre_list_init(&connection->client.node);
  gyre_list_init(&connection->closing.node);
  gyre_list_init(&connection->late.deferred.node);
  return self;
}

struct gyre_memcached_connection *gyre_memcached_connection_get(VALUE connection) {
  return rb_check_typeddata(connection, &connection_type);
}

/* --- the loop --- */

/* While replies are to come, a virtual clock does not jump. */
static void set_waits(struct gyre_memcached_connection *connection, bool waits) {
  if (!connection->scheduler || connection->waits == waits) return;
  connection->waits = waits;
  connection->scheduler->loop.outside += waits ? 1 : (unsigned)-1;
}

static void unlink_from_loop(struct gyre_memcached_connection *connection) {
  if (!connection->linked) return;
  struct gyre_loop *loop = &connection->scheduler->loop;
  if (loop->expected == &connection->busy) loop->expected = NULL;
  gyre_late_send_stop(&connection->late);
  gyre_loop_unwatch(loop, &connection->watch);
  if (gyre_timer_armed(&connection->timer)) gyre_timers_cancel(&loop->timers, &connection->timer);
  gyre_list_remove(&connection->client.node);
  gyre_list_remove(&connection->closing.node);
  set_waits(connection, false);
  connection->linked = false;
}

static int arm(struct gyre_memcached_connection *connection, int64_t now_ns) {
  int64_t in_ns = connection->timeout_ns < 0 || connection->timeout_ns > LOOK_NS ? LOOK_NS : connection->timeout_ns;
  return gyre_timers_arm(&connection->scheduler->loop.timers, &connection->timer, now_ns + in_ns);
}

/* It stays there for a while when it has nothing to do, so that one command after the other costs
 * no more than its own bytes. */
static bool link_to_loop(struct gyre_memcached_connection *connection) {
  struct gyre_loop *loop = &connection->scheduler->loop;
  int error = gyre_loop_watch(loop, &connection->watch, connection->transport->fd, GYRE_READABLE);
  if (error == 0) error = arm(connection, gyre_loop_now(loop));
  if (error < 0) {
    gyre_loop_unwatch(loop, &connection->watch);
    return false;
  }
  gyre_list_append(&connection->scheduler->clients, &connection->client.node);
  connection->linked = true;
  return true;
}

static void on_ready(struct gyre_loop *loop, struct gyre_watch *watch, unsigned ready) {
  struct gyre_memcached_connection *connection = GYRE_CONTAINER(watch, struct gyre_memcached_connection, watch);
  (void)loop;
  if (ready & GYRE_READ_ENDED) connection->ended = true;
  gyre_memcached_connection_read(connection);
}

static int64_t now_of(const struct gyre_memcached_connection *connection) {
  return connection->scheduler ? gyre_loop_coarse_now(&connection->scheduler->loop) : gyre_timers_coarse_now();
}

/* The server has time for its next reply from when that command leaves: a loop that computes may
 * have kept it for longer. What is taken part by part leaves until its last one. */
static void on_sending(struct gyre_memcached_connection *connection, bool again) {
  if (again || connection->head >= connection->offered) connection->moved_ns = now_of(connection);
  connection->offered = connection->tail;
}

static void on_late_sending(struct gyre_late_send *late, bool again) {
  on_sending(GYRE_CONTAINER(late, struct gyre_memcached_connection, late), again);
}

/* One timer for all: a server that has replies to give and gives none for so long has failed; a
 * connection that nothing uses leaves the loop; what was held back for so long is sent. */
static void on_time(struct gyre_timer *timer, void *context) {
  struct gyre_memcached_connection *connection = GYRE_CONTAINER(timer, struct gyre_memcached_connection, timer);
  struct gyre_loop *loop = context;
  int64_t now_ns = gyre_loop_now(loop);
  if (!gyre_memcached_pending(connection)) {
    if (now_ns - connection->used_ns >= LOOK_NS) {
      unlink_from_loop(connection);
      return;
    }
  } else if (connection->head >= connection->offered) {
    gyre_memcached_connection_send(connection, true);
    if (connection->failed) return;
  } else if (connection->timeout_ns >= 0) {
    int64_t left_ns = connection->moved_ns + connection->timeout_ns - now_ns;
    if (left_ns <= 0) {
      gyre_memcached_connection_expire(connection);
      return;
    }
    if (left_ns < LOOK_NS) {
      (void)gyre_timers_arm(&loop->timers, timer, now_ns + left_ns);
      return;
    }
  }
  (void)arm(connection, now_ns);
}

static void mark_client(struct gyre_client *client) {
  rb_gc_mark(GYRE_CONTAINER(client, struct gyre_memcached_connection, client)->self);
}

static void on_closing(struct gyre_client *client) {
  gyre_memcached_connection_fail(GYRE_CONTAINER(client, struct gyre_memcached_connection, client),
                                 "its loop was closed");
}

/* The calls are the parent's; those of this child's own fiber cannot wait here while it forks. */
static void on_fork(struct gyre_client *client) {
  struct gyre_memcached_connection *connection = GYRE_CONTAINER(client, struct gyre_memcached_connection, client);
  connection->head = connection->tail;
  if (connection->scheduler->loop.expected == &connection->busy) connection->scheduler->loop.expected = NULL;
  connection->watch.fd = -1;
  connection->timer.place = 0;
  gyre_list_init(&connection->room);
  gyre_list_init(&connection->closing.node);
  gyre_list_remove(&connection->client.node);
  connection->linked = connection->waits = false;
  gyre_memcached_connection_forked(connection);
}

void gyre_memcached_connection_forked(struct gyre_memcached_connection *connection) {
  connection->failed = true;
  snprintf(connection->reason, sizeof(connection->reason), "it was started before a fork, in the parent process");
}

/* For Process.daemon: its fibers go on there, with this connection. */
static void on_move(struct gyre_client *client) {
  GYRE_CONTAINER(client, struct gyre_memcached_connection, client)->forks = gyre_forks;
}

static void on_foreign_close(struct gyre_scheduler *scheduler, struct gyre_post *post) {
  (void)scheduler;
  gyre_memcached_connection_fail(GYRE_CONTAINER(post, struct gyre_memcached_connection, closing),
                                 GYRE_MEMCACHED_CLOSED);
}

bool gyre_memcached_connection_usable(const struct gyre_memcached_connection *connection) {
  return !connection->failed && connection->forks == gyre_forks;
}

/* --- failing --- */

static void finish(struct gyre_memcached_connection *connection, struct gyre_memcached_call *call) {
  call->outstanding = 0;
  if (call->wait) {
    gyre_wake(call->wait->scheduler, &call->wait->parked);
  } else if (!NIL_P(call->waiters)) {
    rb_ary_concat(connection->woken, call->waiters);
  }
}

static void wake_for_room(struct gyre_memcached_connection *connection) {
  while (!gyre_list_empty(&connection->room)) {
    struct gyre_memcached_room *room = GYRE_CONTAINER(connection->room.next, struct gyre_memcached_room, node);
    gyre_list_remove(&room->node);
    gyre_wake(room->wait->scheduler, &room->wait->parked);
  }
}

void gyre_memcached_connection_fail(struct gyre_memcached_connection *connection, const char *reason) {
  if (connection->failed) return;
  connection->failed = true;
  snprintf(connection->reason, sizeof(connection->reason), "%s", reason);
  if (connection->scheduler) unlink_from_loop(connection);
  uint64_t sent = connection->transport->sent_bytes;
  while (connection->head != connection->tail) {
    struct gyre_memcached_call *call = connection->entries[connection->head++ & (connection->capacity - 1)].call;
    if (!call || call->failed) continue;
    call->failed = true;
    call->unsent = call->start >= sent;
    finish(connection, call);
  }
  wake_for_room(connection);
}

void gyre_memcached_connection_expire(struct gyre_memcached_connection *connection) {
  char reason[64];
  snprintf(reason, sizeof(reason), "no reply within %g s", (double)connection->timeout_ns / 1e9);
  gyre_memcached_connection_fail(connection, reason);
}

static void fail_with(struct gyre_memcached_connection *connection, int error) {
  gyre_memcached_connection_fail(connection, strerror(-error));
}

/* --- queueing --- */

bool gyre_memcached_connection_has_room(const struct gyre_memcached_connection *connection) {
  return gyre_memcached_pending(connection) < GYRE_MEMCACHED_PENDING_LIMIT &&
         gyre_bytes_held(connection->transport->output) < GYRE_MEMCACHED_OUTPUT_BYTES;
}

/* An idle connection that the server has closed, or on which it has sent what nothing asked for. */
static bool look(struct gyre_memcached_connection *connection) {
  char byte;
  ssize_t count =
      gyre_transport_available(connection->transport) ? 1 : gyre_transport_receive(connection->transport, &byte, 1);
  if (count == -EAGAIN) return true;
  gyre_memcached_connection_fail(connection, count == 0  ? "the server has closed the connection"
                                             : count > 0 ? "the server has sent what nothing asked for"
                                                         : strerror((int)-count));
  return false;
}

/* With the first of several commands. */
static bool begin(struct gyre_memcached_connection *connection) {
  if (!connection->linked && now_of(connection) - connection->used_ns >= LOOK_NS && !look(connection)) return false;
  if (connection->scheduler && !connection->linked) {
    gyre_loop_drained(&connection->scheduler->loop, connection->transport->fd, GYRE_READABLE);
    if (!link_to_loop(connection)) {
      gyre_memcached_connection_fail(connection, "the loop cannot watch its socket");
      return false;
    }
  }
  return true;
}

char *gyre_memcached_connection_reserve(struct gyre_memcached_connection *connection, size_t length) {
  if (connection->failed) return NULL;
  if (connection->head == connection->tail && !begin(connection)) return NULL;
  if (connection->transport->write.state != GYRE_SIDE_OPEN) {
    fail_with(connection,
              connection->transport->write.state == GYRE_SIDE_FAILED ? connection->transport->write.error : -EPIPE);
    return NULL;
  }
  return gyre_bytes_reserve(&connection->transport->output, length);
}

static bool grow(struct gyre_memcached_connection *connection) {
  uint32_t capacity = connection->capacity ? connection->capacity * 2 : FIRST_ENTRIES;
  struct gyre_memcached_entry *entries = malloc(capacity * sizeof(*entries));
  if (!entries) return false;
  for (uint64_t number = connection->head; number != connection->tail; number++)
    entries[number & (capacity - 1)] = connection->entries[number & (connection->capacity - 1)];
  free(connection->entries);
  connection->entries = entries;
  connection->capacity = capacity;
  return true;
}

int gyre_memcached_connection_queue(struct gyre_memcached_connection *connection, struct gyre_memcached_call *call,
                                    enum gyre_memcached_verb verb, uint32_t index, size_t length) {
  struct gyre_transport *transport = connection->transport;
  if (call) {
    if (gyre_memcached_pending(connection) == connection->capacity && !grow(connection)) return -ENOMEM;
    if (!call->connection) {
      call->connection = connection;
      call->first = connection->tail;
      if (call->kind != GYRE_MEMCACHED_QUIET) call->start = transport->sent_bytes + gyre_bytes_held(transport->output);
    }
    call->outstanding++;
    connection->entries[connection->tail++ & (connection->capacity - 1)] =
        (struct gyre_memcached_entry){.call = call, .verb = (uint8_t)verb, .index = index};
  }
  transport->output->length += (uint32_t)length;
  return 0;
}

/* --- sending --- */

void gyre_memcached_connection_send(struct gyre_memcached_connection *connection, bool alone) {
  if (connection->failed) return;
  if (gyre_memcached_pending(connection)) set_waits(connection, true);
  if (alone || !connection->scheduler || gyre_bytes_held(connection->transport->output) >= GYRE_LENT_BYTES) {
    on_sending(connection, false);
    int error = gyre_transport_flush(connection->transport);
    if (error == 0) return;
    if (error != -EAGAIN) {
      fail_with(connection, error);
      return;
    }
  }
  if (connection->scheduler) gyre_late_send_begin(&connection->late, connection->self, connection->scheduler);
}

/* --- receiving --- */

#define MAY(code) (1u << GYRE_MEMCACHED_##code)
#define ERRORS (MAY(SERVER_ERROR) | MAY(CLIENT_ERROR) | MAY(ERROR))

/* After a refused value the server may have taken it for commands: only SERVER_ERROR swallows
 * it. */
static const unsigned may_follow[] = {
    [GYRE_MEMCACHED_VERB_MG] = MAY(VA) | MAY(HD) | MAY(EN) | ERRORS,
    [GYRE_MEMCACHED_VERB_MS] = MAY(HD) | MAY(NS) | MAY(EX) | MAY(NF) | MAY(SERVER_ERROR),
    [GYRE_MEMCACHED_VERB_MD] = MAY(HD) | MAY(NF) | MAY(EX) | ERRORS,
    [GYRE_MEMCACHED_VERB_MA] = MAY(VA) | MAY(HD) | MAY(NF) | MAY(NS) | MAY(EX) | ERRORS,
    [GYRE_MEMCACHED_VERB_MN] = MAY(MN) | MAY(HD) | MAY(NS) | MAY(EX) | MAY(NF) | MAY(SERVER_ERROR),
    [GYRE_MEMCACHED_VERB_STATS] = MAY(STAT) | MAY(END) | MAY(RESET) | ERRORS,
    [GYRE_MEMCACHED_VERB_WORD] = MAY(OK) | MAY(VERSION) | MAY(STORED) | MAY(MN) | ERRORS,
};

/* Of several lines, this is not the last one. */
static bool goes_on(const struct gyre_memcached_entry *entry, const struct gyre_memcached_reply *reply) {
  if (entry->verb == GYRE_MEMCACHED_VERB_MN) return reply->code != GYRE_MEMCACHED_MN;
  return reply->code == GYRE_MEMCACHED_STAT;
}

static bool refuse(struct gyre_memcached_connection *connection, const struct gyre_memcached_reply *reply,
                   const char *bytes, size_t length) {
  char reason[sizeof(connection->reason)], shown[49];
  size_t count = 0;
  for (size_t i = 0; i < length && count < sizeof(shown) - 1 && bytes[i] != '\r' && bytes[i] != '\n'; i++)
    shown[count++] = bytes[i] >= 0x20 && bytes[i] < 0x7f ? bytes[i] : '?';
  shown[count] = 0;
  snprintf(reason, sizeof(reason), "broken reply: %s: \"%s\"", reply->text, shown);
  gyre_memcached_connection_fail(connection, reason);
  return false;
}

/* Hands out the replies that are whole. How many bytes those were; -1: it has failed. */
static ssize_t take(struct gyre_memcached_connection *connection, const char *bytes, size_t length) {
  size_t used = 0;
  connection->wanted = 0;
  connection->taking = true; /* until the end: an exception (no memory) leaves it out of step */
  while (used < length) {
    struct gyre_memcached_reply reply;
    size_t wanted;
    ssize_t count = gyre_memcached_parse(&reply, bytes + used, length - used, &wanted);
    if (count == 0) {
      connection->wanted = wanted;
      break;
    }
    struct gyre_memcached_entry *entry = &connection->entries[connection->head & (connection->capacity - 1)];
    if (count > 0 && connection->head == connection->tail) {
      reply.text = "nothing asked for it";
      count = -1;
    } else if (count > 0 && !(may_follow[entry->verb] & 1u << reply.code)) {
      reply.text = "it does not fit its command";
      count = -1;
    }
    if (count < 0) return refuse(connection, &reply, bytes + used, length - used), -1;
    used += (size_t)count;
    struct gyre_memcached_call *call = entry->call;
    bool last = !goes_on(entry, &reply);
    uint32_t index = entry->index;
    if (!last && ++entry->index > LINES_LIMIT) {
      reply.text = "too many lines for one command";
      return refuse(connection, &reply, bytes + used - count, (size_t)count), -1;
    }
    if (call) gyre_memcached_call_take(call, &reply, index);
    if (last) connection->head++;
    if (call && last && --call->outstanding == 0) finish(connection, call);
  }
  connection->taking = false;
  return (ssize_t)used;
}

/* Takes what the input has, as far as it is whole. */
static bool take_input(struct gyre_memcached_connection *connection) {
  struct gyre_transport *transport = connection->transport;
  if (gyre_transport_available(transport) < connection->wanted) return true;
  ssize_t used = take(connection, gyre_transport_input(transport), gyre_transport_available(transport));
  if (used < 0) return false;
  gyre_transport_consume(transport, (size_t)used);
  return true;
}

/* Where a value is to come, its room is made at once, so that it is not moved again and again. */
static bool make_room(struct gyre_memcached_connection *connection) {
  size_t available = gyre_transport_available(connection->transport), wanted = connection->wanted;
  if (wanted <= available) return true;
  size_t room = wanted - available < READ_AHEAD_BYTES ? wanted - available : READ_AHEAD_BYTES;
  return room < GYRE_LENT_BYTES || gyre_bytes_reserve(&connection->transport->input, room) != NULL;
}

static ssize_t receive(struct gyre_memcached_connection *connection) {
  struct gyre_transport *transport = connection->transport;
  if (transport->input) {
    if (!make_room(connection)) return -ENOMEM;
    ssize_t count = gyre_transport_fill(transport);
    return count > 0 && !take_input(connection) ? 0 : count;
  }
  char *bytes = gyre_lent_plain();
  if (!bytes) return -ENOMEM;
  ssize_t count = gyre_transport_receive(transport, bytes, GYRE_LENT_BYTES);
  if (count <= 0) return count;
  ssize_t used = take(connection, bytes, (size_t)count);
  if (used < 0) return 0;
  if (used < count && gyre_transport_keep(transport, bytes + used, (size_t)(count - used)) < 0) return -ENOMEM;
  return count;
}

static void watch_for(struct gyre_memcached_connection *connection, unsigned wants) {
  if (!connection->linked) return;
  struct gyre_loop *loop = &connection->scheduler->loop;
  gyre_loop_drained(loop, connection->transport->fd, wants);
  if (connection->watch.fd >= 0 && connection->watch.interest == wants) return;
  gyre_loop_unwatch(loop, &connection->watch);
  int error = gyre_loop_watch(loop, &connection->watch, connection->transport->fd, wants);
  if (error < 0) fail_with(connection, error);
}

void gyre_memcached_connection_read(struct gyre_memcached_connection *connection) {
  struct gyre_transport *transport = connection->transport;
  if (connection->failed) return;
  if (connection->taking) {
    fail_with(connection, -ENOMEM);
    return;
  }
  for (int i = 0;; i++) {
    if (i == RECEPTIONS) { /* a thread asks again by itself */
      if (connection->linked) gyre_loop_report_again(&connection->scheduler->loop, &connection->watch, GYRE_READABLE);
      break;
    }
    ssize_t count = receive(connection);
    if (connection->failed) return;
    if (count == -EAGAIN) {
      watch_for(connection, transport->read.wants);
      break;
    }
    if (count == 0) {
      gyre_memcached_connection_fail(connection, "the server has closed the connection");
      return;
    }
    if (count < 0) {
      fail_with(connection, (int)count);
      return;
    }
    /* What comes next is a new edge; but an end that was reported already is none. */
    if (!connection->ended && gyre_transport_emptied(transport, (size_t)count, GYRE_LENT_BYTES)) {
      watch_for(connection, GYRE_READABLE);
      break;
    }
  }
  connection->moved_ns = now_of(connection);
  if (!gyre_memcached_pending(connection)) {
    connection->used_ns = connection->moved_ns;
    set_waits(connection, false);
  }
  if (!gyre_list_empty(&connection->room) && gyre_memcached_pending(connection) <= GYRE_MEMCACHED_PENDING_LIMIT / 2 &&
      gyre_bytes_held(transport->output) <= GYRE_MEMCACHED_OUTPUT_BYTES / 2)
    wake_for_room(connection);
}

/* --- the thread that reads for all (memcached_threads.c) --- */

int64_t gyre_memcached_connection_leads_ns(const struct gyre_memcached_connection *connection) {
  return connection->timeout_ns < 0 || connection->timeout_ns > LEADS_NS ? LEADS_NS : connection->timeout_ns;
}

int64_t gyre_memcached_connection_trusted_ns(const struct gyre_memcached_connection *connection) {
  return connection->led_ns + 2 * gyre_memcached_connection_leads_ns(connection) - gyre_timers_now();
}

bool gyre_memcached_connection_is_led(struct gyre_memcached_connection *connection) {
  if (connection->leader && gyre_memcached_connection_trusted_ns(connection) <= 0) connection->leader = 0;
  return connection->leader != 0;
}

/* --- calls that are left --- */

void gyre_memcached_call_leave(struct gyre_memcached_call *call) {
  struct gyre_memcached_connection *connection = call->connection;
  if (!call->outstanding || !connection) return;
  uint64_t number = call->first > connection->head ? call->first : connection->head;
  for (; number != connection->tail && call->outstanding; number++) {
    struct gyre_memcached_entry *entry = &connection->entries[number & (connection->capacity - 1)];
    if (entry->call != call) continue;
    entry->call = NULL;
    call->outstanding--;
  }
  call->outstanding = 0;
}

/* --- Ruby --- */

/* @api private Takes a connected transport, of the present thread's loop, or of all threads without
 *   one. */
static VALUE connection_initialize(VALUE self, VALUE transport, VALUE name, VALUE timeout) {
  struct gyre_memcached_connection *connection = gyre_memcached_connection_get(self);
  if (!NIL_P(connection->transport_object)) rb_raise(rb_eRuntimeError, "already initialized");
  int64_t timeout_ns = gyre_duration_ns(timeout);
  connection->transport = gyre_transport_of(transport);
  VALUE io = rb_funcall(transport, rb_intern("to_io"), 0);
  connection->woken = rb_ary_new();
  connection->crowd = rb_ary_new();
  connection->scheduler = gyre_socket_scheduler();
  connection->scheduler_object = connection->scheduler ? connection->scheduler->self : Qnil;
  connection->transport_object = transport;
  connection->name = rb_str_new_frozen(name);
  connection->timeout_ns = timeout_ns;
  connection->forks = gyre_forks;
  connection->used_ns = now_of(connection);
  connection->watch.ready = on_ready;
  connection->timer.fire = on_time;
  connection->closing.run = on_foreign_close;
  connection->client =
      (struct gyre_client){.mark = mark_client, .closing = on_closing, .forked = on_fork, .moved = on_move};
  gyre_list_init(&connection->client.node);
  gyre_late_send_init(&connection->late, connection->transport, io);
  connection->late.sending = on_late_sending;
  connection->failed = false;
  return self;
}

/* @api private @return [Boolean] */
static VALUE connection_usable_p(VALUE self) {
  return gyre_memcached_connection_usable(gyre_memcached_connection_get(self)) ? Qtrue : Qfalse;
}

static VALUE shut_down(VALUE transport) {
  return rb_funcall(rb_funcall(transport, rb_intern("to_io"), 0), rb_intern("shutdown"), 0);
}

/* @api private
 * Closes it; what waits fails. A child of a fork closes its own descriptor only. What another
 * thread's loop has, and what a thread reads from, is closed when those have left it: then this is
 * called again.
 * @return [Boolean] whether it is closed
 */
static VALUE connection_close(VALUE self) {
  struct gyre_memcached_connection *connection = gyre_memcached_connection_get(self);
  bool here = connection->forks == gyre_forks;
  if (NIL_P(connection->transport_object)) return Qtrue;
  if (here && connection->linked && gyre_thread_is_foreign(connection->scheduler)) {
    gyre_post(connection->scheduler, &connection->closing);
    return Qfalse;
  }
  if (here) gyre_memcached_connection_fail(connection, GYRE_MEMCACHED_CLOSED);
  connection->failed = true;
  if (here && gyre_memcached_connection_is_led(connection)) {
    int error;
    rb_protect(shut_down, connection->transport_object, &error); /* which wakes that thread */
    if (error) rb_set_errinfo(Qnil);                             /* it has ended already */
    return Qfalse;
  }
  if (here && !connection->scheduler) rb_funcall(self, rb_intern("wake_threads"), 0); /* nothing else does */
  rb_funcall(connection->transport_object, rb_intern("abandon"), 0);
  return Qtrue;
}

/* @api private @return [Integer] commands whose replies have not come */
static VALUE connection_pending(VALUE self) {
  return ULL2NUM(gyre_memcached_pending(gyre_memcached_connection_get(self)));
}

static VALUE connection_inspect(VALUE self) {
  const struct gyre_memcached_connection *connection = gyre_memcached_connection_get(self);
  return rb_sprintf("#<%" PRIsVALUE " %" PRIsVALUE "%s>", rb_obj_class(self), connection->name,
                    connection->failed ? " closed" : "");
}

void gyre_init_memcached_connection(void) {
  VALUE module = rb_define_module_under(gyre_mGyre, "Memcached");
  connection_class = rb_define_class_under(module, "Connection", rb_cObject);
  rb_gc_register_mark_object(connection_class);
  gyre_forks_count();
  rb_define_alloc_func(connection_class, connection_allocate);
  rb_define_method(connection_class, "initialize", connection_initialize, 3);
  rb_define_method(connection_class, "usable?", connection_usable_p, 0);
  rb_define_method(connection_class, "close", connection_close, 0);
  rb_define_method(connection_class, "pending", connection_pending, 0);
  rb_define_method(connection_class, "inspect", connection_inspect, 0);
}
