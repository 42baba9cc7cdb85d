/*
 * The request's side of Gyre::HTTP::NativeConnection: next_request, read_body, trailers, hijack and
 * the questions. Runs in the handler's fiber, or in another one of the app's: after each wait the
 * connection may be over, so it is fetched again from its handle.
 */
#include "http/http1.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define PIECE_BYTES 65536

VALUE gyre_http1_error(const char *name, int status, const char *message) {
  VALUE http1 = rb_const_get(gyre_mGyre, rb_intern("HTTP"));
  VALUE class = rb_const_get(http1, rb_intern(name));
  VALUE arguments[] = {rb_str_new_cstr(message), INT2NUM(status)};
  return rb_class_new_instance(status ? 2 : 1, arguments, class);
}

void gyre_http1_request_is_over(void) { rb_raise(rb_eIOError, "this request is over"); }

static struct gyre_http1_connection *serving(VALUE self) {
  struct gyre_http1_connection *connection = gyre_http1_connection_get(self);
  return connection && connection->state == GYRE_HTTP1_SERVING ? connection : NULL;
}

void gyre_http1_request_begin(struct gyre_http1_connection *connection, const struct gyre_http1_head *head,
                              const char *bytes) {
  struct gyre_http1_acceptor *acceptor = connection->acceptor;
  connection->requests++;
  acceptor->requests++;
  connection->method = head->method_number;
  connection->head_only = head->method_number == GYRE_HTTP1_METHOD_HEAD;
  connection->http_1_0 = head->minor_version == 0;
  connection->keep_alive = (head->flags & GYRE_HTTP1_KEEP_ALIVE) && connection->requests < acceptor->limits.requests;
  connection->expects_continue = (head->flags & GYRE_HTTP1_EXPECT_CONTINUE) != 0;
  connection->chunked = (head->flags & GYRE_HTTP1_CHUNKED) != 0;
  connection->body_remaining = connection->chunked ? -1 : head->content_length > 0 ? head->content_length : 0;
  connection->body_over = connection->body_remaining == 0;
  connection->body_received = connection->body_waited_ns = 0;
  connection->reading_off = false;
  connection->head_sent = false;
  connection->framing = GYRE_HTTP1_NO_BODY;
  connection->body_bytes_sent = 0;
  connection->trailers = Qnil;
  if (connection->chunked) gyre_http1_chunked_reset(&connection->chunks);

  if (connection->body_remaining > acceptor->limits.body_bytes) {
    connection->status = 413;
    connection->reason = "the body is too long";
  }
  connection->env = gyre_http1_env(connection, head, bytes);
  gyre_http1_connection_head_taken(connection);
  if (connection->buffer_length > connection->buffer_offset)
    connection->expects_continue = false; /* some of the body is there */
}

void gyre_http1_request_refused(struct gyre_http1_connection *connection, const struct gyre_http1_head *head,
                                const char *bytes) {
  connection->head_only = head && head->method_number == GYRE_HTTP1_METHOD_HEAD;
  connection->env = gyre_http1_refused_env(connection, head, bytes);
}

/* --- waiting for input --- */

static VALUE input_wait_body(VALUE argument) {
  gyre_wait_again(&((struct gyre_http1_reader *)argument)->wait);
  return Qnil;
}

static VALUE input_wait_ensure(VALUE argument) {
  struct gyre_http1_reader *input = (struct gyre_http1_reader *)argument;
  struct gyre_http1_connection *connection = gyre_http1_connection_get(input->self);
  input->kept = connection && connection->reader == input;
  if (input->kept) connection->reader = NULL;
  gyre_wait_end(&input->wait);
  return Qnil;
}

static int64_t least(int64_t one_ns, int64_t other_ns) { return one_ns < other_ns ? one_ns : other_ns; }

/* How long the next piece of the body may be waited for: there is a time for each, one for all, and after a grace period a
 * rate. Only the time of waiting counts, for the app may read as slowly as it likes. */
