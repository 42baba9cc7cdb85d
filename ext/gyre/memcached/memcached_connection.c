/* A home's pipeline to one memcached (memcached.h). Commands leave at the turn's end; replies come
 * in order. Never waits or connects. memcached_threads.c drives the connection of threads. */
#include "loop/forks.h"
#include "memcached/memcached.h"
#include "net/net.h"
#include "net/socket_wait.h"

#include <stdio.h>

#define FIRST_ENTRIES 64
#define READ_AHEAD_BYTES (1 << 20)  /* maximum bytes reserved at once for a value */
#define LOOK_NS INT64_C(1000000000) /* idle time after which `look` checks a connection */
#define LINES_LIMIT 65536           /* maximum lines of a reply (statistics, a group's refusals) */
#define RECEPTIONS 16               /* maximum receives in a row; then others get their turn */

static VALUE connection_class;

/* --- memory --- */

static struct gyre_memcached_entry *entry_at(const struct gyre_memcached_connection *connection, uint64_t number) {
  return &connection->pipeline.entries[number & (connection->pipeline.capacity - 1)];
}

static void connection_mark(void *opaque) {
  const struct gyre_memcached_connection *connection = opaque;
  GYRE_MARK(connection->self, connection->transport_object, connection->io, connection->scheduler_object);
  VALUE last = Qnil;
  /* In a forked child, calls may have been on stacks of threads that it lacks. */
  if (connection->on_loop.client.forks != gyre_forks) return;
  for (uint64_t number = connection->pipeline.head; number != connection->pipeline.tail; number++) {
    const struct gyre_memcached_call *call = entry_at(connection, number)->call;
    if (call && call->owner != last) rb_gc_mark(last = call->owner);
  }
}

/* Does not unlink from the scheduler, which is garbage, too, and may already be freed. */
static void connection_free(void *opaque) {
  struct gyre_memcached_connection *connection = opaque;
  gyre_deferred_cancel(&connection->on_loop.sends.deferred); /* the loop's list must not keep it */
  free(connection->pipeline.entries);
  xfree(connection);
}

static size_t connection_size(const void *opaque) {
  const struct gyre_memcached_connection *connection = opaque;
  return sizeof(*connection) + connection->pipeline.capacity * sizeof(*connection->pipeline.entries);
}

GYRE_TYPE(connection_type, "Gyre::Memcached::Connection", connection_mark, connection_free, connection_size,
          RUBY_TYPED_FREE_IMMEDIATELY);

static VALUE connection_allocate(VALUE class) {
  struct gyre_memcached_connection *connection;
  VALUE self = TypedData_Make_Struct(class, struct gyre_memcached_connection, &connection_type, connection);
  connection->self = self;
  connection->transport_object = connection->io = connection->scheduler_object = Qnil;
  connection->failed = true;
  connection->on_loop.watch.fd = -1;
  gyre_list_init(&connection->on_loop.room);
  gyre_list_init(&connection->on_loop.client.node);
  gyre_list_init(&connection->on_loop.closing.node);
  gyre_list_init(&connection->on_loop.sends.deferred.node);
  gyre_list_init(&connection->on_threads.sleeping);
  return self;
}

struct gyre_memcached_connection *gyre_memcached_connection_get(VALUE connection) {
  return rb_check_typeddata(connection, &connection_type);
}

/* --- the loop --- */

/* Tells the loop whether replies are due: until they come, its virtual clock must not jump. */
static void set_waits(struct gyre_memcached_connection *connection, bool waits) {
  if (!connection->scheduler || connection->on_loop.waits == waits) return;
  connection->on_loop.waits = waits;
  connection->scheduler->loop.outside += waits ? 1 : (unsigned)-1;
}

