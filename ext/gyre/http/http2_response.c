/*
 * The response's side of Gyre::HTTP::H2::Exchange: write_response, write_head, write_body,
 * finish_body, write_file, write_interim. All of it is queued in the stream, which goes out at the
 * turn's end as far as the client's windows and its socket allow; a fiber parks while more than
 * limits.stream_output_bytes_limit is queued.
 */
#include "feature.h"

#ifdef GYRE_HAVE_NGHTTP2

#include "http/http1_response_head.h"
#include "http/http2.h"

#include <errno.h>
#include <ruby/io.h>
#include <unistd.h>

#define FILE_BYTES (32 * 1024) /* read of a file at once */
#define LEAST_BYTES 4096       /* may be queued in any case */

/* --- waiting for room --- */

static struct gyre_http_exchange *writable(VALUE self) {
  struct gyre_http_exchange *exchange = gyre_http_exchange_open(self);
  if (!exchange || exchange->cut || exchange->stream->closed) rb_syserr_fail(EPIPE, "the stream is over");
  if (exchange->writing) rb_raise(rb_eIOError, "another fiber is writing on this stream");
  return exchange;
}

NORETURN(static void write_failed(struct gyre_http_exchange *exchange, int error));
static void write_failed(struct gyre_http_exchange *exchange, int error) {
  gyre_http2_stream_cut(exchange->stream);
  exchange->cut = true;
  gyre_http2_connection_send(exchange->connection);
  rb_syserr_fail(error, "write a response");
}

static VALUE room_wait_body(VALUE argument) {
  gyre_wait_again(&((struct gyre_http1_reader *)argument)->wait);
  return Qnil;
}

static VALUE room_wait_ensure(VALUE argument) {
  struct gyre_http1_reader *wait = (struct gyre_http1_reader *)argument;
  struct gyre_http_exchange *exchange = gyre_http_exchange_get(wait->self);
  if (exchange) exchange->writing = false;
  if (exchange && exchange->writer == wait) exchange->writer = NULL;
  gyre_wait_end(&wait->wait);
  return Qnil;
}

NORETURN(static void client_is_slow(struct gyre_http_exchange *exchange));
static void client_is_slow(struct gyre_http_exchange *exchange) {
  exchange->cut = true;
  gyre_http2_stream_reset(exchange->stream, GYRE_HTTP2_CANCEL);
  gyre_http2_connection_send(exchange->connection);
  rb_exc_raise(gyre_http1_error("WriteTimeout", 0, "the client took nothing of its response for too long"));
}

/* How much more may be queued now; parks while there is no room. Where all responses hold too much,
 * each may still go on by a little. `held`: what is to be queued, as far as that is known. */
static size_t room(VALUE self, size_t held) {
  for (;;) {
    struct gyre_http_exchange *exchange = writable(self);
    struct gyre_http1_acceptor *acceptor = exchange->connection->acceptor;
    size_t queued = gyre_http2_stream_queued(exchange->stream), most = acceptor->limits.http2.output;
    if (most > LEAST_BYTES && gyre_http_budget_is_over(&acceptor->capacity->output)) most = LEAST_BYTES;
    if (queued < most) return most - queued;
    uint64_t sent = exchange->stream->sent_bytes;
    int64_t limit_ns = gyre_http_exchange_begin_wait(exchange, sent, held);
    if (limit_ns == 0) client_is_slow(exchange);
    int64_t from_ns = gyre_loop_now(&acceptor->scheduler->loop);
    struct gyre_http1_reader wait = {.self = self};
    gyre_wait_begin(acceptor->scheduler, &wait.wait, self);
    gyre_wait_arm(&wait.wait, limit_ns);
    exchange->writer = &wait;
    exchange->writing = true;
    rb_ensure(room_wait_body, (VALUE)&wait, room_wait_ensure, (VALUE)&wait);
    exchange = writable(self);
    gyre_http_exchange_end_wait(exchange, from_ns);
    if (wait.wait.timed_out && exchange->stream->sent_bytes == sent) client_is_slow(exchange);
  }
}

