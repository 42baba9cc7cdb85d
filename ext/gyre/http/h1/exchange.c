/* An HTTP/1 exchange: reads head and body, sends the response, begins the next request, or leaves
 * HTTP. Builds heads in the acceptor's buffer; bytes that the transport does not take are moved
 * into a String before the fiber parks. Fetches the exchange again after each wait, because it may
 * have ended. */
#include "http/h1/h1.h"
#include "http/h1/parser.h"
#include "http/hijack.h"
#include "http/response_head.h"

#include <ruby/io.h>
#include <stdio.h>

#define COPY_BYTES_LIMIT 16384 /* longest body copied after its head */
#define VECTORS 64
#define READ_BYTES 65536      /* maximum bytes per read of a body that is discarded */
#define PIECE_BYTES (1 << 20) /* maximum bytes sent before other fibers run; about 0.3 ms */

static VALUE exchange_class, line_end;

/* --- the response --- */

_Noreturn static void write_failed(struct gyre_http_exchange *exchange, int error) {
  gyre_http_connection_close(exchange->connection, false);
  rb_syserr_fail(error, "write a response");
}

struct output_wait {
  VALUE self;
  size_t held; /* bytes in memory that remain to be sent */
  int ready;
  bool gives_way, over;
};

static VALUE output_wait_body(VALUE argument) {
  struct output_wait *wait = (struct output_wait *)argument;
  struct gyre_http_exchange *exchange = gyre_http_response_writable(wait->self);
  const struct gyre_http_acceptor *acceptor = exchange->connection->acceptor;
  exchange->response.writing = true;
  if (wait->gives_way) {
    gyre_yield_if_due(acceptor->scheduler);
  } else {
    const struct gyre_transport *transport = &exchange->connection->transport;
    gyre_loop_drained(&acceptor->scheduler->loop, transport->fd, transport->write.wants);
    int64_t limit_ns = gyre_http_exchange_begin_wait(exchange, gyre_http1_of(exchange)->given, wait->held);
    if (limit_ns != 0)
      wait->ready = gyre_wait_io(acceptor->scheduler, transport->fd, transport->write.wants, limit_ns, wait->self);
  }
  wait->over = true;
  return Qnil;
}

/* An interrupt within a message ends the connection. */
static VALUE output_wait_ensure(VALUE argument) {
  struct output_wait *wait = (struct output_wait *)argument;
  struct gyre_http_exchange *exchange = gyre_http_exchange_get(wait->self);
  if (!exchange) return Qnil;
  exchange->response.writing = false;
  if (!wait->over) gyre_http_connection_close(exchange->connection, true);
  return Qnil;
}

/* Parks until the transport has room. */
static struct gyre_http_exchange *wait_writable(VALUE self, size_t held) {
  struct output_wait wait = {.self = self, .held = held};
  int64_t from_ns = gyre_loop_now(&gyre_http_response_writable(self)->connection->acceptor->scheduler->loop);
  rb_ensure(output_wait_body, (VALUE)&wait, output_wait_ensure, (VALUE)&wait);
  struct gyre_http_exchange *exchange = gyre_http_response_writable(self);
  gyre_http_exchange_end_wait(exchange, from_ns);
  int ready = wait.ready;
  if (ready < 0) write_failed(exchange, -ready);
  if (ready == 0) {
    gyre_http_connection_close(exchange->connection, true);
    rb_exc_raise(gyre_http_error("WriteTimeout", 0, "the client took nothing of its response for too long"));
  }
  return exchange;
}

/* Lets other fibers run within a message, because a fast client causes no wait. */
static struct gyre_http_exchange *let_others_run(VALUE self) {
  struct output_wait wait = {.self = self, .gives_way = true};
  rb_ensure(output_wait_body, (VALUE)&wait, output_wait_ensure, (VALUE)&wait);
  return gyre_http_response_writable(self);
}

