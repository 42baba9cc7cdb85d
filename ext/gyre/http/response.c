/* The response's side of an exchange (lib/gyre/http/exchange.rb) for all versions. Converts
 * arguments before it fetches the exchange: their methods may do anything, even respond. */
#include "http/response_head.h"

#include <errno.h>
#include <ruby/io.h>

struct gyre_http_exchange *gyre_http_response_writable(VALUE self) {
  struct gyre_http_exchange *exchange = gyre_http_exchange_open(self);
  if (!exchange || gyre_http_exchange_is_over(exchange)) rb_syserr_fail(EPIPE, "the connection or stream is over");
  if (exchange->response.writing) rb_raise(rb_eIOError, "another fiber is writing this response");
  return exchange;
}

static void end_head(struct gyre_http_response_head *head, enum gyre_http_framing framing) {
  struct gyre_http_exchange *exchange = head->exchange;
  exchange->response.framing = (uint8_t)framing;
  exchange->operations->end_head(head);
  if (head->output->failed) rb_memerror();
  exchange->response.head_sent = true;
  exchange->response.status = (uint16_t)head->status;
  exchange->response.body_bytes = 0;
}

static void send_whole(VALUE self, struct gyre_http_response_head *head, VALUE body) {
  struct gyre_http_exchange *exchange = head->exchange;
  end_head(head, GYRE_HTTP_NO_BODY);
  exchange->response.whole = true;
  if (!head->no_body) exchange->response.body_bytes = head->length;
  exchange->operations->send_response(self, head, body);
}

static VALUE exchange_write_response(VALUE self, VALUE status, VALUE headers, VALUE body) {
  if (gyre_http_exchange_is_outside(self))
    return gyre_http_exchange_hand_over(self, "write_response", 3, (VALUE[]){status, headers, body});
  struct gyre_http_exchange *exchange = gyre_http_response_writable(self);
  struct gyre_http_response_head head;
  if (!gyre_http_response_head_whole(&head, exchange, status, headers, body)) return Qfalse;
  gyre_http_exchange_end_limit(exchange); /* the app has finished its part */
  send_whole(self, &head, body);
  return Qtrue;
}

static enum gyre_http_framing framing_of(VALUE given) {
  if (NIL_P(given)) return GYRE_HTTP_NO_BODY;
  if (!RB_SYMBOL_P(given)) return GYRE_HTTP_LENGTH;
  if (given == ID2SYM(rb_intern("chunked"))) return GYRE_HTTP_CHUNKED_BODY;
  if (given == ID2SYM(rb_intern("close"))) return GYRE_HTTP_UNTIL_CLOSE;
  if (given == ID2SYM(rb_intern("raw"))) return GYRE_HTTP_RAW;
  rb_raise(rb_eArgError, "no framing: %+" PRIsVALUE, given);
}

static void app_fields(struct gyre_http_response_head *head, VALUE headers) {
  gyre_http_response_head_fields(head, headers);
  if (head->unknown_kind) rb_raise(rb_eArgError, "a header's name and value must be Strings");
}

/* HTTP/2's :close means :chunked, and :raw a stream in both directions (RFC 9113, section 8.5; RFC
 * 8441). */
static VALUE exchange_write_head(VALUE self, VALUE status, VALUE headers, VALUE given) {
  if (gyre_http_exchange_is_outside(self))
    return gyre_http_exchange_hand_over(self, "write_head", 3, (VALUE[]){status, headers, given});
  int code = NUM2INT(status);
  uint64_t length = NIL_P(given) || RB_SYMBOL_P(given) ? 0 : NUM2ULL(given);
  struct gyre_http_exchange *exchange = gyre_http_response_writable(self);
  bool alone = exchange->operations->alone;
  if (exchange->response.head_sent) rb_raise(rb_eRuntimeError, "the head has been sent already");
  if (!(code == 101 && alone) && (code < 200 || code > 999)) rb_raise(rb_eArgError, "status %d is no final one", code);
  Check_Type(headers, T_HASH);
  enum gyre_http_framing framing = framing_of(given);
  if (framing == GYRE_HTTP_CHUNKED_BODY && exchange->http_1_0) {
    framing = GYRE_HTTP_UNTIL_CLOSE;
    given = ID2SYM(rb_intern("close"));
  }
  bool without = code == 204 || code == 304, no_body = framing != GYRE_HTTP_RAW && (exchange->head_only || without);

  struct gyre_http_response_head head = gyre_http_response_head_begin(exchange, code);
  head.own_framing = framing == GYRE_HTTP_RAW && alone;
  app_fields(&head, headers);
  if (framing == GYRE_HTTP_LENGTH && code != 204) gyre_http_buffer_length(head.output, length);
  if (framing == GYRE_HTTP_CHUNKED_BODY && alone && !without)
    gyre_http_buffer_text(head.output, "transfer-encoding: chunked\r\n");
  if (no_body) framing = GYRE_HTTP_NO_BODY;
  head.no_body = framing == GYRE_HTTP_NO_BODY;
  end_head(&head, framing);
  exchange->operations->send_head(self, &head);
  return framing == GYRE_HTTP_NO_BODY ? Qnil : given;
}