/* Queues all of a String, of which nothing changes meanwhile. */
static void queue(VALUE self, VALUE string) {
  size_t length = (size_t)RSTRING_LEN(string), offset = 0;
  while (offset < length) {
    size_t piece = room(self, length - offset);
    struct gyre_http_exchange *exchange = writable(self);
    if (piece > length - offset) piece = length - offset;
    int error = gyre_http2_stream_write(exchange->stream, RSTRING_PTR(string) + offset, piece);
    if (error < 0) write_failed(exchange, -error);
    offset += piece;
    gyre_http2_connection_send(exchange->connection);
  }
  RB_GC_GUARD(string);
}

/* --- heads: arguments are converted before the exchange is looked at --- */

static void check(struct gyre_http_exchange *exchange, int error) {
  if (error == -ENOMEM) rb_memerror();
  if (error < 0) write_failed(exchange, -error);
  gyre_http2_connection_send(exchange->connection);
}

static void send_head(struct gyre_http_exchange *exchange, struct gyre_http1_response_head *fields, int status,
                      bool ends) {
  struct gyre_http1_buffer *output = fields->output;
  if (!fields->has_date) gyre_http1_head_date(output, &exchange->connection->acceptor->date);
  if (output->failed) rb_memerror();
  check(exchange, gyre_http2_stream_respond(exchange->stream, status, output->bytes, output->length, ends));
  exchange->head_sent = true;
  exchange->sent_status = (uint16_t)status;
}

/* Ends the body, with the trailers that the app has set. */
static void finish(struct gyre_http_exchange *exchange) {
  struct gyre_http1_buffer *output = gyre_http1_response_head_begin(exchange);
  gyre_http1_response_head_trailers(exchange, output);
  if (output->failed) rb_memerror();
  exchange->framing = GYRE_HTTP1_NO_BODY;
  check(exchange, gyre_http2_stream_finish(exchange->stream, output->bytes, output->length));
}

/* Contract: exchange.rb. */
static VALUE exchange_write_response(VALUE self, VALUE status, VALUE headers, VALUE body) {
  if (gyre_http_exchange_is_outside(self))
    return gyre_http_exchange_hand_over(self, "write_response", 3, (VALUE[]){status, headers, body});
  struct gyre_http_exchange *exchange = writable(self);
  struct gyre_http1_response_head fields;
  if (!gyre_http1_response_head_whole(&fields, exchange, status, headers, body)) return Qfalse;
  uint64_t length = fields.length;

  gyre_http_exchange_end_limit(exchange); /* the app has done its part */
  bool ends = fields.no_body || (length == 0 && NIL_P(exchange->response_trailers));
  exchange->framing = GYRE_HTTP1_NO_BODY;
  send_head(exchange, &fields, fields.status, ends);
  if (ends) return Qtrue;
  exchange->body_bytes_sent = length;
  /* Frozen views of the parts, so that neither they nor the Array change while the fiber is
   * parked; where it does not park, that is not needed. */
  bool fits = length < LEAST_BYTES && length < exchange->connection->acceptor->limits.http2.output;
  exchange->whole = true;
  VALUE parts = fits ? body : rb_ary_new_capa(RARRAY_LEN(body));
  for (long i = 0; !fits && i < RARRAY_LEN(body); i++) rb_ary_push(parts, rb_str_new_frozen(RARRAY_AREF(body, i)));
  for (long i = 0; i < RARRAY_LEN(parts); i++) queue(self, RARRAY_AREF(parts, i));
  RB_GC_GUARD(parts);
  finish(writable(self));
  return Qtrue;
}

/* As HTTP/1's, but that each body ends with its stream: :close is like :chunked, and :raw a stream
 * both ways (RFC 9113, section 8.5; RFC 8441). */