/* Sends what the transport takes of `vectors`. Returns its size, or 0 if the transport is full. */
static size_t send_some(struct gyre_http_exchange *exchange, const struct iovec *vectors, int count) {
  ssize_t sent = gyre_transport_sendv(&exchange->connection->transport, vectors, count);
  if (sent < 0 && sent != -EAGAIN) write_failed(exchange, (int)-sent);
  if (sent < 0) return 0;
  gyre_http1_of(exchange)->given += (uint64_t)sent;
  return (size_t)sent;
}

/* Points vectors at the strings without the first `sent` bytes, up to PIECE_BYTES. Returns the
 * number of vectors and sets *length to their size. */
static int gather(const VALUE *strings, long count, size_t sent, struct iovec *vectors, int most, size_t *length) {
  int filled = 0;
  *length = 0;
  for (long i = 0; i < count && filled < most && *length < PIECE_BYTES; i++) {
    size_t left = (size_t)RSTRING_LEN(strings[i]) - sent;
    if (left > PIECE_BYTES - *length) left = PIECE_BYTES - *length;
    vectors[filled++] = (struct iovec){RSTRING_PTR(strings[i]) + sent, left};
    *length += left;
    sent = 0;
  }
  return filled;
}

/* Sends the strings without the first `sent` bytes. Parks while the transport is full. */
static void send_strings(VALUE self, const VALUE *strings, long count, size_t sent) {
  struct iovec vectors[VECTORS];
  size_t length, more = 0;
  for (;;) {
    for (; count > 0 && sent >= (size_t)RSTRING_LEN(*strings); count--) sent -= (size_t)RSTRING_LEN(*strings++);
    if (count == 0) return;
    if (more > 0) let_others_run(self);
    int filled = gather(strings, count, sent, vectors, VECTORS, &length);
    more = send_some(gyre_http_response_writable(self), vectors, filled);
    sent += more;
    if (more > 0) continue;
    size_t held = 0;
    for (long i = 0; i < count; i++) held += (size_t)RSTRING_LEN(strings[i]);
    wait_writable(self, held - sent);
  }
}

/* Sends bytes that the transport has encrypted but not yet sent. */
static void flush(VALUE self) {
  struct gyre_http_exchange *exchange = gyre_http_response_writable(self);
  while (gyre_transport_unsent(&exchange->connection->transport) > 0) {
    int error = gyre_transport_flush(&exchange->connection->transport);
    if (error == 0) return;
    if (error != -EAGAIN) write_failed(exchange, -error);
    exchange = wait_writable(self, 0);
  }
}

/* Sends the acceptor's output buffer and then the strings, usually in one system call. */
static void send_output(VALUE self, const VALUE *strings, long count) {
  struct gyre_http_exchange *exchange = gyre_http_response_writable(self);
  const struct gyre_http_buffer *output = &exchange->connection->acceptor->output;
  struct iovec vectors[VECTORS];
  size_t lent = output->length, length;
  int first = lent ? 1 : 0;
  vectors[0] = (struct iovec){output->bytes, lent};
  int filled = first + gather(strings, count, 0, vectors + first, VECTORS - first, &length);
  if (!filled) return;
  size_t sent = send_some(exchange, vectors, filled);
  if (count == 0 && sent == lent && gyre_transport_unsent(&exchange->connection->transport) == 0) return; /* usually */
  if (sent < lent) {
    VALUE rest = rb_str_new(output->bytes + sent, (long)(lent - sent));
    send_strings(self, &rest, 1, 0);
    RB_GC_GUARD(rest);
    sent = lent;
  }
  send_strings(self, strings, count, sent - lent);
  flush(self);
}

