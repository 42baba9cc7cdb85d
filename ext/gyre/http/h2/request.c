/* The request's side of an HTTP/2 exchange. Fetches exchange and stream again after each wait,
 * during which they may end. */
#include "feature.h"

#ifdef GYRE_HAVE_NGHTTP2

#include "http/h2/client.h"
#include "http/h2/h2.h"
#include "http/scan.h"

static VALUE exchange_class, key_protocol;

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
  /* Takes over trailers at the body's end. */
  exchange->body.over = stream->in.ended && !stream->in.bytes && !stream->trailers.count && !stream->trailers_wrong;
  exchange->expects_continue = (head->flags & GYRE_HTTP_HEAD_EXPECT_CONTINUE) && !stream->in.bytes;
  if (!head->status && head->content_length > acceptor->limits.body_bytes) {
    head->status = 413;
    head->reason = "the body is too long";
  } else if (head->status && head->status != 503) { /* 503 is not the client's fault */
    acceptor->counts.malformed++;
  }
  exchange->status = head->status;
  exchange->reason = head->reason;
  if (head->status) {
    exchange->env = gyre_http_refused_env(connection, request);
  } else {
    acceptor->counts.requests++;
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
  if (!gyre_http2_of(exchange)->websocket || exchange->response.head_sent || gyre_http_exchange_is_over(exchange))
    rb_raise(rb_eIOError, "only a stream of HTTP/2 for a WebSocket, before its response, can be hijacked");
  return gyre_http2_hijack(exchange->handle);
}

static bool is_reset(const struct gyre_http_exchange *exchange) { return gyre_http2_stream_of(exchange)->closed; }

static bool is_over(const struct gyre_http_exchange *exchange) {
  const struct gyre_http2_stream *stream = gyre_http2_stream_of(exchange);
  return gyre_http2_of(exchange)->cut || stream->closed || stream->cut;
}

/* Sends written bytes; resets an incomplete response. */
static void close_stream(struct gyre_http_exchange *exchange, bool reset) {
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
    .bytes = sizeof(struct gyre_http2_exchange),
    .class = &exchange_class,
    .begin = begin,
    .done = done,
    .drop = drop,
    .is_reset = is_reset,
    .is_over = is_over,
    .read_body = read_body,
    .upgrade = gyre_http2_tunnel_open,
    .hijack = hijack,
    .close = close_stream,
    .end_head = gyre_http2_end_head,
    .send_head = gyre_http2_send_head,
    .send_response = gyre_http2_send_response,
    .send_body = gyre_http2_send_body,
    .send_file = gyre_http2_send_file,
    .finish_body = gyre_http2_finish_body,
};

void gyre_init_http2(void) {
  gyre_init_http2_connection();
  gyre_init_http2_client();
  gyre_init_http2_client_call();
  gyre_http_protocols.inner = &gyre_http2_tunnel;
  exchange_class = gyre_http_define_exchange("H2", &gyre_http2_exchange_operations);
  key_protocol = gyre_kept(rb_str_freeze(rb_str_new_cstr("rack.protocol")));
}

#endif
