/*
 * The request's side of Gyre::HTTP::H2::Exchange: next_request, read_body and the questions. Runs
 * in the handler's fiber, or in another one of the app's: after each wait the exchange may have
 * ended, and its stream with it, so both are fetched again from the handle.
 */
#include "feature.h"

#ifdef GYRE_HAVE_NGHTTP2

#include "http/http2.h"

#include <errno.h>

VALUE gyre_cHttp2Exchange;

static VALUE key_protocol;

void gyre_http2_request_begin(struct gyre_http_exchange *exchange, struct gyre_http2_stream *stream) {
  struct gyre_http1_acceptor *acceptor = exchange->connection->acceptor;
  struct gyre_http1_head *head = &stream->head;
  const char *bytes = stream->block.text ? stream->block.text->bytes : NULL;
  exchange->method = head->method_number;
  exchange->head_only = head->method_number == GYRE_HTTP1_METHOD_HEAD;
  /* Trailers that came along are taken over at the body's end, which is read then. */
  exchange->body_over = stream->input_ended && !stream->input && !stream->trailers.count && !stream->trailers_wrong;
  exchange->body_remaining = exchange->body_over ? 0 : -1;
  exchange->expects_continue = (head->flags & GYRE_HTTP1_EXPECT_CONTINUE) && !stream->input;
  if (!head->status && head->content_length > acceptor->limits.body_bytes) {
    head->status = 413;
    head->reason = "the body is too long";
  } else if (head->status && head->status != 503) { /* 503: the client has done nothing wrong */
    acceptor->malformed++;
  }
  exchange->status = head->status;
  exchange->reason = head->reason;
  if (head->status) {
    const struct gyre_http1_request request = {.head = head, .bytes = bytes, .status = head->status};
    exchange->env = gyre_http1_refused_env(exchange, &request);
  } else {
    acceptor->requests++;
    gyre_http_exchange_limit(exchange);
    VALUE protocol = Qnil;
    if (stream->protocol.length) /* RFC 8441 */
      protocol = rb_ary_new_from_args(1, rb_str_new(bytes + stream->protocol.offset, stream->protocol.length));
    exchange->env = gyre_http1_env(exchange, head, bytes);
    if (!NIL_P(protocol)) rb_hash_aset(exchange->env, key_protocol, protocol);
  }
  gyre_http2_stream_drop_head(stream);
}

static VALUE exchange_next_request(VALUE self) {
  struct gyre_http_exchange *exchange = gyre_http_exchange_get(self);
  if (!exchange) return Qnil;
  if (exchange->taken) {
    gyre_http_exchange_measure(exchange);
    return Qnil;
  }
  if (exchange->status) {
    gyre_http2_response_refuse(exchange);
    return Qnil;
  }
  exchange->taken = true;
  return exchange->env;
}

/* --- the body --- */

NORETURN(static void fail_request(struct gyre_http_exchange *exchange, int status, const char *reason));
static void fail_request(struct gyre_http_exchange *exchange, int status, const char *reason) {
  exchange->body_over = false;
  exchange->status = (uint16_t)status;
  exchange->reason = reason;
  rb_exc_raise(gyre_http1_error("RequestError", status, reason));
}

NORETURN(static void cut_off(VALUE self));
static void cut_off(VALUE self) {
  if (!gyre_http_exchange_get(self)) gyre_http1_request_is_over();
  rb_exc_raise(gyre_http1_error("RequestCut", 0, "the client left before the end of the request's body"));
}

static void end_body(struct gyre_http_exchange *exchange, struct gyre_http2_stream *stream) {
  exchange->body_over = true;
  if (stream->trailers_wrong) fail_request(exchange, 431, "trailer fields that are too long in all");
  if (!stream->trailers.count) return;
  struct gyre_http1_head trailers = {.fields = stream->trailers.fields, .field_count = stream->trailers.count};
  exchange->trailers = gyre_http1_field_hash(&trailers, stream->trailers.text->bytes);
}

static VALUE take_piece(struct gyre_http_exchange *exchange, struct gyre_http2_stream *stream, size_t most) {
  size_t held = gyre_bytes_held(stream->input);
  if (most > held) most = held;
  exchange->body_received += (int64_t)most;
  if (exchange->body_received > exchange->connection->acceptor->limits.body_bytes)
    fail_request(exchange, 413, "the body is too long");
  VALUE piece = rb_str_new(stream->input->bytes + stream->input->offset, (long)most);
  gyre_http2_stream_taken(stream, most);
  gyre_http2_connection_send(exchange->connection); /* the client's window grows */
  return piece;
}