static int64_t input_limit_ns(const struct gyre_http1_connection *connection, const char **reason) {
  const struct gyre_http1_limits_table *limits = &connection->acceptor->limits;
  int64_t limit_ns = limits->read_ns < 0 ? INT64_MAX : limits->read_ns;
  int64_t whole_ns = connection->reading_off ? limits->unread_body_ns : limits->body_ns;
  *reason = "the request's body did not come in time";
  if (whole_ns >= 0) limit_ns = least(limit_ns, whole_ns - connection->body_waited_ns);
  if (limits->body_rate > 0 && limits->body_grace_ns >= 0) {
    int64_t earned_ns = connection->body_received > INT64_MAX / 1000000000
                            ? INT64_MAX
                            : connection->body_received * 1000000000 / limits->body_rate;
    if (earned_ns < limits->body_grace_ns) earned_ns = limits->body_grace_ns;
    if (earned_ns - connection->body_waited_ns < limit_ns) {
      limit_ns = earned_ns - connection->body_waited_ns;
      *reason = "the request's body comes too slowly";
    }
  }
  if (limit_ns == INT64_MAX) return -1;
  return limit_ns < 0 ? 0 : limit_ns;
}

NORETURN(static void refuse_second_reader(void));
static void refuse_second_reader(void) { rb_raise(rb_eIOError, "another fiber is reading this request's body"); }

/* Parks until there may be input. False when the time is over. Until the fiber goes on, no other one may read: what is left of the
 * body, and where its trailers are parsed on, is on the stack of this one. */
static bool wait_for_input(VALUE self, const char **reason) {
  struct gyre_http1_connection *connection = serving(self);
  struct gyre_scheduler *scheduler = connection->acceptor->scheduler;
  struct gyre_http1_reader input = {.self = self, .came_ns = -1};
  int64_t limit_ns = input_limit_ns(connection, reason), from_ns = gyre_loop_now(&scheduler->loop);
  gyre_wait_begin(scheduler, &input.wait, self);
  gyre_wait_arm(&input.wait, limit_ns);
  connection->reader = &input;
  rb_ensure(input_wait_body, (VALUE)&input, input_wait_ensure, (VALUE)&input);
  if (serving(self) && !input.kept) refuse_second_reader();
  connection = gyre_http1_connection_get(self);
  /* What came while the loop was held may have been there all the time, so that time is not the client's. */
  int64_t until_ns = input.came_ns < 0 ? gyre_loop_now(&scheduler->loop) : input.came_ns;
  if (connection && until_ns > from_ns) connection->body_waited_ns += until_ns - from_ns;
  return !input.wait.timed_out;
}

/* The request turned out wrong: its answer may still be sent, but nothing more is read. */
static void fail_request(struct gyre_http1_connection *connection, int status, const char *reason) {
  connection->body_over = false;
  connection->keep_alive = false;
  connection->status = (uint16_t)status;
  connection->reason = reason;
  rb_exc_raise(gyre_http1_error("RequestError", status, reason));
}

static void cut_off(VALUE self) {
  struct gyre_http1_connection *connection = gyre_http1_connection_get(self);
  if (!connection) gyre_http1_request_is_over();
  connection->keep_alive = false;
  connection->hung_up = true;
  rb_exc_raise(gyre_http1_error("RequestCut", 0, "the client left before the end of the request's body"));
}

/* Puts more bytes into the buffer; parks when there are none yet. */
static struct gyre_http1_connection *more_input(VALUE self) {
  const char *reason = NULL;
  for (bool late = false;; late = !wait_for_input(self, &reason)) {
    struct gyre_http1_connection *connection = serving(self);
    if (!connection) cut_off(self);
    if (connection->readable || late) { /* what is there has come in time, reported or not */
      ssize_t count = gyre_http1_connection_fill(connection, PIECE_BYTES);
      if (count > 0) return connection;
      if (count != -EAGAIN && count != -EWOULDBLOCK) cut_off(self);
    }
    if (late) fail_request(connection, 408, reason);
  }
}

/* --- the body --- */

static void consume(struct gyre_http1_connection *connection, size_t length) {
  connection->buffer_offset += (uint32_t)length;
  if (connection->buffer_offset == connection->buffer_length) gyre_http1_connection_release_buffer(connection);
}

