/*
 * The response's side of Gyre::HTTP::H1::Exchange: write_response, write_head, write_body,
 * finish_body, write_file, write_interim. Heads are built in a buffer that the acceptor lends until
 * the fiber parks; what the transport does not take at once moves into a String first.
 */
#include "http/http1_response_head.h"

#include <errno.h>
#include <ruby/io.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#define COPY_BYTES_LIMIT 16384 /* a body up to here is copied behind the head: one send of one piece */
#define VECTORS 64
#define PIECE_BYTES (1 << 20) /* sent at once, in some 0.3 ms; then others that have waited for long run */

static VALUE line_end;

static struct gyre_http_exchange *writable(VALUE self) {
  struct gyre_http_exchange *exchange = gyre_http_exchange_open(self);
  if (!exchange) rb_syserr_fail(EPIPE, "the connection is over");
  if (exchange->writing) rb_raise(rb_eIOError, "another fiber is writing on this connection");
  return exchange;
}

/* --- sending --- */

NORETURN(static void write_failed(struct gyre_http_exchange *exchange, int error));
static void write_failed(struct gyre_http_exchange *exchange, int error) {
  gyre_http1_connection_close(exchange->connection, false);
  rb_syserr_fail(error, "write a response");
}

struct output_wait {
  VALUE self;
  size_t held; /* by what is sent next, as far as that is known */
  int ready;
  bool gives_way, over;
};

static VALUE output_wait_body(VALUE argument) {
  struct output_wait *wait = (struct output_wait *)argument;
  struct gyre_http_exchange *exchange = writable(wait->self);
  const struct gyre_http1_acceptor *acceptor = exchange->connection->acceptor;
  exchange->writing = true;
  if (wait->gives_way) {
    gyre_yield_if_due(acceptor->scheduler);
  } else {
    const struct gyre_transport *transport = &exchange->connection->transport;
    gyre_loop_drained(&acceptor->scheduler->loop, transport->fd, transport->write.wants);
    int64_t limit_ns = gyre_http_exchange_begin_wait(exchange, exchange->given, wait->held);
    if (limit_ns != 0)
      wait->ready = gyre_wait_io(acceptor->scheduler, transport->fd, transport->write.wants, limit_ns, wait->self);
  }
  wait->over = true;
  return Qnil;
}

/* Interrupted in the middle of a message, which nothing may follow now. */
static VALUE output_wait_ensure(VALUE argument) {
  struct output_wait *wait = (struct output_wait *)argument;
  struct gyre_http_exchange *exchange = gyre_http_exchange_get(wait->self);
  if (!exchange) return Qnil;
  exchange->writing = false;
  if (!wait->over) gyre_http1_connection_close(exchange->connection, true);
  return Qnil;
}

/* Parks until the transport takes more. */
static struct gyre_http_exchange *wait_writable(VALUE self, size_t held) {
  struct output_wait wait = {.self = self, .held = held};
  int64_t from_ns = gyre_loop_now(&writable(self)->connection->acceptor->scheduler->loop);
  rb_ensure(output_wait_body, (VALUE)&wait, output_wait_ensure, (VALUE)&wait);
  struct gyre_http_exchange *exchange = writable(self);
  gyre_http_exchange_end_wait(exchange, from_ns);
  int ready = wait.ready;
  if (ready < 0) write_failed(exchange, -ready);
  if (ready == 0) {
    gyre_http1_connection_close(exchange->connection, true);
    rb_exc_raise(gyre_http1_error("WriteTimeout", 0, "the client took nothing of its response for too long"));
  }
  return exchange;
}

/* In the middle of a message whose client takes it as fast as it is sent. */
static struct gyre_http_exchange *let_others_run(VALUE self) {
  struct output_wait wait = {.self = self, .gives_way = true};
  rb_ensure(output_wait_body, (VALUE)&wait, output_wait_ensure, (VALUE)&wait);
  return writable(self);
}