/* IANA, HTTP Status Code Registry. Other statuses have an empty phrase (RFC 9112, section 4). */
static const char status_lines[] =
    "100 Continue\r\n101 Switching Protocols\r\n102 Processing\r\n103 Early Hints\r\n200 OK\r\n201 Created\r\n"
    "202 Accepted\r\n203 Non-Authoritative Information\r\n204 No Content\r\n205 Reset Content\r\n"
    "206 Partial Content\r\n207 Multi-Status\r\n208 Already Reported\r\n226 IM Used\r\n300 Multiple Choices\r\n"
    "301 Moved Permanently\r\n302 Found\r\n303 See Other\r\n304 Not Modified\r\n305 Use Proxy\r\n"
    "307 Temporary Redirect\r\n308 Permanent Redirect\r\n400 Bad Request\r\n401 Unauthorized\r\n"
    "402 Payment Required\r\n403 Forbidden\r\n404 Not Found\r\n405 Method Not Allowed\r\n406 Not Acceptable\r\n"
    "407 Proxy Authentication Required\r\n408 Request Timeout\r\n409 Conflict\r\n410 Gone\r\n"
    "411 Length Required\r\n412 Precondition Failed\r\n413 Content Too Large\r\n414 URI Too Long\r\n"
    "415 Unsupported Media Type\r\n416 Range Not Satisfiable\r\n417 Expectation Failed\r\n"
    "421 Misdirected Request\r\n422 Unprocessable Content\r\n423 Locked\r\n424 Failed Dependency\r\n"
    "425 Too Early\r\n426 Upgrade Required\r\n428 Precondition Required\r\n429 Too Many Requests\r\n"
    "431 Request Header Fields Too Large\r\n451 Unavailable For Legal Reasons\r\n500 Internal Server Error\r\n"
    "501 Not Implemented\r\n502 Bad Gateway\r\n503 Service Unavailable\r\n504 Gateway Timeout\r\n"
    "505 HTTP Version Not Supported\r\n506 Variant Also Negotiates\r\n507 Insufficient Storage\r\n"
    "508 Loop Detected\r\n510 Not Extended\r\n511 Network Authentication Required\r\n";

static void begin_head(struct gyre_http_buffer *output, int status) {
  static const char ok[] = "HTTP/1.1 200 OK\r\n";
  if (status == 200) {
    gyre_http_buffer_append(output, ok, sizeof(ok) - 1);
    return;
  }
  char number[16];
  snprintf(number, sizeof(number), "%d ", status);
  const char *line = strstr(status_lines, number);
  gyre_http_buffer_append(output, ok, 9);
  if (line) {
    gyre_http_buffer_append(output, line, (size_t)(strchr(line, '\n') + 1 - line));
  } else {
    gyre_http_buffer_text(output, number);
    gyre_http_buffer_text(output, "\r\n");
  }
}

/* Adds date, connection and the blank line. Also announces a close if the body ends with the
 * connection, if the client may still wait for a 100, or if much of the request's body is
 * unread. */
static void end_head(struct gyre_http_response_head *head) {
  struct gyre_http_buffer *output = head->output;
  struct gyre_http_exchange *exchange = head->exchange;
  struct gyre_http_connection *connection = exchange->connection;
  struct gyre_http_acceptor *acceptor = connection->acceptor;
  bool unread = head->strict && !exchange->body.over &&
                gyre_http1_of(exchange)->body_remaining > acceptor->limits.unread_body_bytes;
  if (head->closing || head->own_framing || acceptor->draining || exchange->expects_continue || unread ||
      exchange->response.framing == GYRE_HTTP_UNTIL_CLOSE)
    connection->keep_alive = false;
  if (!head->has_date) gyre_http_buffer_date(output, &acceptor->date);
  if (!connection->keep_alive && !head->own_framing) gyre_http_buffer_text(output, "connection: close\r\n");
  if (connection->keep_alive && exchange->http_1_0) gyre_http_buffer_text(output, "connection: keep-alive\r\n");
  gyre_http_buffer_text(output, "\r\n");
}

static void send_head(VALUE self, const struct gyre_http_response_head *head) { send_output(self, NULL, 0); }

static void send_response(VALUE self, const struct gyre_http_response_head *head, VALUE body) {
  long count = head->no_body ? 0 : RARRAY_LEN(body);
  if (head->no_body || head->length <= COPY_BYTES_LIMIT) {
    for (long i = 0; i < count; i++) {
      VALUE part = RARRAY_AREF(body, i);
      gyre_http_buffer_append(head->output, RSTRING_PTR(part), (size_t)RSTRING_LEN(part));
    }
    if (head->output->failed) rb_memerror();
    send_output(self, NULL, 0);
    return;
  }
  /* Makes frozen views: the app could change the parts or the Array while the fiber is parked. */
  VALUE parts = rb_ary_new_capa(count);
  for (long i = 0; i < count; i++) rb_ary_push(parts, rb_str_new_frozen(RARRAY_AREF(body, i)));
  send_output(self, RARRAY_CONST_PTR(parts), count);
  RB_GC_GUARD(parts);
}