static VALUE exchange_write_head(VALUE self, VALUE status, VALUE headers, VALUE given) {
  if (gyre_http_exchange_is_outside(self))
    return gyre_http_exchange_hand_over(self, "write_head", 3, (VALUE[]){status, headers, given});
  int code = NUM2INT(status);
  bool has_length = !NIL_P(given) && !RB_SYMBOL_P(given);
  uint64_t length = has_length ? NUM2ULL(given) : 0;
  struct gyre_http_exchange *exchange = writable(self);
  if (exchange->head_sent) rb_raise(rb_eRuntimeError, "the head has been sent already");
  if (code < 200 || code > 999) rb_raise(rb_eArgError, "status %d is no final one", code);
  Check_Type(headers, T_HASH);
  if (RB_SYMBOL_P(given) && given != ID2SYM(rb_intern("chunked")) && given != ID2SYM(rb_intern("close")) &&
      given != ID2SYM(rb_intern("raw")))
    rb_raise(rb_eArgError, "no framing: %+" PRIsVALUE, given);
  bool no_body = NIL_P(given) || exchange->head_only || code == 204 || code == 304;

  struct gyre_http1_response_head fields = {
      .exchange = exchange, .output = gyre_http1_response_head_begin(exchange), .announced = Qnil, .wrong = Qnil};
  gyre_http1_response_head_fields(&fields, headers);
  if (fields.unknown_kind) rb_raise(rb_eArgError, "a header's name and value must be Strings");
  if (has_length && code != 204) gyre_http1_response_head_length(fields.output, length);
  exchange->framing = (uint8_t)(no_body      ? GYRE_HTTP1_NO_BODY
                                : has_length ? GYRE_HTTP1_LENGTH
                                             : GYRE_HTTP1_CHUNKED_BODY);
  exchange->body_bytes_sent = 0;
  send_head(exchange, &fields, code, no_body);
  return no_body ? Qnil : given;
}

bool gyre_http2_write_interim(struct gyre_http_exchange *exchange, int status, VALUE headers) {
  if (exchange->head_sent) return false;
  struct gyre_http1_response_head fields = {
      .exchange = exchange, .output = gyre_http1_response_head_begin(exchange), .announced = Qnil, .wrong = Qnil};
  if (!NIL_P(headers)) gyre_http1_response_head_fields(&fields, headers);
  if (fields.unknown_kind) rb_raise(rb_eArgError, "a header's name and value must be Strings");
  if (fields.output->failed) rb_memerror();
  if (status == 100) exchange->expects_continue = false;
  check(exchange, gyre_http2_stream_interim(exchange->stream, status, fields.output->bytes, fields.output->length));
  return true;
}

static VALUE exchange_write_interim(VALUE self, VALUE status, VALUE headers) {
  if (gyre_http_exchange_is_outside(self))
    return gyre_http_exchange_hand_over(self, "write_interim", 2, (VALUE[]){status, headers});
  int code = NUM2INT(status);
  if (code < 100 || code > 199 || code == 101) rb_raise(rb_eArgError, "status %d is no interim one", code);
  Check_Type(headers, T_HASH);
  if (!gyre_http_exchange_get(self)) gyre_http1_request_is_over();
  if (!gyre_http2_exchange_stream(self)) return Qfalse;
  return gyre_http2_write_interim(gyre_http_exchange_get(self), code, headers) ? Qtrue : Qfalse;
}

/* --- bodies --- */

static VALUE exchange_write_body(VALUE self, VALUE string) {
  if (gyre_http_exchange_is_outside(self)) return gyre_http_exchange_hand_over(self, "write_body", 1, &string);
  struct gyre_http_exchange *exchange = writable(self);
  Check_Type(string, T_STRING);
  gyre_yield_if_due(exchange->connection->acceptor->scheduler); /* a client may take it as fast as the app writes */
  exchange = writable(self);
  size_t length = (size_t)RSTRING_LEN(string);
  if (length == 0 || exchange->framing == GYRE_HTTP1_NO_BODY) return SIZET2NUM(length);
  exchange->body_bytes_sent += length;
  queue(self, rb_str_new_frozen(string));
  return SIZET2NUM(length);
}