/* Sends what `vectors` hold as far as the transport takes it; bytes, 0 for "would block". */
static size_t send_some(struct gyre_http_exchange *exchange, const struct iovec *vectors, int count) {
  ssize_t sent = gyre_transport_sendv(&exchange->connection->transport, vectors, count);
  if (sent < 0 && sent != -EAGAIN) write_failed(exchange, (int)-sent);
  if (sent < 0) return 0;
  exchange->given += (uint64_t)sent;
  return (size_t)sent;
}

/* Sends the rest of a String, parking whenever the transport is full. */
static void send_string(VALUE self, VALUE string, size_t offset) {
  struct gyre_http_exchange *exchange = writable(self);
  while (offset < (size_t)RSTRING_LEN(string)) {
    size_t left = (size_t)RSTRING_LEN(string) - offset;
    struct iovec vector = {RSTRING_PTR(string) + offset, left < PIECE_BYTES ? left : PIECE_BYTES};
    size_t sent = send_some(exchange, &vector, 1);
    offset += sent;
    if (sent == 0) {
      exchange = wait_writable(self, left);
    } else if (sent < left) {
      exchange = let_others_run(self);
    }
  }
  RB_GC_GUARD(string);
}

/* What the transport has taken and holds: TLS has encrypted it. */
static void flush(VALUE self) {
  struct gyre_http_exchange *exchange = writable(self);
  while (gyre_transport_unsent(&exchange->connection->transport) > 0) {
    int error = gyre_transport_flush(&exchange->connection->transport);
    if (error == 0) return;
    if (error != -EAGAIN) write_failed(exchange, -error);
    exchange = wait_writable(self, 0);
  }
}

/* Sends the lent buffer and then the strings, with one system call where the socket takes all. */
static void send_output(VALUE self, const VALUE *strings, long count) {
  struct gyre_http_exchange *exchange = writable(self);
  struct gyre_http1_buffer *output = &exchange->connection->acceptor->output;
  struct iovec vectors[VECTORS];
  int filled = 0;
  size_t room = PIECE_BYTES, total = output->length;
  if (output->length) vectors[filled++] = (struct iovec){output->bytes, output->length};
  long taken = 0;
  for (; taken < count && filled < VECTORS && room > 0; taken++) {
    size_t length = (size_t)RSTRING_LEN(strings[taken]);
    total += length;
    if (length > room) length = room;
    room -= length;
    vectors[filled++] = (struct iovec){RSTRING_PTR(strings[taken]), length};
  }
  if (!filled) return;
  size_t sent = send_some(exchange, vectors, filled);
  if (taken == count && sent == total && gyre_transport_unsent(&exchange->connection->transport) == 0) return;

  if (sent < output->length) {
    send_string(self, rb_str_new(output->bytes + sent, (long)(output->length - sent)), 0);
    sent = 0;
  } else {
    sent -= output->length;
  }
  for (long i = 0; i < count; i++) {
    size_t length = (size_t)RSTRING_LEN(strings[i]);
    if (sent >= length) {
      sent -= length;
      continue;
    }
    send_string(self, strings[i], sent);
    sent = 0;
  }
  flush(self);
}

/* --- heads ---
 *
 * Arguments are converted before the exchange is looked at: their methods may do anything
 * meanwhile, also respond. */

