/* Sends an HTTP/1 response: the lines around its fields, and its framed body. Builds heads in the
 * acceptor's lent buffer; bytes that the transport does not take move into a String before the
 * fiber parks. */
#include "http/h1/h1.h"
#include "http/response_head.h"

#include <errno.h>
#include <ruby/io.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>

#define COPY_BYTES_LIMIT 16384 /* longest body copied after its head */
#define VECTORS 64
#define PIECE_BYTES (1 << 20) /* bytes sent at once, about 0.3 ms; then other fibers run */

static VALUE line_end;

NORETURN(static void write_failed(struct gyre_http_exchange *exchange, int error));
static void write_failed(struct gyre_http_exchange *exchange, int error) {
  gyre_http_connection_close(exchange->connection, false);
  rb_syserr_fail(error, "write a response");
}

struct output_wait {
  VALUE self;
  size_t held; /* bytes known to come with the next send */
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

/* Lets others run within a message that the client takes without a wait. */
static struct gyre_http_exchange *let_others_run(VALUE self) {
  struct output_wait wait = {.self = self, .gives_way = true};
  rb_ensure(output_wait_body, (VALUE)&wait, output_wait_ensure, (VALUE)&wait);
  return gyre_http_response_writable(self);
}

/* Sends what the transport takes of `vectors`. Returns bytes, 0 for "would block". */
static size_t send_some(struct gyre_http_exchange *exchange, const struct iovec *vectors, int count) {
  ssize_t sent = gyre_transport_sendv(&exchange->connection->transport, vectors, count);
  if (sent < 0 && sent != -EAGAIN) write_failed(exchange, (int)-sent);
  if (sent < 0) return 0;
  gyre_http1_of(exchange)->given += (uint64_t)sent;
  return (size_t)sent;
}

/* Points vectors at the strings beyond `sent` bytes, within one call's limit. Returns their number;
 * *length: their size. */
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

/* Sends the strings beyond `sent` bytes; parks while the transport is full. */
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

/* Sends bytes that the transport has encrypted. */
static void flush(VALUE self) {
  struct gyre_http_exchange *exchange = gyre_http_response_writable(self);
  while (gyre_transport_unsent(&exchange->connection->transport) > 0) {
    int error = gyre_transport_flush(&exchange->connection->transport);
    if (error == 0) return;
    if (error != -EAGAIN) write_failed(exchange, -error);
    exchange = wait_writable(self, 0);
  }
}

/* Sends the lent buffer and the strings, usually in one system call. */
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

void gyre_http1_begin_head(struct gyre_http_buffer *output, int status) {
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

/* Adds date, connection and the blank line. Closes if the body ends with the connection, a client
 * may still expect a 100, or much of a body would be discarded. */
void gyre_http1_end_head(struct gyre_http_response_head *head) {
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

void gyre_http1_send_head(VALUE self, const struct gyre_http_response_head *head) { send_output(self, NULL, 0); }

void gyre_http1_send_response(VALUE self, const struct gyre_http_response_head *head, VALUE body) {
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
  /* Makes frozen views, so that parts and Array cannot change while the fiber is parked. */
  VALUE parts = rb_ary_new_capa(count);
  for (long i = 0; i < count; i++) rb_ary_push(parts, rb_str_new_frozen(RARRAY_AREF(body, i)));
  send_output(self, RARRAY_CONST_PTR(parts), count);
  RB_GC_GUARD(parts);
}

void gyre_http1_send_body(VALUE self, VALUE string) {
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

void gyre_http1_finish_body(VALUE self) {
  struct gyre_http_exchange *exchange = gyre_http_exchange_get(self);
  if (exchange->response.framing != GYRE_HTTP_CHUNKED_BODY) return;
  struct gyre_http_buffer *output = gyre_http_response_head_trailers(exchange, "0\r\n");
  gyre_http_buffer_text(output, "\r\n");
  if (output->failed) rb_memerror();
  exchange->response.framing = GYRE_HTTP_NO_BODY;
  send_output(self, NULL, 0);
}

uint64_t gyre_http1_send_file(VALUE self, VALUE io, int64_t offset, uint64_t length) {
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

void gyre_init_http1_response(void) { line_end = gyre_kept(rb_obj_freeze(rb_str_new_cstr("\r\n"))); }