static VALUE read_trailers(VALUE self) {
  struct gyre_http1_connection *connection = serving(self);
  struct gyre_http1_acceptor *acceptor = connection->acceptor;
  struct gyre_http1_limits *limits = &acceptor->limits.trailers;
  size_t fields_size = limits->header_count * sizeof(struct gyre_http1_field);
  VALUE fields_memory = rb_str_tmp_new((long)(fields_size ? fields_size : 1)); /* freed by the GC, whatever is raised */
  struct gyre_http1_head trailers;
  gyre_http1_trailers_reset(&trailers, (struct gyre_http1_field *)RSTRING_PTR(fields_memory), limits->header_count);

  for (;;) {
    const char *bytes = connection->buffer + connection->buffer_offset;
    int length =
        gyre_http1_trailers_parse(&trailers, bytes, connection->buffer_length - connection->buffer_offset, limits);
    if (length < 0) fail_request(connection, trailers.status, trailers.reason);
    if (length > 0) {
      if (trailers.field_count) connection->trailers = gyre_http1_field_hash(&trailers, bytes);
      consume(connection, (size_t)length);
      connection->body_over = true;
      RB_GC_GUARD(fields_memory);
      return Qnil;
    }
    connection = more_input(self);
  }
}

static void count_body(struct gyre_http1_connection *connection, size_t length) {
  connection->body_received += (int64_t)length;
  if (connection->body_received > connection->acceptor->limits.body_bytes) {
    fail_request(connection, 413, "the body is too long");
  }
}

static VALUE read_chunked(VALUE self, size_t most) {
  struct gyre_http1_connection *connection = serving(self);
  for (;;) {
    size_t available = connection->buffer_length - connection->buffer_offset, consumed = 0, length = 0;
    const char *data = NULL;
    if (available > most) available = most;
    int result = gyre_http1_chunked_step(&connection->chunks, connection->buffer + connection->buffer_offset, available,
                                         &consumed, &data, &length);
    switch (result) {
    case GYRE_HTTP1_CHUNKED_DATA: {
      count_body(connection, length);
      VALUE piece = rb_str_new(data, (long)length);
      consume(connection, consumed);
      return piece;
    }
    case GYRE_HTTP1_CHUNKED_TRAILERS: consume(connection, consumed); return read_trailers(self);
    case GYRE_HTTP1_CHUNKED_MORE:
      consume(connection, consumed);
      if (connection->buffer_length == connection->buffer_offset) connection = more_input(self);
      break;
    default: fail_request(connection, connection->chunks.status, connection->chunks.reason);
    }
  }
}

static VALUE read_sized(VALUE self, size_t most) {
  struct gyre_http1_connection *connection = serving(self);
  if ((int64_t)most > connection->body_remaining) most = (size_t)connection->body_remaining;
  if (connection->buffer_length == connection->buffer_offset) connection = more_input(self);
  size_t available = connection->buffer_length - connection->buffer_offset;
  if (most > available) most = available;
  VALUE piece = rb_str_new(connection->buffer + connection->buffer_offset, (long)most);
  consume(connection, most);
  connection->body_received += (int64_t)most;
  connection->body_remaining -= (int64_t)most;
  connection->body_over = connection->body_remaining == 0;
  return piece;
}

/* The connection, if there may be more of the body; NULL at its end. */
static struct gyre_http1_connection *reading(VALUE self) {
  struct gyre_http1_connection *connection = serving(self);
  if (!connection) cut_off(self);
  if (connection->reader) refuse_second_reader();
  if (connection->status) fail_request(connection, connection->status, connection->reason);
  if (connection->body_over) return NULL;
  if (connection->hung_up && !connection->readable && connection->buffer_length == connection->buffer_offset)
    cut_off(self);
  return connection;
}

static VALUE read_body(VALUE self, size_t most) {
  struct gyre_http1_connection *connection = serving(self);
  if (!connection) cut_off(self);
  gyre_give_way(connection->acceptor->scheduler); /* a client may send as fast as the app reads */
  if (!(connection = reading(self))) return Qnil;
  if (connection->expects_continue && !connection->head_sent) {
    gyre_http1_write_interim(connection, 100, Qnil);
    if (!(connection = reading(self))) return Qnil; /* it may have waited, and another fiber read */
  }
  connection->expects_continue = false;
  return connection->chunked ? read_chunked(self, most) : read_sized(self, most);
}

/* Contract: connection.rb. */
static VALUE connection_read_body(VALUE self, VALUE most) {
  if (gyre_http1_is_outside(self)) return gyre_http1_hand_over(self, "read_body", 1, &most);
  long length = NUM2LONG(most);
  if (length <= 0) rb_raise(rb_eArgError, "cannot read %ld bytes", length);
  return read_body(self, (size_t)length);
}