/* Contract: exchange.rb. */
static VALUE exchange_write_response(VALUE self, VALUE status, VALUE headers, VALUE body) {
  if (gyre_http_exchange_is_outside(self))
    return gyre_http_exchange_hand_over(self, "write_response", 3, (VALUE[]){status, headers, body});
  struct gyre_http_exchange *exchange = writable(self);
  struct gyre_http1_response_head fields;
  if (!gyre_http1_response_head_whole(&fields, exchange, status, headers, body)) return Qfalse;
  struct gyre_http1_buffer *output = fields.output;
  uint64_t length = fields.length;
  long count = RARRAY_LEN(body);

  if (exchange->expects_continue) exchange->connection->keep_alive = false;
  if (!exchange->body_over && exchange->body_remaining > exchange->connection->acceptor->limits.unread_body_bytes)
    exchange->connection->keep_alive = false;
  gyre_http1_response_head_end(&fields);

  gyre_http_exchange_end_limit(exchange); /* the app has done its part */
  exchange->whole = true;
  exchange->head_sent = true;
  exchange->sent_status = (uint16_t)fields.status;
  exchange->framing = GYRE_HTTP1_NO_BODY;
  if (fields.no_body) {
    send_output(self, NULL, 0);
    return Qtrue;
  }
  exchange->body_bytes_sent = length;
  if (length <= COPY_BYTES_LIMIT) {
    for (long i = 0; i < count; i++) {
      VALUE part = RARRAY_AREF(body, i);
      gyre_http1_buffer_append(output, RSTRING_PTR(part), (size_t)RSTRING_LEN(part));
    }
    if (output->failed) rb_memerror();
    send_output(self, NULL, 0);
  } else {
    /* Frozen views of the parts, so that neither they nor the Array change while the fiber is
     * parked. */
    VALUE parts = rb_ary_new_capa(count);
    for (long i = 0; i < count; i++) rb_ary_push(parts, rb_str_new_frozen(RARRAY_AREF(body, i)));
    send_output(self, RARRAY_CONST_PTR(parts), count);
    RB_GC_GUARD(parts);
  }
  return Qtrue;
}

static VALUE framing_symbol(enum gyre_http1_framing framing, VALUE given) {
  switch (framing) {
  case GYRE_HTTP1_LENGTH: return given;
  case GYRE_HTTP1_CHUNKED_BODY: return ID2SYM(rb_intern("chunked"));
  case GYRE_HTTP1_UNTIL_CLOSE: return ID2SYM(rb_intern("close"));
  case GYRE_HTTP1_RAW: return ID2SYM(rb_intern("raw"));
  default: return Qnil;
  }
}

static VALUE exchange_write_head(VALUE self, VALUE status, VALUE headers, VALUE given) {
  if (gyre_http_exchange_is_outside(self))
    return gyre_http_exchange_hand_over(self, "write_head", 3, (VALUE[]){status, headers, given});
  int code = NUM2INT(status);
  uint64_t length = NIL_P(given) || RB_SYMBOL_P(given) ? 0 : NUM2ULL(given);
  struct gyre_http_exchange *exchange = writable(self);
  if (exchange->head_sent) rb_raise(rb_eRuntimeError, "the head has been sent already");
  if (code != 101 && (code < 200 || code > 999)) rb_raise(rb_eArgError, "status %d is no final one", code);
  Check_Type(headers, T_HASH);

  enum gyre_http1_framing framing;
  if (NIL_P(given)) {
    framing = GYRE_HTTP1_NO_BODY;
  } else if (given == ID2SYM(rb_intern("chunked"))) {
    framing = exchange->http_1_0 ? GYRE_HTTP1_UNTIL_CLOSE : GYRE_HTTP1_CHUNKED_BODY;
  } else if (given == ID2SYM(rb_intern("close"))) {
    framing = GYRE_HTTP1_UNTIL_CLOSE;
  } else if (given == ID2SYM(rb_intern("raw"))) {
    framing = GYRE_HTTP1_RAW;
  } else if (RB_SYMBOL_P(given)) {
    rb_raise(rb_eArgError, "no framing: %+" PRIsVALUE, given);
  } else {
    framing = GYRE_HTTP1_LENGTH;
  }
  bool no_body = framing != GYRE_HTTP1_RAW && (exchange->head_only || code == 204 || code == 304);

  struct gyre_http1_buffer *output = gyre_http1_response_head_begin(exchange);
  struct gyre_http1_response_head fields = {.exchange = exchange,
                                            .output = output,
                                            .announced = Qnil,
                                            .wrong = Qnil,
                                            .own_framing = framing == GYRE_HTTP1_RAW};
  gyre_http1_head_status(output, code);
  gyre_http1_response_head_fields(&fields, headers);
  if (fields.unknown_kind) rb_raise(rb_eArgError, "a header's name and value must be Strings");

  if (framing == GYRE_HTTP1_LENGTH && code != 204) gyre_http1_response_head_length(output, length);
  if (framing == GYRE_HTTP1_CHUNKED_BODY && (!no_body || (exchange->head_only && code != 204 && code != 304))) {
    gyre_http1_response_head_text(output, "transfer-encoding: chunked\r\n");
  }
  if (no_body) framing = GYRE_HTTP1_NO_BODY;
  if (exchange->expects_continue || framing == GYRE_HTTP1_UNTIL_CLOSE) exchange->connection->keep_alive = false;
  gyre_http1_response_head_end(&fields);

  exchange->head_sent = true;
  exchange->sent_status = (uint16_t)code;
  exchange->framing = (uint8_t)framing;
  exchange->body_bytes_sent = 0;
  send_output(self, NULL, 0);
  return framing_symbol(framing, given);
}

