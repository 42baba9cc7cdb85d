/* An HTTP/2 client's connection (client.h): moves frames, wakes fibers, detects a dead server, ends
 * the connection. Never waits if there is a loop; makes no request. */
#include "http/h2/client.h"
#include "loop/forks.h"
#include "net/net.h"
#include "net/socket_wait.h"

#define SENDS_AT_ONCE 8
#define RECEPTIONS 4                       /* maximum in a row, before others get their turn */
#define SILENCE_NS INT64_C(15000000000)    /* before a PING for open requests; twice: failure */
#define IDLE_NS INT64_C(60000000000)       /* time without requests before leaving the loop */
#define STREAM_WINDOW_BYTES (2 << 20)      /* maximum unread bytes of a response */
#define CONNECTION_WINDOW_BYTES (16 << 20) /* maximum unread bytes beyond INPUT_BYTES */
#define INPUT_BYTES (32 << 20)
#define OUTPUT_BYTES (128 << 10) /* maximum queued bytes of a request */

GYRE_MARKER(client_mark, struct gyre_http2_client, own->self, own->transport_object, own->io, own->scheduler_object)

/* Does not touch the scheduler's lists, because the scheduler may already be freed. */
static void client_free(void *opaque) {
  struct gyre_http2_client *client = opaque;
  gyre_deferred_cancel(&client->sending); /* else the loop would find freed memory */
  if (client->session.nghttp2) {
    GYRE_EACH(struct gyre_http2_stream, stream, &client->session.streams, node) {
      struct gyre_http2_call *call = stream->owner;
      if (call) call->stream = NULL;
    }
    gyre_http2_session_free(&client->session);
  }
  xfree(client);
}

static size_t client_size(const void *opaque) {
  const struct gyre_http2_client *client = opaque;
  return sizeof(*client) + (size_t)(client->capacity.input.used + client->capacity.output.used);
}

GYRE_TYPE(client_type, "Gyre::HTTP::Client::H2Connection", client_mark, client_free, client_size,
          RUBY_TYPED_FREE_IMMEDIATELY);

static VALUE client_allocate(VALUE class) {
  struct gyre_http2_client *client;
  VALUE self = TypedData_Make_Struct(class, struct gyre_http2_client, &client_type, client);
  client->self = self;
  client->transport_object = client->io = client->scheduler_object = Qnil;
  client->state = GYRE_HTTP2_CLIENT_CLOSED;
  client->watch.fd = client->room.fd = -1;
  gyre_list_init(&client->entry.node);
  gyre_list_init(&client->sending.node);
  return self;
}

struct gyre_http2_client *gyre_http2_client_get(VALUE connection) {
  struct gyre_http2_client *client = rb_check_typeddata(connection, &client_type);
  if (NIL_P(client->transport_object)) rb_raise(rb_eIOError, "uninitialized connection");
  return client;
}

bool gyre_http2_client_is_open(const struct gyre_http2_client *client) {
  return client->state == GYRE_HTTP2_CLIENT_OPEN && client->entry.forks == gyre_forks && !client->session.left &&
         !client->session.going;
}

static void wake(struct gyre_wait *wait) {
  if (wait) gyre_wake(wait->parked.scheduler, &wait->parked);
}

static void wake_changed(struct gyre_http2_client *client) {
  struct gyre_http2_stream *stream;
  while ((stream = gyre_http2_session_changed(&client->session, false))) {
    const struct gyre_http2_call *call = stream->owner;
    wake(call->reader);
    wake(call->writer);
  }
}

static void unlink_from_loop(struct gyre_http2_client *client) {
  if (!client->linked) return;
  struct gyre_loop *loop = &client->scheduler->loop;
  gyre_deferred_cancel(&client->sending);
  gyre_loop_unwatch(loop, &client->watch);
  gyre_loop_unwatch(loop, &client->room);
  if (gyre_timer_armed(&client->timer)) gyre_timers_cancel(&loop->timers, &client->timer);
  gyre_list_remove(&client->entry.node);
  client->linked = false;
}

/* Closes all streams; their callers find the cause in client->state. */
static void end(struct gyre_http2_client *client, enum gyre_http2_client_state state, int error) {
  if (client->state != GYRE_HTTP2_CLIENT_OPEN) return;
  client->state = (uint8_t)state;
  client->error = error;
  unlink_from_loop(client);
  GYRE_EACH(struct gyre_http2_stream, stream, &client->session.streams, node) {
    if (stream->closed) continue;
    stream->closed = true;
    stream->error = GYRE_HTTP2_INTERNAL_ERROR;
    stream->out.lent_length = 0;
    client->session.open_count--;
    gyre_http2_stream_note(stream);
  }
  wake_changed(client);
}