static void unlink_from_loop(struct gyre_memcached_connection *connection) {
  if (!connection->on_loop.linked) return;
  struct gyre_loop *loop = &connection->scheduler->loop;
  if (loop->expected == &connection->on_loop.busy) loop->expected = NULL;
  gyre_deferred_send_stop(&connection->on_loop.sends);
  gyre_loop_unwatch(loop, &connection->on_loop.watch);
  if (gyre_timer_armed(&connection->on_loop.timer)) gyre_timers_cancel(&loop->timers, &connection->on_loop.timer);
  gyre_list_remove(&connection->on_loop.client.node);
  gyre_list_remove(&connection->on_loop.closing.node);
  set_waits(connection, false);
  connection->on_loop.linked = false;
}

static int arm(struct gyre_memcached_connection *connection, int64_t now_ns) {
  int64_t in_ns = connection->timeout_ns < 0 || connection->timeout_ns > LOOK_NS ? LOOK_NS : connection->timeout_ns;
  return gyre_timers_arm(&connection->scheduler->loop.timers, &connection->on_loop.timer, now_ns + in_ns);
}

/* Watches the socket. An idle connection stays linked for LOOK_NS, for the next command. */
static bool link_to_loop(struct gyre_memcached_connection *connection) {
  struct gyre_loop *loop = &connection->scheduler->loop;
  int error = gyre_loop_watch(loop, &connection->on_loop.watch, connection->transport->fd, GYRE_READABLE);
  if (error == 0) error = arm(connection, gyre_loop_now(loop));
  if (error < 0) {
    gyre_loop_unwatch(loop, &connection->on_loop.watch);
    return false;
  }
  gyre_list_append(&connection->scheduler->clients, &connection->on_loop.client.node);
  connection->on_loop.linked = true;
  return true;
}

static void on_ready(struct gyre_loop *loop, struct gyre_watch *watch, unsigned ready) {
  struct gyre_memcached_connection *connection = GYRE_CONTAINER(watch, struct gyre_memcached_connection, on_loop.watch);
  if (ready & GYRE_READ_ENDED) connection->ended = true;
  gyre_memcached_connection_read(connection);
}

static int64_t now_of(const struct gyre_memcached_connection *connection) {
  return connection->scheduler ? gyre_loop_coarse_now(&connection->scheduler->loop) : gyre_timers_coarse_now();
}

/* Starts the next reply's time limit at the sending, because a busy loop sends late. */
static void on_sending(struct gyre_memcached_connection *connection, bool again) {
  if (again || connection->pipeline.head >= connection->pipeline.offered) connection->moved_ns = now_of(connection);
  connection->pipeline.offered = connection->pipeline.tail;
}

static void on_deferred_sending(struct gyre_deferred_send *sends, bool again) {
  on_sending(GYRE_CONTAINER(sends, struct gyre_memcached_connection, on_loop.sends), again);
}