static VALUE exchange_finish_body(VALUE self) {
  if (gyre_http_exchange_is_outside(self)) return gyre_http_exchange_hand_over(self, "finish_body", 0, NULL);
  struct gyre_http_exchange *exchange = writable(self);
  gyre_http_exchange_end_limit(exchange);
  if (exchange->framing != GYRE_HTTP1_NO_BODY) finish(exchange);
  return Qnil;
}

static VALUE exchange_write_file(VALUE self, VALUE io, VALUE from, VALUE size) {
  if (gyre_http_exchange_is_outside(self))
    return gyre_http_exchange_hand_over(self, "write_file", 3, (VALUE[]){io, from, size});
  int64_t offset = NUM2OFFT(from);
  uint64_t length = NUM2ULL(size), sent = 0;
  io = rb_io_get_io(io);
  if (writable(self)->framing == GYRE_HTTP1_NO_BODY) return ULL2NUM(length);
  while (sent < length) {
    gyre_yield_if_due(writable(self)->connection->acceptor->scheduler);
    size_t piece = room(self, 0);
    struct gyre_http_exchange *exchange = writable(self);
    if (piece > FILE_BYTES) piece = FILE_BYTES;
    if (piece > length - sent) piece = (size_t)(length - sent);
    int file = rb_io_descriptor(io); /* raises when it was closed meanwhile */
    char *place = gyre_bytes_reserve(&exchange->stream->output, piece);
    if (!place) rb_memerror();
    ssize_t count = pread(file, place, piece, (off_t)(offset + (int64_t)sent));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) rb_sys_fail("read a file");
    if (count == 0) break; /* the file has become shorter */
    exchange->stream->output->length += (uint32_t)count;
    exchange->body_bytes_sent += (uint64_t)count;
    sent += (uint64_t)count;
    gyre_http2_stream_wrote(exchange->stream);
    gyre_http2_connection_send(exchange->connection);
  }
  RB_GC_GUARD(io);
  return ULL2NUM(sent);
}

/* --- refusals --- */

static VALUE refusal_body(VALUE self) {
  struct gyre_http_exchange *exchange = writable(self);
  VALUE text = rb_sprintf("%s\n", exchange->reason);
  struct gyre_http1_response_head fields = {.exchange = exchange, .output = gyre_http1_response_head_begin(exchange)};
  gyre_http1_response_head_text(fields.output, "content-type: text/plain\r\n");
  if (exchange->status == 503) gyre_http1_response_head_text(fields.output, "retry-after: 1\r\n");
  gyre_http1_response_head_length(fields.output, (uint64_t)RSTRING_LEN(text));
  send_head(exchange, &fields, exchange->status, exchange->head_only);
  if (exchange->head_only) return Qnil;
  exchange->body_bytes_sent = (uint64_t)RSTRING_LEN(text);
  queue(self, text);
  check(exchange, gyre_http2_stream_finish(exchange->stream, NULL, 0));
  return Qnil;
}

void gyre_http2_response_refuse(struct gyre_http_exchange *exchange) {
  gyre_http_exchange_refuse(exchange, refusal_body);
}

void gyre_init_http2_response(void) {
  gyre_http_exchange_define_response(gyre_cHttp2Exchange,
                                     &(struct gyre_http_response_methods){.write_response = exchange_write_response,
                                                                          .write_head = exchange_write_head,
                                                                          .write_body = exchange_write_body,
                                                                          .finish_body = exchange_finish_body,
                                                                          .write_file = exchange_write_file,
                                                                          .write_interim = exchange_write_interim});
}

#endif