static void fail(struct gyre_http2_client *client, int error) {
  end(client, error == 0 || error == GYRE_TRUNCATED ? GYRE_HTTP2_CLIENT_ENDED : GYRE_HTTP2_CLIENT_FAILED, error);
}

int64_t gyre_http2_client_now(const struct gyre_http2_client *client) {
  return client->scheduler ? gyre_loop_coarse_now(&client->scheduler->loop) : gyre_timers_coarse_now();
}

static void watch_for(struct gyre_http2_client *client, struct gyre_watch *watch, unsigned wants) {
  if (!client->linked) return;
  int error = gyre_loop_await(&client->scheduler->loop, watch, client->transport->fd, wants);
  if (error < 0) fail(client, error);
}

/* Returns false if no more bytes can be sent now. */
static bool send_some(struct gyre_http2_client *client) {
  struct gyre_transport *transport = client->transport;
  int error = gyre_transport_unsent(transport) > 0 ? gyre_transport_flush(transport) : 0;
  if (error == 0) {
    char *bytes = gyre_lent_plain();
    size_t length =
        bytes ? gyre_http2_session_send(&client->session, bytes, GYRE_LENT_BYTES, gyre_http2_client_now(client)) : 0;
    if (length == 0) return false;
    error = gyre_transport_pass(transport, bytes, length);
  }
  if (error == -EAGAIN) {
    watch_for(client, &client->room, transport->write.wants);
  } else if (error < 0) {
    client->session.left = true; /* received bytes may tell the reason */
    if (error != -EPIPE && error != -ECONNRESET) fail(client, error);
  }
  return error == 0;
}

/* Called after each change; may end the connection. Returns whether something was sent. */
static bool send_all(struct gyre_http2_client *client) {
  int budget = SENDS_AT_ONCE;
  while (client->state == GYRE_HTTP2_CLIENT_OPEN && send_some(client) && --budget > 0) continue;
  bool sent = budget < SENDS_AT_ONCE;
  wake_changed(client);
  if (client->state != GYRE_HTTP2_CLIENT_OPEN) return sent;
  if (budget == 0) gyre_http2_client_send(client);
  if (gyre_transport_unsent(client->transport)) return sent;
  if (client->session.failed) end(client, GYRE_HTTP2_CLIENT_BROKEN, 0);
  if (gyre_http2_session_is_over(&client->session)) end(client, GYRE_HTTP2_CLIENT_ENDED, 0);
  return sent;
}

static void at_the_end(struct gyre_loop *loop, struct gyre_deferred *sending) {
  send_all(GYRE_CONTAINER(sending, struct gyre_http2_client, sending));
}

static void on_room(struct gyre_loop *loop, struct gyre_watch *room, unsigned ready) {
  gyre_loop_unwatch(loop, room);
  send_all(GYRE_CONTAINER(room, struct gyre_http2_client, room));
}

void gyre_http2_client_send(struct gyre_http2_client *client) {
  if (client->linked) gyre_loop_defer(&client->scheduler->loop, &client->sending);
}

/* Returns false if nothing more can be received now. */
static bool receive_some(struct gyre_http2_client *client) {
  struct gyre_transport *transport = client->transport;
  char *bytes = gyre_lent_plain();
  ssize_t count = bytes ? gyre_transport_receive(transport, bytes, GYRE_LENT_BYTES) : -ENOMEM;
  if (count == -EAGAIN) {
    watch_for(client, &client->watch, transport->read.wants);
  } else if (count <= 0) {
    fail(client, (int)count);
  } else {
    client->received_ns = gyre_http2_client_now(client);
    client->doubted = false;
    (void)gyre_http2_session_receive(&client->session, bytes, (size_t)count, client->received_ns);
  }
  if (count <= 0 || client->session.failed) return false;
  /* Reads on after the server's end was reported, because the end is reported only once. */
  if (client->hung_up || !gyre_transport_emptied(transport, (size_t)count, GYRE_LENT_BYTES)) return true;
  watch_for(client, &client->watch, GYRE_READABLE);
  return false;
}

static void receive(struct gyre_http2_client *client) {
  int budget = RECEPTIONS;
  while (client->state == GYRE_HTTP2_CLIENT_OPEN && receive_some(client) && --budget > 0) continue;
  wake_changed(client);
  if (client->state != GYRE_HTTP2_CLIENT_OPEN) return;
  if (budget == 0 && client->linked) gyre_loop_report_again(&client->scheduler->loop, &client->watch, GYRE_READABLE);
  gyre_http2_client_send(client);
}

static void on_ready(struct gyre_loop *loop, struct gyre_watch *watch, unsigned ready) {
  struct gyre_http2_client *client = GYRE_CONTAINER(watch, struct gyre_http2_client, watch);
  if (ready & GYRE_READ_ENDED) client->hung_up = true;
  receive(client);
}