bool gyre_http_response_interim(struct gyre_http_exchange *exchange, int status, VALUE headers) {
  if (exchange->response.head_sent || exchange->http_1_0) return false;
  struct gyre_http_response_head head = gyre_http_response_head_begin(exchange, status);
  if (!NIL_P(headers)) app_fields(&head, headers);
  if (exchange->operations->alone) gyre_http_buffer_text(head.output, "\r\n");
  if (head.output->failed) rb_memerror();
  if (status == 100) exchange->expects_continue = false;
  exchange->operations->send_head(exchange->handle, &head);
  return true;
}

static VALUE exchange_write_interim(VALUE self, VALUE status, VALUE headers) {
  if (gyre_http_exchange_is_outside(self))
    return gyre_http_exchange_hand_over(self, "write_interim", 2, (VALUE[]){status, headers});
  int code = NUM2INT(status);
  if (code < 100 || code > 199 || code == 101) rb_raise(rb_eArgError, "status %d is no interim one", code);
  Check_Type(headers, T_HASH);
  struct gyre_http_exchange *exchange = gyre_http_exchange_get(self);
  if (!exchange) gyre_http_request_is_over();
  if (!gyre_http_exchange_open(self) || gyre_http_exchange_is_over(exchange)) return Qfalse;
  return gyre_http_response_interim(exchange, code, headers) ? Qtrue : Qfalse;
}

/* Checked when they are sent. */
static VALUE exchange_set_trailer(VALUE self, VALUE name, VALUE value) {
  struct gyre_http_exchange *exchange = gyre_http_exchange_get(self);
  if (!exchange) gyre_http_request_is_over();
  if (NIL_P(exchange->response_trailers)) exchange->response_trailers = rb_hash_new();
  return rb_hash_aset(exchange->response_trailers, name, value);
}

static VALUE exchange_write_body(VALUE self, VALUE string) {
  if (gyre_http_exchange_is_outside(self)) return gyre_http_exchange_hand_over(self, "write_body", 1, &string);
  struct gyre_http_exchange *exchange = gyre_http_response_writable(self);
  Check_Type(string, T_STRING);
  gyre_yield_if_due(exchange->connection->acceptor->scheduler); /* a fast client need not wait */
  exchange = gyre_http_response_writable(self);
  VALUE length = SIZET2NUM((size_t)RSTRING_LEN(string));
  if (RSTRING_LEN(string) == 0 || exchange->response.framing == GYRE_HTTP_NO_BODY) return length;
  exchange->response.body_bytes += (uint64_t)RSTRING_LEN(string);
  exchange->operations->send_body(self, string);
  return length;
}

static VALUE exchange_finish_body(VALUE self) {
  if (gyre_http_exchange_is_outside(self)) return gyre_http_exchange_hand_over(self, "finish_body", 0, NULL);
  struct gyre_http_exchange *exchange = gyre_http_response_writable(self);
  gyre_http_exchange_end_limit(exchange);
  if (exchange->response.framing != GYRE_HTTP_NO_BODY) exchange->operations->finish_body(self);
  return Qnil;
}

static VALUE exchange_write_file(VALUE self, VALUE io, VALUE from, VALUE size) {
  if (gyre_http_exchange_is_outside(self))
    return gyre_http_exchange_hand_over(self, "write_file", 3, (VALUE[]){io, from, size});
  int64_t offset = NUM2OFFT(from);
  uint64_t length = NUM2ULL(size);
  io = rb_io_get_io(io);
  struct gyre_http_exchange *exchange = gyre_http_response_writable(self);
  (void)rb_io_descriptor(io); /* raises if it is closed */
  if (exchange->response.framing != GYRE_HTTP_NO_BODY)
    length = exchange->operations->send_file(self, io, offset, length);
  RB_GC_GUARD(io);
  return ULL2NUM(length);
}

void gyre_http_response_refuse(struct gyre_http_exchange *exchange) {
  VALUE self = exchange->handle, env = exchange->env;
  bool alone = exchange->operations->alone; /* the connection ends with the refusal */
  exchange->connection->keep_alive = false;
  if (alone) exchange->env = Qnil;
  rb_funcall(exchange->connection->acceptor->handler, rb_intern("refused"), 4, self, env, INT2NUM(exchange->status),
             rb_str_new_cstr(exchange->reason));
  exchange = gyre_http_exchange_get(self);
  if (exchange && alone) gyre_http_connection_linger(exchange->connection);
}

void gyre_http_define_response(VALUE class) {
  rb_define_method(class, "write_response", exchange_write_response, 3);
  rb_define_method(class, "write_head", exchange_write_head, 3);
  rb_define_method(class, "write_interim", exchange_write_interim, 2);
  rb_define_method(class, "write_body", exchange_write_body, 1);
  rb_define_method(class, "finish_body", exchange_finish_body, 0);
  rb_define_method(class, "write_file", exchange_write_file, 3);
  rb_define_method(class, "[]=", exchange_set_trailer, 2);
}
