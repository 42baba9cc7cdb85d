/* An HTTP/2 exchange: reads the request, and queues the response in the stream. Queued bytes are
 * sent at the turn's end as windows and socket allow. A fiber parks once limits.http2.output bytes
 * are queued. Fetches exchange and stream again after each wait, because they may have ended. */
#include "http/h2/client.h"
#include "http/h2/h2.h"
#include "http/hijack.h"
#include "http/response_head.h"
#include "http/scan.h"

#include <ruby/io.h>

#define FILE_BYTES (32 * 1024) /* maximum bytes per read of a file */
#define LEAST_BYTES 4096       /* bytes that may be queued even beyond the budget */

static VALUE exchange_class, key_protocol;

/* --- the response --- */

_Noreturn static void write_failed(struct gyre_http_exchange *exchange, int error) {
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

_Noreturn static void client_is_slow(struct gyre_http_exchange *exchange) {
  gyre_http2_of(exchange)->cut = true;
  gyre_http2_stream_reset(gyre_http2_stream_of(exchange), GYRE_HTTP2_CANCEL);
  gyre_http2_connection_send(exchange->connection);
  rb_exc_raise(gyre_http_error("WriteTimeout", 0, "the client took nothing of its response for too long"));
}

/* Returns the number of bytes that may be queued now; parks until there is room. Beyond the budget,
 * LEAST_BYTES may still be queued. `held`: bytes that wait to be queued. */
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

/* Queues a String, which must not change while the fiber is parked. */
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

static void end_head(struct gyre_http_response_head *head) {
  if (!head->has_date) gyre_http_buffer_date(head->output, &head->exchange->connection->acceptor->date);
}

static void submit_head(const struct gyre_http_response_head *head, bool ends) {
  check(head->exchange, gyre_http2_stream_respond(gyre_http2_stream_of(head->exchange), head->status,
                                                  head->output->bytes, head->output->length, ends));
}

static void send_head(VALUE self, const struct gyre_http_response_head *head) { submit_head(head, head->no_body); }

/* Ends the body, with the app's trailers if there are any. */
static void finish_body(VALUE self) {
  struct gyre_http_exchange *exchange = gyre_http_response_writable(self);
  struct gyre_http_buffer *output = gyre_http_response_head_trailers(exchange, "");
  if (output->failed) rb_memerror();
  exchange->response.framing = GYRE_HTTP_NO_BODY;
  check(exchange, gyre_http2_stream_finish(gyre_http2_stream_of(exchange), output->bytes, output->length));
}

static void send_response(VALUE self, const struct gyre_http_response_head *head, VALUE body) {
  uint64_t length = head->length;
  bool ends = head->no_body || (length == 0 && NIL_P(head->exchange->response_trailers));
  submit_head(head, ends);
  if (ends) return;
  /* Makes frozen views if the fiber may park: the app could change the parts meanwhile. */
  bool fits = length < LEAST_BYTES && length < head->exchange->connection->acceptor->limits.http2.output;
  VALUE parts = fits ? body : rb_ary_new_capa(RARRAY_LEN(body));
  for (long i = 0; !fits && i < RARRAY_LEN(body); i++) rb_ary_push(parts, rb_str_new_frozen(RARRAY_AREF(body, i)));
  for (long i = 0; i < RARRAY_LEN(parts); i++) queue(self, RARRAY_AREF(parts, i));
  RB_GC_GUARD(parts);
  finish_body(self);
}

static void send_body(VALUE self, VALUE string) { queue(self, rb_str_new_frozen(string)); }

static uint64_t send_file(VALUE self, VALUE io, int64_t offset, uint64_t length) {
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

/* --- the request --- */

static void begin(struct gyre_http_exchange *exchange, const struct gyre_http_request *request) {
  struct gyre_http_connection *connection = exchange->connection;
  struct gyre_http_acceptor *acceptor = connection->acceptor;
  struct gyre_http2_connection *http2 = connection->own;
  struct gyre_http2_stream *stream = gyre_http2_of(exchange)->stream = request->stream;
  struct gyre_http_head *head = &stream->head;
  stream->owner = exchange;
  http2->running++;
  exchange->method = head->method_number;
  exchange->head_only = head->method_number == GYRE_HTTP_METHOD_HEAD;
  /* Not over if trailers have come: end_body takes them. */
  exchange->body.over = stream->in.ended && !stream->in.bytes && !stream->trailers.count && !stream->trailers_wrong;
  exchange->expects_continue = (head->flags & GYRE_HTTP_HEAD_EXPECT_CONTINUE) && !stream->in.bytes;
  if (!head->status && head->content_length > acceptor->limits.body_bytes) {
    head->status = 413;
    head->reason = "the body is too long";
  } else if (head->status && head->status != 503) { /* 503 is not the client's fault */
    acceptor->statistics.malformed++;
  }
  exchange->status = head->status;
  exchange->reason = head->reason;
  if (head->status) {
    exchange->env = gyre_http_refused_env(connection, request);
  } else {
    acceptor->statistics.requests++;
    gyre_http_exchange_limit(exchange);
    VALUE protocol = Qnil;
    if (stream->protocol.length) { /* RFC 8441 */
      const char *name = request->bytes + stream->protocol.offset;
      gyre_http2_of(exchange)->websocket = SAME_WORD(name, stream->protocol.length, "websocket");
      protocol = rb_ary_new_from_args(1, rb_str_new(name, stream->protocol.length));
    }
    exchange->env = gyre_http_env(exchange, head, request->bytes);
    if (!NIL_P(protocol)) rb_hash_aset(exchange->env, key_protocol, protocol);
    if (gyre_http2_of(exchange)->websocket)
      rb_funcall(rb_path2class("Gyre::HTTP::Env"), rb_intern("upgrade"), 2, exchange->env, exchange->handle);
  }
  gyre_http2_stream_drop_head(stream);
}

static void done(struct gyre_http_connection *connection, struct gyre_http_exchange *exchange) {
  struct gyre_http2_stream *stream = gyre_http2_stream_of(exchange);
  struct gyre_http_connection *tunnel = gyre_http2_of(exchange)->tunnel;
  struct gyre_http_reader *writer = gyre_http2_of(exchange)->writer;
  if (writer) gyre_wake(connection->acceptor->scheduler, &writer->wait.parked);
  gyre_http_exchange_free(exchange);
  if (!tunnel || !gyre_http2_tunnel_begin(tunnel, stream)) gyre_http2_connection_leave_stream(connection, stream);
}

static void drop(struct gyre_http_connection *connection, const struct gyre_http_request *request) {
  gyre_http2_stream_refuse(request->stream);
}

static void end_body(struct gyre_http_exchange *exchange, struct gyre_http2_stream *stream) {
  exchange->body.over = true;
  if (stream->trailers_wrong) gyre_http_request_fail(exchange, 431, "trailer fields that are too long in all");
  if (!stream->trailers.count) return;
  struct gyre_http_head trailers = {.fields = stream->trailers.fields, .field_count = stream->trailers.count};
  exchange->trailers = gyre_http_field_hash(&trailers, stream->trailers.text->bytes);
}

static VALUE take_piece(struct gyre_http_exchange *exchange, struct gyre_http2_stream *stream, size_t most) {
  size_t held = gyre_bytes_held(stream->in.bytes);
  if (most > held) most = held;
  exchange->body.received += (int64_t)most;
  if (exchange->body.received > exchange->connection->acceptor->limits.body_bytes)
    gyre_http_request_fail(exchange, 413, "the body is too long");
  VALUE piece = rb_str_new(stream->in.bytes->bytes + stream->in.bytes->offset, (long)most);
  gyre_http2_stream_taken(stream, most);
  gyre_http2_connection_send(exchange->connection); /* the client's window grows */
  return piece;
}

static VALUE read_body(VALUE self, size_t most) {
  const char *reason = NULL;
  gyre_yield_if_due(gyre_http_exchange_get(self)->connection->acceptor->scheduler);
  for (bool late = false;; late = !gyre_http_wait_for_input(self, &reason)) {
    struct gyre_http_exchange *exchange = gyre_http_request_reading(self);
    struct gyre_http2_stream *stream = gyre_http2_stream_of(exchange);
    if (exchange->body.over) return Qnil;
    if (stream->in.discards)
      gyre_http_request_fail(exchange, 503, GYRE_HTTP_BODIES_HOLD_TOO_MUCH); /* its rest was dropped */
    if (stream->in.bytes) return take_piece(exchange, stream, most);
    if (stream->in.ended) {
      end_body(exchange, stream);
      return Qnil;
    }
    if (stream->closed || stream->session->input_over) gyre_http_request_cut(self);
    if (late) gyre_http_request_fail(exchange, 408, reason);
    if (exchange->expects_continue) (void)gyre_http_response_interim(exchange, 100, Qnil);
    exchange->expects_continue = false;
  }
}

static VALUE hijack(struct gyre_http_exchange *exchange) {
  if (!gyre_http2_of(exchange)->websocket || exchange->response.status || gyre_http_exchange_is_over(exchange))
    rb_raise(rb_eIOError, "only a stream of HTTP/2 for a WebSocket, before its response, can be hijacked");
  VALUE self = exchange->handle, socket = gyre_http_hijack(self, gyre_http2_tunnel_respond);
  exchange = gyre_http_exchange_get(self);
  exchange->body.over = gyre_http2_of(exchange)->cut = true; /* prevents other writes */
  return socket;
}

static bool is_reset(const struct gyre_http_exchange *exchange) { return gyre_http2_stream_of(exchange)->closed; }

static bool is_over(const struct gyre_http_exchange *exchange) {
  const struct gyre_http2_stream *stream = gyre_http2_stream_of(exchange);
  return gyre_http2_of(exchange)->cut || stream->closed || stream->cut;
}

/* Ends the stream: at once if `reset`, else after queued bytes (by a reset if incomplete). */
static void close_exchange(struct gyre_http_exchange *exchange, bool reset) {
  struct gyre_http2_exchange *own = gyre_http2_of(exchange);
  struct gyre_http_connection *connection = exchange->connection;
  if (own->tunnel && !exchange->hijacked) gyre_http_connection_close(own->tunnel, reset);
  if (connection->state != GYRE_HTTP_SERVING || own->stream->closed || own->tunnel) return;
  if (reset) gyre_http2_stream_reset(own->stream, GYRE_HTTP2_INTERNAL_ERROR);
  own->cut = true;
  gyre_http2_stream_cut(own->stream);
  gyre_http2_connection_send(connection);
  gyre_http_exchange_wake_reader(exchange);
  if (own->writer) gyre_wake(connection->acceptor->scheduler, &own->writer->wait.parked);
}

const struct gyre_http_exchange_operations gyre_http2_exchange_operations = {
    GYRE_HTTP_EXCHANGE(struct gyre_http2_exchange), .is_over = is_over, .upgrade = gyre_http2_tunnel_open};

void gyre_init_http2(void) {
  gyre_http_protocols.inner = &gyre_http2_tunnel;
  exchange_class = gyre_http_define_exchange("H2", &gyre_http2_exchange_operations);
  key_protocol = gyre_kept(rb_str_freeze(rb_str_new_cstr("rack.protocol")));
}
