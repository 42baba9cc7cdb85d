/* The request's side of an HTTP/1 exchange: head, body, next request, leaving HTTP. Fetches the
 * exchange again after each wait, during which it may end. */
#include "http/h1/h1.h"
#include "http/h1/parser.h"
#include "net/net.h"

#include <errno.h>

#define PIECE_BYTES 65536

static VALUE exchange_class;

static void take_head(struct gyre_http_exchange *exchange, const struct gyre_http_head *head, const char *bytes) {
  struct gyre_http1_exchange *own = gyre_http1_of(exchange);
  struct gyre_http_connection *connection = exchange->connection;
  struct gyre_http_acceptor *acceptor = connection->acceptor;
  connection->requests++;
  acceptor->counts.requests++;
  exchange->method = head->method_number;
  exchange->http_1_0 = head->minor_version == 0;
  connection->keep_alive =
      (head->flags & GYRE_HTTP_HEAD_KEEP_ALIVE) && connection->requests < acceptor->limits.requests;
  own->chunked = (head->flags & GYRE_HTTP_HEAD_CHUNKED) != 0;
  own->body_remaining = own->chunked ? -1 : head->content_length > 0 ? head->content_length : 0;
  exchange->body.over = own->body_remaining == 0;
  exchange->expects_continue = (head->flags & GYRE_HTTP_HEAD_EXPECT_CONTINUE) != 0;
  if (own->chunked) gyre_http1_chunked_reset(&own->chunks);
  if (own->body_remaining > acceptor->limits.body_bytes) {
    exchange->status = 413;
    exchange->reason = "the body is too long";
  }
  exchange->env = gyre_http_env(exchange, head, bytes);
  gyre_http_exchange_limit(exchange);
}

static void begin(struct gyre_http_exchange *exchange, const struct gyre_http_request *request) {
  struct gyre_http_connection *connection = exchange->connection;
  connection->exchange = exchange;
  exchange->head_only = request->head && request->head->method_number == GYRE_HTTP_METHOD_HEAD;
  if (request->status) {
    exchange->status = request->status;
    exchange->reason = request->reason;
    exchange->env = gyre_http_refused_env(connection, request);
  } else {
    take_head(exchange, request->head, request->bytes);
  }
  gyre_http1_release_partial(connection);
  gyre_transport_consume(&connection->transport, request->held);
  exchange->body.ahead = (int64_t)gyre_transport_available(&connection->transport);
  if (exchange->body.ahead > 0) exchange->expects_continue = false; /* a part of the body has come */
}

static void drop(struct gyre_http_connection *connection, const struct gyre_http_request *request) {
  gyre_http_connection_end(connection, true);
}

/* Receives into lent memory (*lent) or the transport's input; parks until bytes come. The exchange
 * is open on return. */
static size_t more_input(VALUE self, const char **lent) {
  const char *reason = NULL;
  for (bool late = false;; late = !gyre_http_wait_for_input(self, &reason)) {
    struct gyre_http_exchange *exchange = gyre_http_exchange_open(self);
    if (!exchange) gyre_http_request_cut(self);
    struct gyre_http_connection *connection = exchange->connection;
    if (connection->readable || late) { /* waiting bytes count as in time, reported or not */
      ssize_t count = lent ? gyre_http_connection_receive(connection, lent) : gyre_http_connection_fill(connection);
      if (count > 0) return (size_t)count;
      if (count != -EAGAIN) gyre_http_request_cut(self);
    }
    if (late) gyre_http_request_fail(exchange, 408, reason);
  }
}