/* Fails a connection whose reply is late, unlinks an idle connection, or sends held commands. */
static void on_time(struct gyre_timer *timer, void *context) {
  struct gyre_memcached_connection *connection = GYRE_CONTAINER(timer, struct gyre_memcached_connection, on_loop.timer);
  struct gyre_loop *loop = context;
  int64_t now_ns = gyre_loop_now(loop);
  if (!gyre_memcached_pending(connection)) {
    if (now_ns - connection->used_ns >= LOOK_NS) {
      unlink_from_loop(connection);
      return;
    }
  } else if (connection->pipeline.head >= connection->pipeline.offered) {
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

static void on_closing(struct gyre_client *client) {
  gyre_memcached_connection_fail(GYRE_CONTAINER(client, struct gyre_memcached_connection, on_loop.client), 0,
                                 "its loop was closed");
}

/* Called in a forked child: forgets the parent's calls, because none of them waits here. */
static void on_fork(struct gyre_client *client) {
  struct gyre_memcached_connection *connection =
      GYRE_CONTAINER(client, struct gyre_memcached_connection, on_loop.client);
  connection->pipeline.head = connection->pipeline.tail;
  if (connection->scheduler->loop.expected == &connection->on_loop.busy) connection->scheduler->loop.expected = NULL;
  connection->on_loop.watch.fd = -1;
  connection->on_loop.timer.place = 0;
  gyre_list_init(&connection->on_loop.room);
  gyre_list_init(&connection->on_loop.closing.node);
  gyre_list_remove(&connection->on_loop.client.node);
  connection->on_loop.linked = connection->on_loop.waits = false;
  gyre_memcached_connection_forked(connection);
}

void gyre_memcached_connection_forked(struct gyre_memcached_connection *connection) {
  connection->failed = true;
  snprintf(connection->reason, sizeof(connection->reason), "it was started before a fork, in the parent process");
}

static void on_foreign_close(struct gyre_scheduler *scheduler, struct gyre_post *post) {
  gyre_memcached_connection_fail(GYRE_CONTAINER(post, struct gyre_memcached_connection, on_loop.closing),
                                 rb_intern("closed"), "the client was closed");
}

bool gyre_memcached_connection_usable(const struct gyre_memcached_connection *connection) {
  return !connection->failed && connection->on_loop.client.forks == gyre_forks;
}

/* --- failing --- */

static void finish(struct gyre_memcached_call *call) {
  call->outstanding = 0;
  if (call->wait) gyre_wake(call->wait->parked.scheduler, &call->wait->parked);
}

static void wake_for_room(struct gyre_memcached_connection *connection) {
  GYRE_EACH_TAKEN(struct gyre_memcached_waiter, waiter, &connection->on_loop.room, node) {
    gyre_wake(waiter->wait.parked.scheduler, &waiter->wait.parked);
  }
}

void gyre_memcached_connection_fail(struct gyre_memcached_connection *connection, ID cause, const char *reason) {
  if (connection->failed) return;
  connection->failed = true;
  connection->cause = cause;
  snprintf(connection->reason, sizeof(connection->reason), "%s", reason);
  if (connection->scheduler) unlink_from_loop(connection);
  uint64_t sent = connection->transport->sent_bytes;
  while (connection->pipeline.head != connection->pipeline.tail) {
    struct gyre_memcached_call *call = entry_at(connection, connection->pipeline.head++)->call;
    if (!call || call->failed) continue;
    call->failed = true;
    call->unsent = call->start >= sent;
    finish(call);
  }
  wake_for_room(connection);
}

void gyre_memcached_connection_expire(struct gyre_memcached_connection *connection) {
  char reason[64];
  snprintf(reason, sizeof(reason), "no reply within %g s", (double)connection->timeout_ns / 1e9);
  gyre_memcached_connection_fail(connection, 0, reason);
}

static void fail_with(struct gyre_memcached_connection *connection, int error) {
  gyre_memcached_connection_fail(connection, 0, strerror(-error));
}

/* --- queueing --- */

bool gyre_memcached_connection_has_room(const struct gyre_memcached_connection *connection) {
  return gyre_memcached_pending(connection) < GYRE_MEMCACHED_PENDING_LIMIT &&
         gyre_bytes_held(connection->transport->output) < GYRE_MEMCACHED_OUTPUT_BYTES;
}

/* Checks an idle connection. If it is closed or has unexpected bytes, fails it, returns false. */
static bool look(struct gyre_memcached_connection *connection) {
  char byte;
  ssize_t count =
      gyre_transport_available(connection->transport) ? 1 : gyre_transport_receive(connection->transport, &byte, 1);
  if (count == -EAGAIN) return true;
  gyre_memcached_connection_fail(connection, 0,
                                 count == 0  ? "the server has closed the connection"
                                 : count > 0 ? "the server has sent what nothing asked for"
                                             : strerror((int)-count));
  return false;
}

static bool begin(struct gyre_memcached_connection *connection) {
  if (!connection->on_loop.linked && now_of(connection) - connection->used_ns >= LOOK_NS && !look(connection))
    return false;
  if (connection->scheduler && !connection->on_loop.linked) {
    gyre_loop_drained(&connection->scheduler->loop, connection->transport->fd, GYRE_READABLE);
    if (!link_to_loop(connection)) {
      gyre_memcached_connection_fail(connection, 0, "the loop cannot watch its socket");
      return false;
    }
  }
  return true;
}

char *gyre_memcached_connection_reserve(struct gyre_memcached_connection *connection, size_t length) {
  if (connection->failed) return NULL;
  if (connection->pipeline.head == connection->pipeline.tail && !begin(connection)) return NULL;
  if (connection->transport->write.state != GYRE_SIDE_OPEN) {
    fail_with(connection,
              connection->transport->write.state == GYRE_SIDE_FAILED ? connection->transport->write.error : -EPIPE);
    return NULL;
  }
  return gyre_bytes_reserve(&connection->transport->output, length);
}

static bool grow(struct gyre_memcached_connection *connection) {
  uint32_t capacity = connection->pipeline.capacity ? connection->pipeline.capacity * 2 : FIRST_ENTRIES;
  struct gyre_memcached_entry *entries = malloc(capacity * sizeof(*entries));
  if (!entries) return false;
  for (uint64_t number = connection->pipeline.head; number != connection->pipeline.tail; number++)
    entries[number & (capacity - 1)] = *entry_at(connection, number);
  free(connection->pipeline.entries);
  connection->pipeline.entries = entries;
  connection->pipeline.capacity = capacity;
  return true;
}

int gyre_memcached_connection_queue(struct gyre_memcached_connection *connection, struct gyre_memcached_call *call,
                                    enum gyre_memcached_verb verb, uint32_t index, size_t length) {
  struct gyre_transport *transport = connection->transport;
  if (call) {
    if (gyre_memcached_pending(connection) == connection->pipeline.capacity && !grow(connection)) return -ENOMEM;
    if (!call->connection) {
      call->connection = connection;
      call->first = connection->pipeline.tail;
      if (call->kind != GYRE_MEMCACHED_QUIET) call->start = transport->sent_bytes + gyre_bytes_held(transport->output);
    }
    call->outstanding++;
    *entry_at(connection, connection->pipeline.tail++) =
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
  if (connection->scheduler)
    gyre_deferred_send_begin(&connection->on_loop.sends, connection->self, connection->scheduler);
}

/* --- receiving --- */
#define MAY(code) (1u << GYRE_MEMCACHED_##code)
#define ERRORS (MAY(SERVER_ERROR) | MAY(CLIENT_ERROR) | MAY(ERROR))

/* Valid replies to each command; others close the connection. After SERVER_ERROR the server skips
 * the value of ms; after other errors, which ms and mn lack, it may run the value as commands. */
static const unsigned may_follow[] = {
    [GYRE_MEMCACHED_VERB_MG] = MAY(VA) | MAY(HD) | MAY(EN) | ERRORS,
    [GYRE_MEMCACHED_VERB_MS] = MAY(HD) | MAY(NS) | MAY(EX) | MAY(NF) | MAY(SERVER_ERROR),
    [GYRE_MEMCACHED_VERB_MD] = MAY(HD) | MAY(NF) | MAY(EX) | ERRORS,
    [GYRE_MEMCACHED_VERB_MA] = MAY(VA) | MAY(HD) | MAY(NF) | MAY(NS) | MAY(EX) | ERRORS,
    [GYRE_MEMCACHED_VERB_MN] = MAY(MN) | MAY(HD) | MAY(NS) | MAY(EX) | MAY(NF) | MAY(SERVER_ERROR),
    [GYRE_MEMCACHED_VERB_STATS] = MAY(STAT) | MAY(END) | MAY(RESET) | ERRORS,
    [GYRE_MEMCACHED_VERB_WORD] = MAY(OK) | MAY(VERSION) | MAY(STORED) | MAY(MN) | ERRORS,
};

/* True if the reply has more lines. */
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
  gyre_memcached_connection_fail(connection, rb_intern("broken"), reason);
  return false;
}

/* Takes whole replies. Returns the number of their bytes, or -1 if the connection has failed. */
static ssize_t take(struct gyre_memcached_connection *connection, const char *bytes, size_t length) {
  size_t used = 0;
  connection->pipeline.wanted = 0;
  connection->pipeline.taking = true; /* stays true after an exception; then the next read fails */
  while (used < length) {
    struct gyre_memcached_reply reply;
    size_t wanted;
    ssize_t count = gyre_memcached_parse(&reply, bytes + used, length - used, &wanted);
    if (count == 0) {
      connection->pipeline.wanted = wanted;
      break;
    }
    struct gyre_memcached_entry *entry = entry_at(connection, connection->pipeline.head);
    if (count > 0 && connection->pipeline.head == connection->pipeline.tail) {
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
    if (last) connection->pipeline.head++;
    if (call && last && --call->outstanding == 0) finish(call);
  }
  connection->pipeline.taking = false;
  return (ssize_t)used;
}

static bool take_input(struct gyre_memcached_connection *connection) {
  struct gyre_transport *transport = connection->transport;
  if (gyre_transport_available(transport) < connection->pipeline.wanted) return true;
  ssize_t used = take(connection, gyre_transport_input(transport), gyre_transport_available(transport));
  if (used < 0) return false;
  gyre_transport_consume(transport, (size_t)used);
  return true;
}

/* Reserves room for the rest of a value, so that its bytes are moved less often. */
static bool make_room(struct gyre_memcached_connection *connection) {
  size_t available = gyre_transport_available(connection->transport), wanted = connection->pipeline.wanted;
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
  if (!connection->on_loop.linked) return;
  int error =
      gyre_loop_await(&connection->scheduler->loop, &connection->on_loop.watch, connection->transport->fd, wants);
  if (error < 0) fail_with(connection, error);
}

void gyre_memcached_connection_read(struct gyre_memcached_connection *connection) {
  struct gyre_transport *transport = connection->transport;
  if (connection->failed) return;
  if (connection->pipeline.taking) {
    fail_with(connection, -ENOMEM);
    return;
  }
  for (int i = 0;; i++) {
    if (i == RECEPTIONS) { /* asks a loop to call again; a reading thread does it anyway */
      if (connection->on_loop.linked)
        gyre_loop_report_again(&connection->scheduler->loop, &connection->on_loop.watch, GYRE_READABLE);
      break;
    }
    ssize_t count = receive(connection);
    if (connection->failed) return;
    if (count == -EAGAIN) {
      watch_for(connection, transport->read.wants);
      break;
    }
    if (count == 0) {
      gyre_memcached_connection_fail(connection, 0, "the server has closed the connection");
      return;
    }
    if (count < 0) {
      fail_with(connection, (int)count);
      return;
    }
    /* Reads on after a report of the server's end, because the kernel reports it only once. */
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
  if (!gyre_list_empty(&connection->on_loop.room) &&
      gyre_memcached_pending(connection) <= GYRE_MEMCACHED_PENDING_LIMIT / 2 &&
      gyre_bytes_held(transport->output) <= GYRE_MEMCACHED_OUTPUT_BYTES / 2)
    wake_for_room(connection);
}

/* --- threads without a loop --- */

void gyre_memcached_connection_wake_threads(struct gyre_memcached_connection *connection) {
  struct gyre_memcached_on_threads *threads = &connection->on_threads;
  bool is_read = threads->reading;
  for (struct gyre_list *node = threads->sleeping.next; node != &threads->sleeping;) {
    struct gyre_memcached_reader *reader = GYRE_CONTAINER(node, struct gyre_memcached_reader, node);
    node = node->next;
    if (!gyre_memcached_is_over(connection, reader->call)) {
      if (is_read) continue;
      is_read = true; /* this thread reads next */
    }
    gyre_list_remove(&reader->node);
    rb_thread_wakeup_alive(reader->thread);
  }
}

/* --- calls that are left --- */

void gyre_memcached_call_leave(struct gyre_memcached_call *call) {
  struct gyre_memcached_connection *connection = call->connection;
  if (!call->outstanding || !connection) return;
  uint64_t number = call->first > connection->pipeline.head ? call->first : connection->pipeline.head;
  for (; number != connection->pipeline.tail && call->outstanding; number++) {
    struct gyre_memcached_entry *entry = entry_at(connection, number);
    if (entry->call != call) continue;
    entry->call = NULL;
    call->outstanding--;
  }
  call->outstanding = 0;
}

/* --- Ruby --- */

/* Takes a transport. The present thread's loop drives the connection; without it, threads do. */
static VALUE connection_initialize(VALUE self, VALUE transport, VALUE name, VALUE timeout) {
  struct gyre_memcached_connection *connection = gyre_memcached_connection_get(self);
  if (!NIL_P(connection->transport_object)) rb_raise(rb_eRuntimeError, "already initialized");
  int64_t timeout_ns = gyre_duration_ns(timeout);
  connection->transport = gyre_transport_of(transport);
  connection->io = rb_funcall(transport, rb_intern("to_io"), 0);
  connection->scheduler = gyre_socket_scheduler();
  connection->scheduler_object = connection->scheduler ? connection->scheduler->self : Qnil;
  connection->transport_object = transport;
  rb_ivar_set(self, rb_intern("@name"), name);
  connection->timeout_ns = timeout_ns;
  connection->used_ns = now_of(connection);
  connection->on_loop.watch.ready = on_ready;
  connection->on_loop.timer.fire = on_time;
  connection->on_loop.closing.run = on_foreign_close;
  connection->on_loop.client =
      (struct gyre_client){.forks = gyre_forks, .self = self, .closing = on_closing, .forked = on_fork};
  gyre_list_init(&connection->on_loop.client.node);
  gyre_deferred_send_init(&connection->on_loop.sends, connection->transport, connection->io);
  connection->on_loop.sends.sending = on_deferred_sending;
  connection->failed = false;
  return self;
}

/* Allows commands with values. */
static VALUE connection_allow_stores(VALUE self) {
  struct gyre_memcached_connection *connection = gyre_memcached_connection_get(self);
  connection->stores = true;
  if (connection->pipeline.head == 1) connection->greeting = connection->transport->received_bytes;
  return self;
}

static VALUE shut_down(VALUE io) { return rb_funcall(io, rb_intern("shutdown"), 0); }

/* Closes the connection and fails its calls; a forked child closes only its own descriptor. Returns
 * false while another thread's loop watches the connection, or a thread reads from it; the caller
 * then tries again. */
static VALUE connection_close(VALUE self) {
  struct gyre_memcached_connection *connection = gyre_memcached_connection_get(self);
  bool here = connection->on_loop.client.forks == gyre_forks;
  if (NIL_P(connection->transport_object)) return Qtrue;
  if (here && connection->on_loop.linked && gyre_thread_is_foreign(connection->scheduler)) {
    gyre_post(connection->scheduler, &connection->on_loop.closing);
    return Qfalse;
  }
  if (here) gyre_memcached_connection_fail(connection, rb_intern("closed"), "the client was closed");
  connection->failed = true;
  if (here && connection->on_threads.reading) {
    int error;
    rb_protect(shut_down, connection->io, &error); /* wakes that thread */
    if (error) rb_set_errinfo(Qnil);               /* it was closed already */
    return Qfalse;
  }
  if (here) gyre_memcached_connection_wake_threads(connection);
  rb_funcall(connection->transport_object, rb_intern("abandon"), 0);
  return Qtrue;
}

void gyre_init_memcached_connection(void) {
  connection_class = gyre_class(rb_define_module_under(gyre_mGyre, "Memcached"), "Connection", connection_allocate);
  gyre_forks_count();
  rb_define_method(connection_class, "initialize", connection_initialize, 3);
  rb_define_method(connection_class, "close", connection_close, 0);
  rb_define_method(connection_class, "allow_stores", connection_allow_stores, 0);
}