static VALUE connection_interrupt_reader(VALUE self, VALUE fiber, VALUE exception) {
  struct gyre_http1_connection *connection = gyre_http1_connection_get(self);
  if (!connection || !connection->reader || connection->reader->wait.parked.fiber != fiber) return Qnil;
  gyre_interrupt_fiber(connection->acceptor->scheduler, fiber, exception);
  connection->reader = NULL;
  return Qnil;
}

static VALUE connection_trailers(VALUE self) {
  struct gyre_http1_connection *connection = gyre_http1_connection_get(self);
  if (!connection) gyre_http1_request_is_over();
  return NIL_P(connection->trailers) ? rb_hash_new() : connection->trailers;
}

/* --- from one request to the next --- */

static VALUE drain_body(VALUE self) {
  for (;;) {
    struct gyre_http1_connection *connection = serving(self);
    if (!connection || connection->body_over || !connection->keep_alive) return Qnil;
    int64_t limit = connection->acceptor->limits.unread_body_bytes;
    if (connection->body_remaining > limit || connection->body_received > connection->unread_from + limit) {
      connection->keep_alive = false;
      return Qnil;
    }
    read_body(self, PIECE_BYTES);
  }
}

/* A body that cannot be read off ends the connection, and that is all. */
static VALUE drain_failed(VALUE self, VALUE error) {
  struct gyre_http1_connection *connection = serving(self);
  (void)error;
  if (connection) connection->keep_alive = false;
  return Qnil;
}

static VALUE take_env(struct gyre_http1_connection *connection) {
  VALUE env = connection->env;
  connection->env = Qnil;
  return env;
}

static VALUE connection_next_request(VALUE self) {
  struct gyre_http1_connection *connection = serving(self);
  if (!connection) return Qnil;
  if (connection->status && !connection->requests_served) {
    gyre_http1_connection_refuse(connection);
    return Qnil;
  }
  if (!NIL_P(connection->env)) {
    connection->requests_served = true;
    return take_env(connection);
  }

  if (!connection->body_over && connection->keep_alive) {
    connection->unread_from = connection->body_received;
    connection->body_waited_ns = 0;
    connection->reading_off = true;
    rb_rescue2(drain_body, self, drain_failed, self, rb_eStandardError, (VALUE)0);
    connection = serving(self);
    if (!connection) return Qnil;
  }
  if (!connection->keep_alive || connection->acceptor->draining) {
    /* Closing with unread input would reset the connection and take the answer with it. */
    if (!connection->body_over || connection->readable || connection->buffer_length > connection->buffer_offset) {
      gyre_http1_connection_linger(connection);
    } else {
      gyre_http1_connection_close(connection, false);
    }
    return Qnil;
  }

  if (connection->writing) { /* another fiber of the app's is in the middle of a message, which nothing can follow */
    gyre_http1_connection_close(connection, true);
    return Qnil;
  }

  connection->requests_served = false;
  connection->status = 0;
  gyre_give_way(connection->acceptor->scheduler); /* the next one may be there, and so on */
  connection = serving(self);
  if (!connection) return Qnil;
  for (;;) {
    if (connection->buffer_length > connection->buffer_offset) {
      const struct gyre_http1_head *head = gyre_http1_connection_parse(connection);
      if (head) {
        const char *bytes = connection->buffer + connection->buffer_offset;
        if (connection->status) {
          gyre_http1_request_refused(connection, head, bytes);
        } else {
          gyre_http1_connection_renew(connection);
          gyre_http1_request_begin(connection, head, bytes);
        }
        if (connection->status) {
          gyre_http1_connection_refuse(connection);
          return Qnil;
        }
        connection->requests_served = true;
        return take_env(connection);
      }
    }
    if (!connection->readable) break;
    ssize_t count = gyre_http1_connection_fill(connection, 4096);
    if (count == -EAGAIN || count == -EWOULDBLOCK) break;
    if (count <= 0) {
      gyre_http1_connection_close(connection, false);
      return Qnil;
    }
  }
  gyre_http1_connection_idle(connection);
  return Qnil;
}

/* --- leaving HTTP --- */