static VALUE read_trailers(VALUE self) {
  struct gyre_http_exchange *exchange = gyre_http_exchange_open(self);
  struct gyre_http_head_limits *limits = &exchange->connection->acceptor->limits.trailers;
  size_t fields_size = limits->header_count * sizeof(struct gyre_http_field);
  VALUE fields_memory = rb_str_tmp_new((long)(fields_size ? fields_size : 1)); /* the GC frees it after any exception */
  struct gyre_http_head trailers;
  gyre_http1_trailers_reset(&trailers, (struct gyre_http_field *)RSTRING_PTR(fields_memory), limits->header_count);

  for (;;) {
    struct gyre_transport *transport = &exchange->connection->transport;
    const char *bytes = gyre_transport_input(transport);
    int length = gyre_http1_trailers_parse(&trailers, bytes, gyre_transport_available(transport), limits);
    if (length < 0) gyre_http_request_fail(exchange, trailers.status, trailers.reason);
    if (length > 0) {
      if (trailers.field_count) exchange->trailers = gyre_http_field_hash(&trailers, bytes);
      gyre_transport_consume(transport, (size_t)length);
      exchange->body.over = true;
      RB_GC_GUARD(fields_memory);
      return Qnil;
    }
    more_input(self, NULL);
    exchange = gyre_http_exchange_open(self);
  }
}

static VALUE read_chunked(VALUE self, size_t most) {
  struct gyre_http_exchange *exchange = gyre_http_exchange_open(self);
  for (;;) {
    struct gyre_http1_chunked *chunks = &gyre_http1_of(exchange)->chunks;
    struct gyre_transport *transport = &exchange->connection->transport;
    size_t available = gyre_transport_available(transport), consumed = 0, length = 0;
    const char *data = NULL;
    if (available > most) available = most;
    int result = gyre_http1_chunked_step(chunks, gyre_transport_input(transport), available, &consumed, &data, &length);
    switch (result) {
    case GYRE_HTTP1_CHUNKED_DATA: {
      exchange->body.received += (int64_t)length;
      if (exchange->body.received > exchange->connection->acceptor->limits.body_bytes)
        gyre_http_request_fail(exchange, 413, "the body is too long");
      VALUE piece = rb_str_new(data, (long)length);
      gyre_transport_consume(transport, consumed);
      return piece;
    }
    case GYRE_HTTP1_CHUNKED_TRAILERS: gyre_transport_consume(transport, consumed); return read_trailers(self);
    case GYRE_HTTP1_CHUNKED_MORE:
      gyre_transport_consume(transport, consumed);
      if (gyre_transport_available(transport) > 0) break;
      more_input(self, NULL);
      exchange = gyre_http_exchange_open(self);
      break;
    default: gyre_http_request_fail(exchange, chunks->status, chunks->reason);
    }
  }
}

/* Copies bytes once, from lent memory to the String; keeps those beyond. */
static VALUE read_sized(VALUE self, size_t most) {
  struct gyre_http_exchange *exchange = gyre_http_exchange_open(self);
  struct gyre_transport *transport = &exchange->connection->transport;
  size_t available = gyre_transport_available(transport);
  const char *bytes = gyre_transport_input(transport);
  bool lent = available == 0;
  if (lent) {
    available = more_input(self, &bytes);
    exchange = gyre_http_exchange_open(self);
    transport = &exchange->connection->transport;
  }
  struct gyre_http1_exchange *own = gyre_http1_of(exchange);
  if ((int64_t)most > own->body_remaining) most = (size_t)own->body_remaining;
  if (most > available) most = available;
  if (lent && gyre_transport_keep(transport, bytes + most, available - most) < 0) gyre_http_request_cut(self);
  exchange->body.received += (int64_t)most;
  own->body_remaining -= (int64_t)most;
  exchange->body.over = own->body_remaining == 0;
  VALUE piece = rb_str_new(bytes, (long)most);
  if (!lent) gyre_transport_consume(transport, most);
  return piece;
}

/* Returns NULL at the body's end. */
static struct gyre_http_exchange *reading(VALUE self) {
  struct gyre_http_exchange *exchange = gyre_http_request_reading(self);
  if (exchange->body.over) return NULL;
  const struct gyre_http_connection *connection = exchange->connection;
  if (connection->hung_up && !connection->readable && gyre_transport_available(&connection->transport) == 0)
    gyre_http_request_cut(self);
  return exchange;
}