void gyre_http2_client_drive(struct gyre_http2_client *client, int64_t limit_ns) {
  struct gyre_transport *transport = client->transport;
  if (client->scheduler && gyre_thread_is_foreign(client->scheduler))
    rb_raise(rb_eThreadError, "a response can be waited for only in the thread of its request");
  if (send_all(client)) return; /* a writer may have room now */
  if (client->state != GYRE_HTTP2_CLIENT_OPEN) return;
  unsigned events = transport->read.wants ? transport->read.wants : GYRE_READABLE;
  if (gyre_transport_unsent(transport)) events |= transport->write.wants;
  if (!gyre_transport_pending(transport)) (void)gyre_socket_wait(client->io, transport->fd, events, limit_ns);
  if (!gyre_socket_is_open(client->io, transport->fd)) end(client, GYRE_HTTP2_CLIENT_CLOSED, 0);
  receive(client);
}

/* The only timer: detects a dead server by PING, and takes an idle connection off its loop. */
static void on_time(struct gyre_timer *timer, void *context) {
  struct gyre_http2_client *client = GYRE_CONTAINER(timer, struct gyre_http2_client, timer);
  struct gyre_loop *loop = context;
  receive(client); /* a busy loop may not have read bytes that came in time */
  if (client->state != GYRE_HTTP2_CLIENT_OPEN) return;
  int64_t silent_ns = gyre_loop_now(loop) - client->received_ns;
  bool awaited = client->session.open_count || client->doubted;
  if (!awaited && silent_ns >= IDLE_NS) {
    unlink_from_loop(client);
  } else if (awaited && silent_ns >= 2 * SILENCE_NS) {
    fail(client, -ETIMEDOUT);
  } else {
    if (awaited && silent_ns >= SILENCE_NS) gyre_http2_session_ping(&client->session);
    (void)gyre_timers_arm(&loop->timers, timer, gyre_loop_now(loop) + SILENCE_NS);
  }
}

static void on_closing(struct gyre_client *client) {
  end(GYRE_CONTAINER(client, struct gyre_http2_client, entry), GYRE_HTTP2_CLIENT_CLOSED, 0);
}

/* In a forked child: leaves the socket and the calls to the parent. */
static void on_fork(struct gyre_client *node) {
  struct gyre_http2_client *client = GYRE_CONTAINER(node, struct gyre_http2_client, entry);
  client->watch.fd = client->room.fd = -1;
  client->timer.place = 0;
  gyre_list_init(&client->sending.node);
  gyre_list_remove(&client->entry.node);
  client->linked = false;
}

void gyre_http2_client_doubt(struct gyre_http2_client *client) {
  if (client->doubted || client->state != GYRE_HTTP2_CLIENT_OPEN) return;
  client->doubted = true;
  gyre_http2_session_ping(&client->session);
  gyre_http2_client_send(client);
}

void gyre_http2_client_begin(struct gyre_http2_client *client) {
  if (client->session.open_count == 0) client->received_ns = gyre_http2_client_now(client);
  client->used = true;
  if (!client->linked || client->session.open_count == 0) receive(client); /* the server may have ended it */
  if (!client->scheduler || client->linked || client->state != GYRE_HTTP2_CLIENT_OPEN) return;
  struct gyre_loop *loop = &client->scheduler->loop;
  int error = gyre_loop_watch(loop, &client->watch, client->transport->fd, GYRE_READABLE);
  if (error == 0) error = gyre_timers_arm(&loop->timers, &client->timer, gyre_loop_now(loop) + SILENCE_NS);
  gyre_loop_report_again(loop, &client->watch, GYRE_READABLE); /* libssl may hold bytes */
  gyre_list_append(&client->scheduler->clients, &client->entry.node);
  client->linked = true;
  if (error < 0) fail(client, error);
}

/* Takes a transport after its handshake. */
static VALUE client_initialize(VALUE self, VALUE transport, VALUE limits) {
  struct gyre_http2_client *client = rb_check_typeddata(self, &client_type);
  if (!NIL_P(client->transport_object)) rb_raise(rb_eRuntimeError, "already initialized");
  client->own = gyre_http_client_limits(limits);
  const struct gyre_http_head_limits fields = {.header_bytes = client->own.header_bytes,
                                               .header_count = client->own.header_count};
  client->limits = (struct gyre_http2_limits){
      .head = fields,
      .trailers = fields,
      .streams = client->own.streams,
      .stream_resets = 1000,
      .control_frames = 5000,
      .stream_window_bytes = STREAM_WINDOW_BYTES,
      .connection_window_bytes = CONNECTION_WINDOW_BYTES,
      .output = OUTPUT_BYTES,
  };
  client->io = rb_funcall(transport, rb_intern("to_io"), 0);
  client->transport = gyre_transport_of(transport);
  client->scheduler = gyre_socket_scheduler();
  client->scheduler_object = client->scheduler ? client->scheduler->self : Qnil;
  client->capacity.input.limit = INPUT_BYTES;
  client->watch.ready = on_ready;
  client->room.ready = on_room;
  client->timer.fire = on_time;
  client->entry = (struct gyre_client){.forks = gyre_forks, .self = self, .closing = on_closing, .forked = on_fork};
  gyre_list_init(&client->entry.node);
  gyre_deferred_init(&client->sending, at_the_end);
  if (gyre_http2_session_init(&client->session, &client->limits, &client->capacity, true,
                              gyre_http2_client_now(client)) < 0)
    rb_memerror();
  client->transport_object = transport;
  client->state = GYRE_HTTP2_CLIENT_OPEN;
  return self;
}

