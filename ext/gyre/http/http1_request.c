/*
 * The request's side of Gyre::HTTP::H1::Exchange: next_request, read_body, trailers, hijack and the
 * questions. Runs in the handler's fiber, or in another one of the app's: after each wait the
 * exchange may have ended, so it is fetched again from its handle.
 */
#include "http/http1.h"
#include "net/net.h"

#include <errno.h>

#define PIECE_BYTES 65536

static void take_head(struct gyre_http_exchange *exchange, const struct gyre_http1_head *head, const char *bytes) {
  struct gyre_http1_connection *connection = exchange->connection;
  struct gyre_http1_acceptor *acceptor = connection->acceptor;
  connection->requests++;
  acceptor->requests++;
  exchange->method = head->method_number;
  exchange->http_1_0 = head->minor_version == 0;
  connection->keep_alive = (head->flags & GYRE_HTTP1_KEEP_ALIVE) && connection->requests < acceptor->limits.requests;
  exchange->chunked = (head->flags & GYRE_HTTP1_CHUNKED) != 0;
  exchange->body_remaining = exchange->chunked ? -1 : head->content_length > 0 ? head->content_length : 0;
  exchange->body_over = exchange->body_remaining == 0;
  exchange->expects_continue = (head->flags & GYRE_HTTP1_EXPECT_CONTINUE) != 0;
  if (exchange->chunked) gyre_http1_chunked_reset(&exchange->chunks);
  if (exchange->body_remaining > acceptor->limits.body_bytes) {
    exchange->status = 413;
    exchange->reason = "the body is too long";
  }
  exchange->env = gyre_http1_env(exchange, head, bytes);
  gyre_http_exchange_limit(exchange);
}

void gyre_http1_request_begin(struct gyre_http_exchange *exchange, const struct gyre_http1_request *request) {
  struct gyre_http1_connection *connection = exchange->connection;
  exchange->head_only = request->head && request->head->method_number == GYRE_HTTP1_METHOD_HEAD;
  if (request->status) {
    exchange->status = request->status;
    exchange->reason = request->reason;
    exchange->env = gyre_http1_refused_env(exchange, request);
  } else {
    take_head(exchange, request->head, request->bytes);
  }
  gyre_http1_connection_release_partial(connection);
  gyre_transport_consume(&connection->transport, request->held);
  exchange->body_ahead = (int64_t)gyre_transport_available(&connection->transport);
  if (exchange->body_ahead > 0) exchange->expects_continue = false; /* some of the body is there */
}

/* --- waiting for input --- */

static VALUE input_wait_body(VALUE argument) {
  gyre_wait_again(&((struct gyre_http1_reader *)argument)->wait);
  return Qnil;
}

static VALUE input_wait_ensure(VALUE argument) {
  struct gyre_http1_reader *input = (struct gyre_http1_reader *)argument;
  struct gyre_http_exchange *exchange = gyre_http_exchange_get(input->self);
  input->kept = exchange && exchange->reader == input;
  if (input->kept) exchange->reader = NULL;
  gyre_wait_end(&input->wait);
  return Qnil;
}

static int64_t least(int64_t one_ns, int64_t other_ns) { return one_ns < other_ns ? one_ns : other_ns; }

/* How long the next piece of the body may be waited for. Only the time of waiting counts, for the
 * app may read as slowly as it likes. */
static int64_t input_limit_ns(const struct gyre_http_exchange *exchange, const char **reason) {
  const struct gyre_http1_limits_table *limits = &exchange->connection->acceptor->limits;
  int64_t received = exchange->body_received - exchange->body_ahead;
  int64_t limit_ns = gyre_http_body_limit_ns(limits, received > 0 ? received : 0, exchange->body_waited_ns,
                                             gyre_http_exchange_holds_place(exchange), reason);
  if (!exchange->reading_off || limits->unread_body_ns < 0) return limit_ns;
  int64_t left_ns = limits->unread_body_ns - exchange->body_waited_ns;
  if (left_ns < 0) left_ns = 0;
  return limit_ns < 0 ? left_ns : least(limit_ns, left_ns);
}