static VALUE read_body(VALUE self, size_t most) {
  struct gyre_http_exchange *exchange = gyre_http_exchange_open(self);
  if (!exchange) gyre_http_request_cut(self);
  gyre_yield_if_due(exchange->connection->acceptor->scheduler); /* a fast client need not wait */
  if (!(exchange = reading(self))) return Qnil;
  if (exchange->expects_continue && !exchange->response.head_sent) {
    gyre_http_response_interim(exchange, 100, Qnil);
    if (!(exchange = reading(self))) return Qnil; /* it may have waited for another fiber's read */
  }
  exchange->expects_continue = false;
  return gyre_http1_of(exchange)->chunked ? read_chunked(self, most) : read_sized(self, most);
}

/* --- from one request to the next --- */

static VALUE drain_body(VALUE self) {
  for (;;) {
    struct gyre_http_exchange *exchange = gyre_http_exchange_open(self);
    if (!exchange || exchange->body.over || !exchange->connection->keep_alive) return Qnil;
    const struct gyre_http1_exchange *own = gyre_http1_of(exchange);
    int64_t limit = exchange->connection->acceptor->limits.unread_body_bytes;
    if (own->body_remaining > limit || exchange->body.received > own->unread_from + limit) {
      exchange->connection->keep_alive = false;
      return Qnil;
    }
    read_body(self, PIECE_BYTES);
  }
}

/* Ends the connection, as the body cannot be discarded. */
static VALUE drain_failed(VALUE self, VALUE error) {
  struct gyre_http_exchange *exchange = gyre_http_exchange_open(self);
  if (exchange) exchange->connection->keep_alive = false;
  return Qnil;
}

/* Begins the next request, or makes the connection idle. */
static VALUE begin_next(struct gyre_http_connection *connection) {
  for (;;) {
    struct gyre_http_request request;
    if (gyre_transport_available(&connection->transport) > 0 && gyre_http1_parse(connection, &request)) {
      if (!gyre_http1_admit(connection, &request) && gyre_http1_wait(connection, &request)) return Qnil;
      /* Keeps the place until the next exchange exists. */
      struct gyre_http_exchange *before = connection->exchange;
      before->placed = request.placed;
      /* Settles it after the next env is made, as the parsed head is in shared memory. */
      struct gyre_http_promise promise = gyre_http_exchange_take_promise(before);
      struct gyre_http_exchange *exchange = gyre_http_exchange_new(connection, &gyre_http1_exchange_operations);
      exchange->fiber = before->fiber;
      gyre_http_exchange_free(before);
      exchange->began_ns = connection->acceptor->measured_ns;
      exchange->placed = request.placed;
      if (request.placed) gyre_admission_take(&connection->acceptor->capacity.admission);
      begin(exchange, &request);
      gyre_http_exchange_settle(promise);
      return gyre_http_request_take(exchange);
    }
    if (!connection->readable) break;
    ssize_t count = gyre_http_connection_fill(connection);
    if (count == -EAGAIN) break;
    if (count > 0) continue;
    gyre_http_connection_close(connection, false);
    return Qnil;
  }
  gyre_http1_idle(connection);
  return Qnil;
}

static VALUE next_request(VALUE self) {
  struct gyre_http_exchange *exchange = gyre_http_exchange_open(self);
  gyre_http_exchange_leave_place(exchange); /* the client may be slow with the discarded rest */
  if (!exchange->body.over && exchange->connection->keep_alive) {
    gyre_http1_of(exchange)->unread_from = exchange->body.received;
    exchange->body.waited_ns = 0;
    exchange->body.reading_off = true;
    rb_rescue2(drain_body, self, drain_failed, self, rb_eStandardError, (VALUE)0);
    exchange = gyre_http_exchange_open(self);
    if (!exchange) return Qnil;
  }
  struct gyre_http_connection *connection = exchange->connection;
  if (!connection->keep_alive) { /* an earlier response has promised to keep the connection */
    /* Lingers: a close with unread input would lose the response. */
    if (!exchange->body.over || connection->readable || gyre_transport_available(&connection->transport) > 0) {
      gyre_http_connection_linger(connection);
    } else {
      gyre_http_connection_close(connection, false);
    }
    return Qnil;
  }

  if (exchange->response.writing) { /* another fiber of the app is within a message */
    gyre_http_connection_close(connection, true);
    return Qnil;
  }

  gyre_yield_if_due(connection->acceptor->scheduler); /* many requests may be pipelined */
  exchange = gyre_http_exchange_open(self);
  return exchange ? begin_next(exchange->connection) : Qnil;
}