static void send_body(VALUE self, VALUE string) {
  struct gyre_http_exchange *exchange = gyre_http_exchange_get(self);
  size_t length = (size_t)RSTRING_LEN(string);
  bool chunked = exchange->response.framing == GYRE_HTTP_CHUNKED_BODY;
  struct gyre_http_buffer *output = gyre_http_response_head_begin(exchange, 0).output;
  if (chunked) {
    char size[24];
    gyre_http_buffer_append(output, size, (size_t)snprintf(size, sizeof(size), "%zx\r\n", length));
  }
  if (length <= COPY_BYTES_LIMIT) {
    gyre_http_buffer_append(output, RSTRING_PTR(string), length);
    if (chunked) gyre_http_buffer_text(output, "\r\n");
    if (output->failed) rb_memerror();
    send_output(self, NULL, 0);
  } else {
    VALUE parts[] = {rb_str_new_frozen(string), line_end};
    send_output(self, parts, chunked ? 2 : 1);
    RB_GC_GUARD(parts[0]);
  }
}

static void finish_body(VALUE self) {
  struct gyre_http_exchange *exchange = gyre_http_exchange_get(self);
  if (exchange->response.framing ==
      GYRE_HTTP_UNTIL_CLOSE) /* code that runs after the response must not delay its end */
    (void)gyre_transport_end(&exchange->connection->transport);
  if (exchange->response.framing != GYRE_HTTP_CHUNKED_BODY) return;
  struct gyre_http_buffer *output = gyre_http_response_head_trailers(exchange, "0\r\n");
  gyre_http_buffer_text(output, "\r\n");
  if (output->failed) rb_memerror();
  exchange->response.framing = GYRE_HTTP_NO_BODY;
  send_output(self, NULL, 0);
}

static uint64_t send_file(VALUE self, VALUE io, int64_t offset, uint64_t length) {
  struct gyre_http_exchange *exchange = gyre_http_exchange_get(self);
  uint64_t sent = 0;
  int file = rb_io_descriptor(io);
  if (exchange->response.framing == GYRE_HTTP_CHUNKED_BODY) rb_raise(rb_eArgError, "a file cannot be sent in chunks");
  while (sent < length) {
    uint64_t piece = length - sent < PIECE_BYTES ? length - sent : PIECE_BYTES;
    ssize_t count =
        gyre_transport_sendfile(&exchange->connection->transport, file, offset + (int64_t)sent, (size_t)piece);
    if (count == 0) break; /* the file has shrunk */
    if (count > 0) {
      sent += (uint64_t)count;
      gyre_http1_of(exchange)->given += (uint64_t)count;
      exchange->response.body_bytes += (uint64_t)count;
      if (sent == length) break;
      exchange = let_others_run(self);
    } else if (count == -EAGAIN) {
      exchange = wait_writable(self, 0);
    } else {
      write_failed(exchange, (int)-count);
    }
    file = rb_io_descriptor(io); /* raises if the file was closed meanwhile */
  }
  flush(self);
  return sent;
}

/* --- the request --- */

static void take_head(struct gyre_http_exchange *exchange, const struct gyre_http_head *head, const char *bytes) {
  struct gyre_http1_exchange *own = gyre_http1_of(exchange);
  struct gyre_http_connection *connection = exchange->connection;
  struct gyre_http_acceptor *acceptor = connection->acceptor;
  connection->requests++;
  acceptor->statistics.requests++;
  exchange->method = head->method_number;
  exchange->http_1_0 = head->minor_version == 0;
  connection->keep_alive =
      (head->flags & GYRE_HTTP_HEAD_KEEP_ALIVE) && connection->requests < acceptor->limits.keep_alive_requests;
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
  if (request->bytes == gyre_transport_input(&connection->transport))
    gyre_transport_consume(&connection->transport, request->length);
  exchange->body.ahead = (int64_t)gyre_transport_available(&connection->transport);
  if (exchange->body.ahead > 0) exchange->expects_continue = false; /* a part of the body has come */
}