static VALUE exchange_read_body(VALUE self, VALUE length) {
  if (gyre_http_exchange_is_outside(self)) return gyre_http_exchange_hand_over(self, "read_body", 1, &length);
  long most = NUM2LONG(length);
  if (most <= 0) rb_raise(rb_eArgError, "cannot read %ld bytes", most);
  struct gyre_http_exchange *exchange = gyre_http_exchange_open(self);
  if (exchange)
    gyre_yield_if_due(exchange->connection->acceptor->scheduler); /* a client may send as fast as the app reads */
  const char *reason = NULL;
  for (bool late = false;; late = !gyre_http_wait_for_input(self, &reason)) {
    if (!(exchange = gyre_http_exchange_open(self))) cut_off(self);
    struct gyre_http2_stream *stream = exchange->stream;
    if (exchange->reader) gyre_http_refuse_second_reader();
    if (exchange->status) fail_request(exchange, exchange->status, exchange->reason);
    if (exchange->body_over) return Qnil;
    if (stream->input) return take_piece(exchange, stream, (size_t)most);
    if (stream->input_ended) {
      end_body(exchange, stream);
      return Qnil;
    }
    if (stream->closed || stream->session->input_over) cut_off(self);
    if (late) fail_request(exchange, 408, reason);
    if (exchange->expects_continue && !exchange->head_sent) {
      (void)gyre_http2_write_interim(exchange, 100, Qnil);
      exchange->expects_continue = false;
    }
  }
}

/* --- the end, and questions --- */

static VALUE exchange_hijack(VALUE self) {
  (void)self;
  rb_raise(rb_eIOError, "a stream of HTTP/2 has no socket of its own that could be hijacked");
  return Qnil;
}

/* What was written still arrives; a response that is not complete ends with a reset. */
static VALUE exchange_close(VALUE self) {
  if (gyre_http_exchange_is_outside(self)) return gyre_http_exchange_hand_over(self, "close", 0, NULL);
  struct gyre_http_exchange *exchange = gyre_http_exchange_open(self);
  if (!exchange || exchange->stream->closed) return Qnil;
  exchange->cut = true;
  gyre_http2_stream_cut(exchange->stream);
  gyre_http2_connection_send(exchange->connection);
  if (exchange->reader) gyre_wake(exchange->connection->acceptor->scheduler, &exchange->reader->wait.parked);
  if (exchange->writer) gyre_wake(exchange->connection->acceptor->scheduler, &exchange->writer->wait.parked);
  return Qnil;
}

static VALUE exchange_reset(VALUE self) {
  if (gyre_http_exchange_is_outside(self)) return gyre_http_exchange_hand_over(self, "reset", 0, NULL);
  struct gyre_http2_stream *stream = gyre_http2_exchange_stream(self);
  if (!stream) return Qnil;
  gyre_http2_stream_reset(stream, GYRE_HTTP2_INTERNAL_ERROR);
  return exchange_close(self);
}

static VALUE exchange_keep_alive_p(VALUE self) {
  const struct gyre_http_exchange *exchange = gyre_http_exchange_open(self);
  return exchange && !exchange->connection->http2->session.going ? Qtrue : Qfalse;
}

static VALUE exchange_closed_p(VALUE self) {
  const struct gyre_http2_stream *stream = gyre_http2_exchange_stream(self);
  return stream && !stream->cut && !gyre_http_exchange_get(self)->cut ? Qfalse : Qtrue;
}

static VALUE exchange_hijacked_p(VALUE self) {
  (void)self;
  return Qfalse;
}

void gyre_init_http2(void) {
  VALUE http = rb_define_module_under(gyre_mGyre, "HTTP");
  VALUE exchange = rb_define_class_under(http, "Exchange", rb_cObject);
  VALUE h2 = rb_define_module_under(http, "H2");
  gyre_cHttp2Exchange = rb_define_class_under(h2, "Exchange", exchange);
  rb_gc_register_mark_object(gyre_cHttp2Exchange);
  rb_undef_alloc_func(gyre_cHttp2Exchange);
  key_protocol = rb_str_freeze(rb_str_new_cstr("rack.protocol"));
  rb_gc_register_mark_object(key_protocol);
}

void gyre_init_http2_request(void) {
  gyre_http_exchange_define_request(gyre_cHttp2Exchange,
                                    &(struct gyre_http_request_methods){.read_body = exchange_read_body,
                                                                        .next_request = exchange_next_request,
                                                                        .hijack = exchange_hijack,
                                                                        .close = exchange_close,
                                                                        .reset = exchange_reset,
                                                                        .keep_alive_p = exchange_keep_alive_p,
                                                                        .closed_p = exchange_closed_p,
                                                                        .hijacked_p = exchange_hijacked_p});
}

#endif