/* Returns a socket that first returns the received bytes. */
static VALUE plain_socket(const struct gyre_transport *transport) {
  if (gyre_transport_available(transport) == 0)
    return rb_funcall(rb_path2class("Socket"), rb_intern("for_fd"), 1, INT2NUM(transport->fd));
  VALUE bytes = rb_str_new(gyre_transport_input(transport), gyre_transport_available(transport));
  VALUE class = rb_path2class("Gyre::HTTP::H1::HijackedSocket");
  return rb_funcall(class, rb_intern("with"), 2, INT2NUM(transport->fd), bytes);
}

static void leave(struct gyre_http_connection *connection) {
  gyre_http_connection_detach(connection);
  connection->transport.fd = -1;
  connection->state = GYRE_HTTP_HIJACKED;
}

static VALUE hijack(struct gyre_http_exchange *exchange) {
  struct gyre_http_connection *connection = exchange->connection;
  struct gyre_transport *transport = &connection->transport;
  VALUE socket, handler = connection->acceptor->handler;
  gyre_http_exchange_leave_place(exchange); /* it may last long */
  if (transport->operations->release) {     /* Ruby's own sockets have no TLS */
    VALUE taken = gyre_net_transport_take(transport, gyre_http_remote_address(connection));
    leave(connection);
    socket = rb_class_new_instance(1, &taken, rb_path2class("Gyre::HTTP::H1::HijackedTransport"));
  } else {
    socket = plain_socket(transport);
    leave(connection);
  }
  rb_check_funcall(handler, rb_intern("hijacked"), 1, &socket); /* handlers of tests may lack it */
  return socket;
}

static struct gyre_http_connection *upgrade(struct gyre_http_exchange *exchange) { return exchange->connection; }

static void close_connection(struct gyre_http_exchange *exchange, bool reset) {
  gyre_http_connection_close(exchange->connection, reset);
}

static bool is_reset(const struct gyre_http_exchange *exchange) {
  return gyre_transport_is_reset(&exchange->connection->transport);
}

/* Continues the connection without a fiber, if it still exists. */
static void done(struct gyre_http_connection *connection, struct gyre_http_exchange *exchange) {
  connection->exchange = NULL;
  gyre_http_exchange_free(exchange);
  bool upgraded = connection->protocol != gyre_http_protocols.http1;
  if (connection->state == GYRE_HTTP_SERVING && !upgraded) gyre_http_connection_close(connection, true);
  if (connection->state == GYRE_HTTP_CLOSED || connection->state == GYRE_HTTP_HIJACKED) {
    gyre_http_connection_free(connection);
  } else {
    gyre_http1_go_on(connection);
  }
}

const struct gyre_http_exchange_operations gyre_http1_exchange_operations = {
    .bytes = sizeof(struct gyre_http1_exchange),
    .class = &exchange_class,
    .alone = true,
    .begin = begin,
    .done = done,
    .drop = drop,
    .is_reset = is_reset,
    .next_request = next_request,
    .read_body = read_body,
    .upgrade = upgrade,
    .hijack = hijack,
    .close = close_connection,
    .begin_head = gyre_http1_begin_head,
    .end_head = gyre_http1_end_head,
    .send_head = gyre_http1_send_head,
    .send_response = gyre_http1_send_response,
    .send_body = gyre_http1_send_body,
    .send_file = gyre_http1_send_file,
    .finish_body = gyre_http1_finish_body,
};

void gyre_init_http1(void) { exchange_class = gyre_http_define_exchange("H1", &gyre_http1_exchange_operations); }