bool gyre_http1_write_interim(struct gyre_http_exchange *exchange, int status, VALUE headers) {
  if (exchange->http_1_0 || exchange->head_sent) return false;
  struct gyre_http1_buffer *output = gyre_http1_response_head_begin(exchange);
  struct gyre_http1_response_head fields = {.exchange = exchange, .output = output, .announced = Qnil, .wrong = Qnil};
  gyre_http1_head_status(output, status);
  if (!NIL_P(headers)) gyre_http1_response_head_fields(&fields, headers);
  if (fields.unknown_kind) rb_raise(rb_eArgError, "a header's name and value must be Strings");
  gyre_http1_response_head_text(output, "\r\n");
  if (output->failed) rb_memerror();
  if (status == 100) exchange->expects_continue = false;
  send_output(exchange->handle, NULL, 0);
  return true;
}

static VALUE exchange_write_interim(VALUE self, VALUE status, VALUE headers) {
  if (gyre_http_exchange_is_outside(self))
    return gyre_http_exchange_hand_over(self, "write_interim", 2, (VALUE[]){status, headers});
  int code = NUM2INT(status);
  if (code < 100 || code > 199 || code == 101) rb_raise(rb_eArgError, "status %d is no interim one", code);
  Check_Type(headers, T_HASH);
  struct gyre_http_exchange *exchange = gyre_http_exchange_get(self);
  if (!exchange) gyre_http1_request_is_over();
  if (exchange->connection->state != GYRE_HTTP1_SERVING) return Qfalse;
  return gyre_http1_write_interim(exchange, code, headers) ? Qtrue : Qfalse;
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

  bool chunked = exchange->framing == GYRE_HTTP1_CHUNKED_BODY, copied = length <= COPY_BYTES_LIMIT;
  struct gyre_http1_buffer *output = gyre_http1_response_head_begin(exchange);
  if (chunked) {
    char size[24];
    gyre_http1_buffer_append(output, size, (size_t)snprintf(size, sizeof(size), "%zx\r\n", length));
  }
  exchange->body_bytes_sent += length;
  if (copied) {
    gyre_http1_buffer_append(output, RSTRING_PTR(string), length);
    if (chunked) gyre_http1_response_head_text(output, "\r\n");
    if (output->failed) rb_memerror();
    send_output(self, NULL, 0);
  } else {
    VALUE parts[] = {rb_str_new_frozen(string), line_end};
    send_output(self, parts, chunked ? 2 : 1);
    RB_GC_GUARD(parts[0]);
  }
  return SIZET2NUM(length);
}