static void drop(struct gyre_http_connection *connection, const struct gyre_http_request *request) {
  gyre_http_connection_end(connection, true);
}

/* Receives into lent memory (*lent), or into the transport's input if `lent` is NULL. Parks until
 * bytes come. The exchange is open on return. */
static size_t more_input(VALUE self, const char **lent) {
  const char *reason = NULL;
  for (bool late = false;; late = !gyre_http_wait_for_input(self, &reason)) {
    struct gyre_http_exchange *exchange = gyre_http_exchange_open(self);
    if (!exchange) gyre_http_request_cut(self);
    struct gyre_http_connection *connection = exchange->connection;
    if (connection->readable || late) { /* bytes in the socket count as in time */
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

/* Copies the body's bytes once, from lent memory to the String. Keeps the bytes after them. */
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
  gyre_yield_if_due(exchange->connection->acceptor->scheduler); /* other fibers get their turn */
  if (!(exchange = reading(self))) return Qnil;
  if (exchange->expects_continue && !exchange->response.status) {
    gyre_http_response_interim(exchange, 100, Qnil);
    if (!(exchange = reading(self))) return Qnil; /* another fiber may have read meanwhile */
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
    read_body(self, READ_BYTES);
  }
}

/* Lets the connection end, because the body cannot be discarded. */
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
      /* `before` holds the new place while the next exchange is made, because that may raise. */
      struct gyre_http_exchange *before = connection->exchange;
      before->placed = request.placed;
      /* Settled after the next env is made: settling runs fibers that may overwrite the head. */
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
  gyre_http_exchange_leave_place(exchange); /* the client may send the discarded rest slowly */
  if (!exchange->body.over && exchange->connection->keep_alive) {
    gyre_http1_of(exchange)->unread_from = exchange->body.received;
    exchange->body.waited_ns = 0;
    exchange->body.reading_off = true;
    rb_rescue2(drain_body, self, drain_failed, self, rb_eStandardError, (VALUE)0);
    exchange = gyre_http_exchange_open(self);
    if (!exchange) return Qnil;
  }
  struct gyre_http_connection *connection = exchange->connection;
  if (!connection->keep_alive) { /* a drain, too, keeps a connection if a response promised it */
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

  gyre_yield_if_due(connection->acceptor->scheduler); /* other fibers get their turn */
  exchange = gyre_http_exchange_open(self);
  return exchange ? begin_next(exchange->connection) : Qnil;
}

static VALUE hijack(struct gyre_http_exchange *exchange) {
  struct gyre_http_connection *connection = exchange->connection;
  struct gyre_transport *transport = &connection->transport;
  connection->keep_alive = false;
  if (transport->operations->release || gyre_transport_available(transport) > 0) /* TLS, or bytes have come */
    return gyre_http_hijack(exchange->handle, NULL);
  VALUE socket = rb_funcall(rb_path2class("Socket"), rb_intern("for_fd"), 1, INT2NUM(transport->fd));
  gyre_http_exchange_leave_place(exchange); /* the app may use the socket for long */
  connection->acceptor->net.away += connection->counted;
  gyre_http_connection_detach(connection);
  transport->fd = -1;
  connection->state = GYRE_HTTP_HIJACKED;
  return socket;
}

static void close_exchange(struct gyre_http_exchange *exchange, bool reset) {
  if (!exchange->hijacked) gyre_http_connection_close(exchange->connection, reset);
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
    GYRE_HTTP_EXCHANGE(struct gyre_http1_exchange), .alone = true, .next_request = next_request,
    .begin_head = begin_head};

void gyre_init_http1(void) {
  exchange_class = gyre_http_define_exchange("H1", &gyre_http1_exchange_operations);
  line_end = gyre_kept(rb_obj_freeze(rb_str_new_cstr("\r\n")));
}