/* Returns the number of requests that may begin now. */
static VALUE client_capacity(VALUE self) {
  struct gyre_http2_client *client = gyre_http2_client_get(self);
  if (!gyre_http2_client_is_open(client)) return INT2FIX(0);
  if (client->session.open_count > client->calls) send_all(client); /* sends resets */
  if (!client->linked) receive(client);
  if (!gyre_http2_client_is_open(client) || client->doubted) return INT2FIX(0);
  if (client->calls && gyre_http2_session_is_narrow(&client->session)) return INT2FIX(0);
  uint32_t limit = client->scheduler ? gyre_http2_session_streams_limit(&client->session) : 1;
  uint32_t open = client->session.open_count;
  return UINT2NUM(limit > open ? limit - open : 0);
}

/* False if only one caller at a time can use the connection. */
static VALUE client_is_shared(VALUE self) { return gyre_http2_client_get(self)->scheduler ? Qtrue : Qfalse; }

static VALUE client_is_used(VALUE self) { return gyre_http2_client_get(self)->used ? Qtrue : Qfalse; }

/* True once no request can begin any more. */
static VALUE client_is_closed(VALUE self) {
  return gyre_http2_client_is_open(gyre_http2_client_get(self)) ? Qfalse : Qtrue;
}

/* True after keep_alive_timeout_s without a request. */
static VALUE client_is_rested(VALUE self) {
  const struct gyre_http2_client *client = gyre_http2_client_get(self);
  if (client->calls || client->own.keep_ns < 0) return Qfalse;
  return gyre_http2_client_now(client) - client->received_ns > (int64_t)client->own.keep_ns ? Qtrue : Qfalse;
}

static VALUE client_is_idle(VALUE self) { return gyre_http2_client_get(self)->calls ? Qfalse : Qtrue; }

/* Sends GOAWAY and as many queued bytes as the socket takes, then fails all requests. */
static VALUE client_end(VALUE self) {
  struct gyre_http2_client *client = gyre_http2_client_get(self);
  if (client->state == GYRE_HTTP2_CLIENT_OPEN && client->entry.forks == gyre_forks &&
      gyre_socket_is_open(client->io, client->transport->fd)) {
    gyre_http2_session_go(&client->session);
    while (send_some(client)) continue;
  }
  end(client, GYRE_HTTP2_CLIENT_CLOSED, 0);
  return Qnil;
}

static VALUE client_transport(VALUE self) { return gyre_http2_client_get(self)->transport_object; }

/* Returns the use of each budget, for tests. */
static VALUE client_held(VALUE self) {
  const struct gyre_http2_client *client = gyre_http2_client_get(self);
  return rb_ary_new_from_args(4, LL2NUM(client->capacity.heads.used), LL2NUM(client->capacity.input.used),
                              LL2NUM(client->capacity.output.used), UINT2NUM(client->session.stream_count));
}

void gyre_init_http2_client(void) {
  VALUE http = rb_define_module_under(gyre_mGyre, "HTTP");
  VALUE outer = rb_define_class_under(http, "Client", rb_cObject);
  VALUE connection_class = gyre_class(outer, "H2Connection", client_allocate);
  gyre_forks_count();
  rb_define_method(connection_class, "initialize", client_initialize, 2);
  rb_define_method(connection_class, "transport", client_transport, 0);
  rb_define_method(connection_class, "capacity", client_capacity, 0);
  rb_define_method(connection_class, "shared?", client_is_shared, 0);
  rb_define_method(connection_class, "used?", client_is_used, 0);
  rb_define_method(connection_class, "closed?", client_is_closed, 0);
  rb_define_method(connection_class, "idle?", client_is_idle, 0);
  rb_define_method(connection_class, "rested?", client_is_rested, 0);
  rb_define_method(connection_class, "held", client_held, 0);
  rb_define_private_method(connection_class, "end_streams", client_end, 0);
}