void gyre_http_refuse_second_reader(void) { rb_raise(rb_eIOError, "another fiber is reading this request's body"); }

/* Parks until there may be input. False when the time is over. Until the fiber goes on, no other
 * one may read: what is left of the body, and where its trailers are parsed on, is on the stack of
 * this one. */
bool gyre_http_wait_for_input(VALUE self, const char **reason) {
  struct gyre_http_exchange *exchange = gyre_http_exchange_open(self);
  struct gyre_scheduler *scheduler = exchange->connection->acceptor->scheduler;
  struct gyre_http1_reader input = {.self = self, .came_ns = -1};
  int64_t limit_ns = input_limit_ns(exchange, reason), from_ns = gyre_loop_now(&scheduler->loop);
  gyre_wait_begin(scheduler, &input.wait, self);
  gyre_wait_arm(&input.wait, limit_ns);
  exchange->reader = &input;
  rb_ensure(input_wait_body, (VALUE)&input, input_wait_ensure, (VALUE)&input);
  if (gyre_http_exchange_open(self) && !input.kept) gyre_http_refuse_second_reader();
  exchange = gyre_http_exchange_get(self);
  /* What came while the loop was held may have been there all the time, so that time is not the
   * client's. */
  int64_t until_ns = input.came_ns < 0 ? gyre_loop_now(&scheduler->loop) : input.came_ns;
  if (exchange && until_ns > from_ns) exchange->body_waited_ns += until_ns - from_ns;
  return !input.wait.timed_out;
}

/* The request turned out wrong: its response may still be sent, but nothing more is read. */
static void fail_request(struct gyre_http_exchange *exchange, int status, const char *reason) {
  exchange->body_over = false;
  exchange->connection->keep_alive = false;
  exchange->status = (uint16_t)status;
  exchange->reason = reason;
  rb_exc_raise(gyre_http1_error("RequestError", status, reason));
}

NORETURN(static void cut_off(VALUE self));
static void cut_off(VALUE self) {
  struct gyre_http_exchange *exchange = gyre_http_exchange_get(self);
  if (!exchange) gyre_http1_request_is_over();
  exchange->connection->keep_alive = false;
  exchange->connection->hung_up = true;
  rb_exc_raise(gyre_http1_error("RequestCut", 0, "the client left before the end of the request's body"));
}

/* Receives more, into lent memory (*lent) or behind the transport's input; parks while there is
 * none. The exchange is open when it returns. */
static size_t more_input(VALUE self, const char **lent) {
  const char *reason = NULL;
  for (bool late = false;; late = !gyre_http_wait_for_input(self, &reason)) {
    struct gyre_http_exchange *exchange = gyre_http_exchange_open(self);
    if (!exchange) cut_off(self);
    struct gyre_http1_connection *connection = exchange->connection;
    if (connection->readable || late) { /* what is there has come in time, reported or not */
      ssize_t count = lent ? gyre_http1_connection_receive(connection, lent) : gyre_http1_connection_fill(connection);
      if (count > 0) return (size_t)count;
      if (count != -EAGAIN) cut_off(self);
    }
    if (late) fail_request(exchange, 408, reason);
  }
}

/* --- the body --- */

