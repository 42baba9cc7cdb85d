/* Sends an HTTP/2 response: queues it in the stream, whose output leaves at the turn's end as
 * windows and socket allow. A fiber parks while http2.output bytes are queued. */
#include "feature.h"

#ifdef GYRE_HAVE_NGHTTP2

#include "http/h2/h2.h"
#include "http/response_head.h"

#include <errno.h>
#include <ruby/io.h>
#include <unistd.h>

#define FILE_BYTES (32 * 1024) /* bytes read from a file at once */
#define LEAST_BYTES 4096       /* fewest bytes that may be queued */

NORETURN(static void write_failed(struct gyre_http_exchange *exchange, int error));
static void write_failed(struct gyre_http_exchange *exchange, int error) {
  struct gyre_http2_exchange *own = gyre_http2_of(exchange);
  gyre_http2_stream_cut(own->stream);
  own->cut = true;
  gyre_http2_connection_send(exchange->connection);
  rb_syserr_fail(error, "write a response");
}

static VALUE room_wait_ensure(VALUE argument) {
  struct gyre_http_reader *wait = (struct gyre_http_reader *)argument;
  struct gyre_http_exchange *exchange = gyre_http_exchange_get(wait->self);
  if (exchange) exchange->response.writing = false;
  if (exchange && gyre_http2_of(exchange)->writer == wait) gyre_http2_of(exchange)->writer = NULL;
  gyre_wait_end(&wait->wait);
  return Qnil;
}

NORETURN(static void client_is_slow(struct gyre_http_exchange *exchange));
static void client_is_slow(struct gyre_http_exchange *exchange) {
  gyre_http2_of(exchange)->cut = true;
  gyre_http2_stream_reset(gyre_http2_stream_of(exchange), GYRE_HTTP2_CANCEL);
  gyre_http2_connection_send(exchange->connection);
  rb_exc_raise(gyre_http_error("WriteTimeout", 0, "the client took nothing of its response for too long"));
}

/* Returns the bytes that may be queued now; parks until there are some. A few bytes are allowed
 * even beyond the budget. `held`: bytes known to follow. */
static size_t room(VALUE self, size_t held) {
  for (;;) {
    struct gyre_http_exchange *exchange = gyre_http_response_writable(self);
    struct gyre_http2_exchange *own = gyre_http2_of(exchange);
    struct gyre_http_acceptor *acceptor = exchange->connection->acceptor;
    size_t queued = gyre_http2_stream_queued(own->stream), most = acceptor->limits.http2.output;
    if (most > LEAST_BYTES && gyre_http_budget_is_over(&acceptor->capacity.output)) most = LEAST_BYTES;
    if (queued < most) return most - queued;
    uint64_t sent = own->stream->out.sent_bytes;
    int64_t limit_ns = gyre_http_exchange_begin_wait(exchange, sent, held);
    if (limit_ns == 0) client_is_slow(exchange);
    int64_t from_ns = gyre_loop_now(&acceptor->scheduler->loop);
    struct gyre_http_reader wait = {.self = self};
    gyre_wait_begin(acceptor->scheduler, &wait.wait, self);
    gyre_wait_arm(&wait.wait, limit_ns);
    own->writer = &wait;
    exchange->response.writing = true;
    rb_ensure(gyre_wait_body, (VALUE)&wait.wait, room_wait_ensure, (VALUE)&wait);
    exchange = gyre_http_response_writable(self);
    gyre_http_exchange_end_wait(exchange, from_ns);
    if (wait.wait.timed_out && gyre_http2_stream_of(exchange)->out.sent_bytes == sent) client_is_slow(exchange);
  }
}