static VALUE exchange_finish_body(VALUE self) {
  if (gyre_http_exchange_is_outside(self)) return gyre_http_exchange_hand_over(self, "finish_body", 0, NULL);
  struct gyre_http_exchange *exchange = writable(self);
  gyre_http_exchange_end_limit(exchange);
  if (exchange->framing != GYRE_HTTP1_CHUNKED_BODY) return Qnil;
  struct gyre_http1_buffer *output = gyre_http1_response_head_begin(exchange);
  gyre_http1_response_head_text(output, "0\r\n");
  gyre_http1_response_head_trailers(exchange, output);
  gyre_http1_response_head_text(output, "\r\n");
  if (output->failed) rb_memerror();
  exchange->framing = GYRE_HTTP1_NO_BODY;
  send_output(self, NULL, 0);
  return Qnil;
}

static VALUE exchange_write_file(VALUE self, VALUE io, VALUE from, VALUE size) {
  if (gyre_http_exchange_is_outside(self))
    return gyre_http_exchange_hand_over(self, "write_file", 3, (VALUE[]){io, from, size});
  int64_t offset = NUM2OFFT(from);
  uint64_t length = NUM2ULL(size), sent = 0;
  io = rb_io_get_io(io);
  struct gyre_http_exchange *exchange = writable(self);
  int file = rb_io_descriptor(io);
  if (exchange->framing == GYRE_HTTP1_CHUNKED_BODY) rb_raise(rb_eArgError, "a file cannot be sent in chunks");
  if (exchange->framing == GYRE_HTTP1_NO_BODY) return ULL2NUM(length);

  while (sent < length) {
    uint64_t piece = length - sent < PIECE_BYTES ? length - sent : PIECE_BYTES;
    ssize_t count =
        gyre_transport_sendfile(&exchange->connection->transport, file, offset + (int64_t)sent, (size_t)piece);
    if (count == 0) break; /* the file has become shorter */
    if (count > 0) {
      sent += (uint64_t)count;
      exchange->given += (uint64_t)count;
      exchange->body_bytes_sent += (uint64_t)count;
      if (sent == length) break;
      exchange = let_others_run(self);
    } else if (count == -EAGAIN) {
      exchange = wait_writable(self, 0);
    } else {
      write_failed(exchange, (int)-count);
    }
    file = rb_io_descriptor(io); /* raises when it was closed meanwhile */
  }
  flush(self);
  RB_GC_GUARD(io);
  return ULL2NUM(sent);
}

/* --- refusals --- */

static VALUE refusal_body(VALUE self) {
  struct gyre_http_exchange *exchange = writable(self);
  struct gyre_http1_buffer *output = gyre_http1_response_head_begin(exchange);
  exchange->connection->keep_alive = false;
  exchange->head_sent = true;
  exchange->sent_status = exchange->status;
  size_t length = strlen(exchange->reason);
  gyre_http1_head_status(output, exchange->status);
  gyre_http1_response_head_text(output, "content-type: text/plain\r\n");
  gyre_http1_response_head_length(output, length + 1);
  gyre_http1_head_date(output, &exchange->connection->acceptor->date);
  if (exchange->status == 503) gyre_http1_response_head_text(output, "retry-after: 1\r\n");
  gyre_http1_response_head_text(output, "connection: close\r\n\r\n");
  exchange->body_bytes_sent = exchange->head_only ? 0 : length + 1;
  if (!exchange->head_only) {
    gyre_http1_response_head_text(output, exchange->reason);
    gyre_http1_response_head_text(output, "\n");
  }
  if (output->failed) rb_memerror();
  send_output(self, NULL, 0);
  return Qnil;
}

void gyre_http1_response_refuse(struct gyre_http_exchange *exchange) {
  gyre_http_exchange_refuse(exchange, refusal_body);
}

void gyre_init_http1_response(void) {
  line_end = rb_obj_freeze(rb_str_new_cstr("\r\n"));
  rb_gc_register_mark_object(line_end);
  gyre_http_exchange_define_response(gyre_cHttp1Exchange,
                                     &(struct gyre_http_response_methods){.write_response = exchange_write_response,
                                                                          .write_head = exchange_write_head,
                                                                          .write_body = exchange_write_body,
                                                                          .finish_body = exchange_finish_body,
                                                                          .write_file = exchange_write_file,
                                                                          .write_interim = exchange_write_interim});
}