static VALUE read_trailers(VALUE self) {
  struct gyre_http_exchange *exchange = gyre_http_exchange_open(self);
  struct gyre_http1_limits *limits = &exchange->connection->acceptor->limits.trailers;
  size_t fields_size = limits->header_count * sizeof(struct gyre_http1_field);
  VALUE fields_memory = rb_str_tmp_new((long)(fields_size ? fields_size : 1)); /* freed by the GC, whatever is raised */
  struct gyre_http1_head trailers;
  gyre_http1_trailers_reset(&trailers, (struct gyre_http1_field *)RSTRING_PTR(fields_memory), limits->header_count);

  for (;;) {
    struct gyre_transport *transport = &exchange->connection->transport;
    const char *bytes = gyre_transport_input(transport);
    int length = gyre_http1_trailers_parse(&trailers, bytes, gyre_transport_available(transport), limits);
    if (length < 0) fail_request(exchange, trailers.status, trailers.reason);
    if (length > 0) {
      if (trailers.field_count) exchange->trailers = gyre_http1_field_hash(&trailers, bytes);
      gyre_transport_consume(transport, (size_t)length);
      exchange->body_over = true;
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
    struct gyre_transport *transport = &exchange->connection->transport;
    size_t available = gyre_transport_available(transport), consumed = 0, length = 0;
    const char *data = NULL;
    if (available > most) available = most;
    int result = gyre_http1_chunked_step(&exchange->chunks, gyre_transport_input(transport), available, &consumed,
                                         &data, &length);
    switch (result) {
    case GYRE_HTTP1_CHUNKED_DATA: {
      exchange->body_received += (int64_t)length;
      if (exchange->body_received > exchange->connection->acceptor->limits.body_bytes)
        fail_request(exchange, 413, "the body is too long");
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
    default: fail_request(exchange, exchange->chunks.status, exchange->chunks.reason);
    }
  }
}

/* What comes is copied once: from lent memory to the String. Only what the app did not ask for is
 * kept. */
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
  if ((int64_t)most > exchange->body_remaining) most = (size_t)exchange->body_remaining;
  if (most > available) most = available;
  if (lent && gyre_transport_keep(transport, bytes + most, available - most) < 0) cut_off(self);
  exchange->body_received += (int64_t)most;
  exchange->body_remaining -= (int64_t)most;
  exchange->body_over = exchange->body_remaining == 0;
  VALUE piece = rb_str_new(bytes, (long)most);
  if (!lent) gyre_transport_consume(transport, most);
  return piece;
}

/* The exchange, if there may be more of the body; NULL at its end. */
static struct gyre_http_exchange *reading(VALUE self) {
  struct gyre_http_exchange *exchange = gyre_http_exchange_open(self);
  if (!exchange) cut_off(self);
  if (exchange->reader) gyre_http_refuse_second_reader();
  if (exchange->status) fail_request(exchange, exchange->status, exchange->reason);
  if (exchange->body_over) return NULL;
  const struct gyre_http1_connection *connection = exchange->connection;
  if (connection->hung_up && !connection->readable && gyre_transport_available(&connection->transport) == 0)
    cut_off(self);
  return exchange;
}

static VALUE read_body(VALUE self, size_t most) {
  struct gyre_http_exchange *exchange = gyre_http_exchange_open(self);
  if (!exchange) cut_off(self);
  gyre_yield_if_due(exchange->connection->acceptor->scheduler); /* a client may send as fast as the app reads */
  if (!(exchange = reading(self))) return Qnil;
  if (exchange->expects_continue && !exchange->head_sent) {
    gyre_http1_write_interim(exchange, 100, Qnil);
    if (!(exchange = reading(self))) return Qnil; /* it may have waited, and another fiber read */
  }
  exchange->expects_continue = false;
  return exchange->chunked ? read_chunked(self, most) : read_sized(self, most);
}

/* Contract: exchange.rb. */
static VALUE exchange_read_body(VALUE self, VALUE most) {
  if (gyre_http_exchange_is_outside(self)) return gyre_http_exchange_hand_over(self, "read_body", 1, &most);
  long length = NUM2LONG(most);
  if (length <= 0) rb_raise(rb_eArgError, "cannot read %ld bytes", length);
  return read_body(self, (size_t)length);
}

/* --- from one request to the next --- */

static VALUE drain_body(VALUE self) {
  for (;;) {
    struct gyre_http_exchange *exchange = gyre_http_exchange_open(self);
    if (!exchange || exchange->body_over || !exchange->connection->keep_alive) return Qnil;
    int64_t limit = exchange->connection->acceptor->limits.unread_body_bytes;
    if (exchange->body_remaining > limit || exchange->body_received > exchange->unread_from + limit) {
      exchange->connection->keep_alive = false;
      return Qnil;
    }
    read_body(self, PIECE_BYTES);
  }
}

/* A body that cannot be read off ends the connection, and that is all. */
static VALUE drain_failed(VALUE self, VALUE error) {
  struct gyre_http_exchange *exchange = gyre_http_exchange_open(self);
  (void)error;
  if (exchange) exchange->connection->keep_alive = false;
  return Qnil;
}

/* The env of an exchange that has one, or nil after a refusal. */
static VALUE take_env(struct gyre_http_exchange *exchange) {
  if (exchange->status && !exchange->taken) {
    gyre_http1_response_refuse(exchange);
    return Qnil;
  }
  exchange->taken = true;
  return exchange->env;
}

/* The next request if it is there, in a new exchange; else the connection is idle. */
static VALUE begin_next(struct gyre_http1_connection *connection) {
  for (;;) {
    struct gyre_http1_request request;
    if (gyre_transport_available(&connection->transport) > 0 && gyre_http1_connection_parse(connection, &request)) {
      if (!gyre_http1_connection_admit(connection, &request) && gyre_http1_connection_wait(connection, &request))
        return Qnil;
      /* Until there is the next exchange, the place is this one's to give back. */
      connection->exchange->placed = request.placed;
      /* Told when there is the next env: until then what was parsed is in memory that all
       * connections share. */
      struct gyre_http_promise promise = gyre_http_exchange_take_promise(connection->exchange);
      struct gyre_http_exchange *exchange = gyre_http_exchange_begin(connection);
      exchange->placed = request.placed;
      if (request.placed) gyre_admission_take(&connection->acceptor->capacity->admission);
      gyre_http1_request_begin(exchange, &request);
      gyre_http_exchange_settle(promise);
      return take_env(exchange);
    }
    if (!connection->readable) break;
    ssize_t count = gyre_http1_connection_fill(connection);
    if (count == -EAGAIN) break;
    if (count > 0) continue;
    gyre_http1_connection_close(connection, false);
    return Qnil;
  }
  gyre_http1_connection_idle(connection);
  return Qnil;
}

static VALUE exchange_next_request(VALUE self) {
  struct gyre_http_exchange *exchange = gyre_http_exchange_open(self);
  if (!exchange) return Qnil;
  if (!exchange->taken) return take_env(exchange);
  gyre_http_exchange_measure(exchange);

  gyre_http_exchange_leave_place(exchange); /* its client may be slow with what is read off */
  if (!exchange->body_over && exchange->connection->keep_alive) {
    exchange->unread_from = exchange->body_received;
    exchange->body_waited_ns = 0;
    exchange->reading_off = true;
    rb_rescue2(drain_body, self, drain_failed, self, rb_eStandardError, (VALUE)0);
    exchange = gyre_http_exchange_open(self);
    if (!exchange) return Qnil;
  }
  struct gyre_http1_connection *connection = exchange->connection;
  if (!connection->keep_alive) { /* a response that was sent before a drain began has promised to keep it */
    /* Closing with unread input would reset the connection and take the response with it. */
    if (!exchange->body_over || connection->readable || gyre_transport_available(&connection->transport) > 0) {
      gyre_http1_connection_linger(connection);
    } else {
      gyre_http1_connection_close(connection, false);
    }
    return Qnil;
  }

  if (exchange->writing) { /* another fiber of the app's is in the middle of a message, which nothing can follow */
    gyre_http1_connection_close(connection, true);
    return Qnil;
  }

  gyre_yield_if_due(connection->acceptor->scheduler); /* the next one may be there, and so on */
  exchange = gyre_http_exchange_open(self);
  return exchange ? begin_next(exchange->connection) : Qnil;
}

/* --- leaving HTTP --- */

/* With what has come already in front. */
static VALUE plain_socket(const struct gyre_transport *transport) {
  if (gyre_transport_available(transport) == 0)
    return rb_funcall(rb_path2class("Socket"), rb_intern("for_fd"), 1, INT2NUM(transport->fd));
  VALUE bytes = rb_str_new(gyre_transport_input(transport), gyre_transport_available(transport));
  VALUE class = rb_path2class("Gyre::HTTP::H1::HijackedSocket");
  return rb_funcall(class, rb_intern("with"), 2, INT2NUM(transport->fd), bytes);
}

static void leave(struct gyre_http1_connection *connection) {
  gyre_http1_connection_detach(connection);
  connection->transport.fd = -1;
  connection->state = GYRE_HTTP1_HIJACKED;
}

static VALUE exchange_hijack(VALUE self) {
  if (gyre_http_exchange_is_outside(self)) return gyre_http_exchange_hand_over(self, "hijack", 0, NULL);
  if (!gyre_http_exchange_get(self)) gyre_http1_request_is_over();
  struct gyre_http_exchange *exchange = gyre_http_exchange_open(self);
  if (!exchange) rb_raise(rb_eIOError, "the connection is over and cannot be hijacked");

  struct gyre_http1_connection *connection = exchange->connection;
  struct gyre_transport *transport = &connection->transport;
  VALUE socket, handler = connection->acceptor->handler;
  gyre_http_exchange_leave_place(exchange); /* it may last as long as it likes */
  if (transport->operations->release) {     /* TLS: what Ruby's own sockets cannot do */
    VALUE taken = gyre_net_transport_take(transport, gyre_http1_connection_address(connection));
    leave(connection);
    socket = rb_class_new_instance(1, &taken, rb_path2class("Gyre::HTTP::H1::HijackedTransport"));
  } else {
    socket = plain_socket(transport);
    leave(connection);
  }
  rb_check_funcall(handler, rb_intern("hijacked"), 1, &socket); /* handlers of tests may lack it */
  return socket;
}

static VALUE exchange_close(VALUE self) {
  if (gyre_http_exchange_is_outside(self)) return gyre_http_exchange_hand_over(self, "close", 0, NULL);
  struct gyre_http_exchange *exchange = gyre_http_exchange_get(self);
  if (exchange) gyre_http1_connection_close(exchange->connection, false);
  return Qnil;
}

static VALUE exchange_reset(VALUE self) {
  if (gyre_http_exchange_is_outside(self)) return gyre_http_exchange_hand_over(self, "reset", 0, NULL);
  struct gyre_http_exchange *exchange = gyre_http_exchange_get(self);
  if (exchange) gyre_http1_connection_close(exchange->connection, true);
  return Qnil;
}

/* --- questions --- */

#define QUESTION(name, expression)                                                                                     \
  static VALUE exchange_##name(VALUE self) {                                                                           \
    const struct gyre_http_exchange *exchange = gyre_http_exchange_get(self);                                          \
    return exchange && (expression) ? Qtrue : Qfalse;                                                                  \
  }

QUESTION(keep_alive_p, exchange->connection->keep_alive)
QUESTION(hijacked_p, exchange->connection->state == GYRE_HTTP1_HIJACKED)

static VALUE exchange_closed_p(VALUE self) { return gyre_http_exchange_open(self) ? Qfalse : Qtrue; }

void gyre_init_http1_request(void) {
  gyre_http_exchange_define_request(gyre_cHttp1Exchange,
                                    &(struct gyre_http_request_methods){.read_body = exchange_read_body,
                                                                        .next_request = exchange_next_request,
                                                                        .hijack = exchange_hijack,
                                                                        .close = exchange_close,
                                                                        .reset = exchange_reset,
                                                                        .keep_alive_p = exchange_keep_alive_p,
                                                                        .closed_p = exchange_closed_p,
                                                                        .hijacked_p = exchange_hijacked_p});
}