/* The String must stay unchanged until sent. */
static void queue(VALUE self, VALUE string) {
  size_t length = (size_t)RSTRING_LEN(string), offset = 0;
  while (offset < length) {
    size_t piece = room(self, length - offset);
    struct gyre_http_exchange *exchange = gyre_http_response_writable(self);
    if (piece > length - offset) piece = length - offset;
    int error = gyre_http2_stream_write(gyre_http2_stream_of(exchange), RSTRING_PTR(string) + offset, piece);
    if (error < 0) write_failed(exchange, -error);
    offset += piece;
    gyre_http2_connection_send(exchange->connection);
  }
  RB_GC_GUARD(string);
}

static void check(struct gyre_http_exchange *exchange, int error) {
  if (error == -ENOMEM) rb_memerror();
  if (error < 0) write_failed(exchange, -error);
  gyre_http2_connection_send(exchange->connection);
}

void gyre_http2_end_head(struct gyre_http_response_head *head) {
  if (!head->has_date) gyre_http_buffer_date(head->output, &head->exchange->connection->acceptor->date);
}

static void send_head(const struct gyre_http_response_head *head, bool ends) {
  check(head->exchange, gyre_http2_stream_respond(gyre_http2_stream_of(head->exchange), head->status,
                                                  head->output->bytes, head->output->length, ends));
}

void gyre_http2_send_head(VALUE self, const struct gyre_http_response_head *head) { send_head(head, head->no_body); }

/* Adds the app's trailers. */
void gyre_http2_finish_body(VALUE self) {
  struct gyre_http_exchange *exchange = gyre_http_response_writable(self);
  struct gyre_http_buffer *output = gyre_http_response_head_trailers(exchange, "");
  if (output->failed) rb_memerror();
  exchange->response.framing = GYRE_HTTP_NO_BODY;
  check(exchange, gyre_http2_stream_finish(gyre_http2_stream_of(exchange), output->bytes, output->length));
}

void gyre_http2_send_response(VALUE self, const struct gyre_http_response_head *head, VALUE body) {
  uint64_t length = head->length;
  bool ends = head->no_body || (length == 0 && NIL_P(head->exchange->response_trailers));
  send_head(head, ends);
  if (ends) return;
  /* Makes frozen views if the fiber may park, as parts and Array could change then. */
  bool fits = length < LEAST_BYTES && length < head->exchange->connection->acceptor->limits.http2.output;
  VALUE parts = fits ? body : rb_ary_new_capa(RARRAY_LEN(body));
  for (long i = 0; !fits && i < RARRAY_LEN(body); i++) rb_ary_push(parts, rb_str_new_frozen(RARRAY_AREF(body, i)));
  for (long i = 0; i < RARRAY_LEN(parts); i++) queue(self, RARRAY_AREF(parts, i));
  RB_GC_GUARD(parts);
  gyre_http2_finish_body(self);
}

void gyre_http2_send_body(VALUE self, VALUE string) { queue(self, rb_str_new_frozen(string)); }

uint64_t gyre_http2_send_file(VALUE self, VALUE io, int64_t offset, uint64_t length) {
  uint64_t sent = 0;
  while (sent < length) {
    gyre_yield_if_due(gyre_http_response_writable(self)->connection->acceptor->scheduler);
    size_t piece = room(self, 0);
    struct gyre_http_exchange *exchange = gyre_http_response_writable(self);
    struct gyre_http2_stream *stream = gyre_http2_stream_of(exchange);
    if (piece > FILE_BYTES) piece = FILE_BYTES;
    if (piece > length - sent) piece = (size_t)(length - sent);
    int file = rb_io_descriptor(io); /* raises if it was closed meanwhile */
    char *place = gyre_bytes_reserve(&stream->out.bytes, piece);
    if (!place) rb_memerror();
    ssize_t count = pread(file, place, piece, (off_t)(offset + (int64_t)sent));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) rb_sys_fail("read a file");
    if (count == 0) break; /* the file has become shorter */
    stream->out.bytes->length += (uint32_t)count;
    exchange->response.body_bytes += (uint64_t)count;
    sent += (uint64_t)count;
    gyre_http2_stream_wrote(stream);
    gyre_http2_connection_send(exchange->connection);
  }
  return sent;
}

#endif