static VALUE connection_hijack(VALUE self) {
  if (gyre_http1_is_outside(self)) return gyre_http1_hand_over(self, "hijack", 0, NULL);
  if (!gyre_http1_connection_get(self)) gyre_http1_request_is_over();
  struct gyre_http1_connection *connection = serving(self);
  if (!connection) rb_raise(rb_eIOError, "the connection is over and cannot be hijacked");

  VALUE bytes = Qnil;
  if (connection->buffer_length > connection->buffer_offset) {
    bytes = rb_str_new(connection->buffer + connection->buffer_offset,
                       connection->buffer_length - connection->buffer_offset);
  }
  VALUE socket;
  if (NIL_P(bytes)) {
    socket = rb_funcall(rb_path2class("Socket"), rb_intern("for_fd"), 1, INT2NUM(connection->fd));
  } else {
    VALUE class = rb_path2class("Gyre::HTTP::HijackedSocket");
    socket = rb_funcall(class, rb_intern("with"), 2, INT2NUM(connection->fd), bytes);
  }
  VALUE handler = connection->acceptor->handler;
  gyre_http1_connection_detach(connection);
  connection->fd = -1;
  connection->state = GYRE_HTTP1_HIJACKED;
  connection->keep_alive = false;
  gyre_http1_connection_release_buffer(connection);
  rb_check_funcall(handler, rb_intern("hijacked"), 1, &socket); /* handlers of tests may lack it */
  return socket;
}

static VALUE connection_close(VALUE self) {
  if (gyre_http1_is_outside(self)) return gyre_http1_hand_over(self, "close", 0, NULL);
  struct gyre_http1_connection *connection = gyre_http1_connection_get(self);
  if (connection) gyre_http1_connection_close(connection, false);
  return Qnil;
}

static VALUE connection_reset(VALUE self) {
  if (gyre_http1_is_outside(self)) return gyre_http1_hand_over(self, "reset", 0, NULL);
  struct gyre_http1_connection *connection = gyre_http1_connection_get(self);
  if (connection) gyre_http1_connection_close(connection, true);
  return Qnil;
}

/* --- questions --- */

#define QUESTION(name, expression)                                                                                     \
  static VALUE connection_##name(VALUE self) {                                                                         \
    struct gyre_http1_connection *connection = gyre_http1_connection_get(self);                                        \
    return connection && (expression) ? Qtrue : Qfalse;                                                                \
  }

QUESTION(head_sent_p, connection->head_sent)
QUESTION(keep_alive_p, connection->keep_alive)
QUESTION(hijacked_p, connection->state == GYRE_HTTP1_HIJACKED)
QUESTION(expects_continue_p, connection->expects_continue && !connection->head_sent)
QUESTION(head_only_p, connection->head_only)

static VALUE connection_closed_p(VALUE self) { return serving(self) ? Qfalse : Qtrue; }

static VALUE connection_body_bytes_sent(VALUE self) {
  struct gyre_http1_connection *connection = gyre_http1_connection_get(self);
  return ULL2NUM(connection ? connection->body_bytes_sent : 0);
}

static VALUE connection_remote_address(VALUE self) {
  struct gyre_http1_connection *connection = gyre_http1_connection_get(self);
  return connection ? gyre_http1_connection_address(connection) : rb_str_new(NULL, 0);
}

void gyre_init_http1_request(void) {
  VALUE class = gyre_cHttp1Connection;
  rb_define_method(class, "next_request", connection_next_request, 0);
  rb_define_method(class, "read_body", connection_read_body, 1);
  rb_define_method(class, "interrupt_reader", connection_interrupt_reader, 2);
  rb_define_method(class, "trailers", connection_trailers, 0);
  rb_define_method(class, "hijack", connection_hijack, 0);
  rb_define_method(class, "close", connection_close, 0);
  rb_define_method(class, "reset", connection_reset, 0);
  rb_define_method(class, "head_sent?", connection_head_sent_p, 0);
  rb_define_method(class, "keep_alive?", connection_keep_alive_p, 0);
  rb_define_method(class, "closed?", connection_closed_p, 0);
  rb_define_method(class, "hijacked?", connection_hijacked_p, 0);
  rb_define_method(class, "expects_continue?", connection_expects_continue_p, 0);
  rb_define_method(class, "head_only?", connection_head_only_p, 0);
  rb_define_method(class, "body_bytes_sent", connection_body_bytes_sent, 0);
  rb_define_method(class, "remote_address", connection_remote_address, 0);
}
