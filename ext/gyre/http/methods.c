/* Defines Ruby's methods of an exchange (lib/gyre/http/exchange.rb) for all versions. They run in
 * fibers of the app. They fetch the exchange again after a wait, because it may have ended, and
 * after converting arguments, because Ruby code may have run and even responded. */
#include "http/response_head.h"
#include "http/thread_calls.h"

#include <ruby/io.h>

/* Returns the exchange. Raises if the request is over. */
static struct gyre_http_exchange *current(VALUE self) {
  struct gyre_http_exchange *exchange = gyre_http_exchange_get(self);
  if (!exchange) rb_raise(rb_eIOError, "this request is over");
  return exchange;
}

static const struct gyre_http_acceptor *exchange_elsewhere(VALUE self) {
  const struct gyre_http_exchange *exchange = gyre_http_exchange_get(self);
  if (!exchange || !gyre_thread_is_foreign(exchange->connection->acceptor->scheduler)) return NULL;
  return exchange->connection->acceptor;
}

static VALUE input_wait_ensure(VALUE argument) {
  struct gyre_http_reader *input = (struct gyre_http_reader *)argument;
  struct gyre_http_exchange *exchange = gyre_http_exchange_get(input->self);
  input->kept = exchange && exchange->reader == input;
  if (input->kept) exchange->reader = NULL;
  gyre_wait_end(&input->wait);
  return Qnil;
}

/* Returns the time limit for the body's next piece. Counts only waits for the client. */
static int64_t input_limit_ns(const struct gyre_http_exchange *exchange, const char **reason) {
  const struct gyre_http_limits *limits = &exchange->connection->acceptor->limits;
  int64_t received = exchange->body.received - exchange->body.ahead;
  int64_t limit_ns = gyre_http_body_limit_ns(limits, received > 0 ? received : 0, exchange->body.waited_ns,
                                             gyre_http_exchange_holds_place(exchange), reason);
  if (!exchange->body.reading_off || limits->unread_body_ns < 0) return limit_ns;
  int64_t left_ns = limits->unread_body_ns - exchange->body.waited_ns;
  if (left_ns < 0) left_ns = 0;
  return limit_ns >= 0 && limit_ns < left_ns ? limit_ns : left_ns;
}

_Noreturn static void refuse_second_reader(void) {
  rb_raise(rb_eIOError, "another fiber is reading this request's body");
}

/* Raises if this fiber has lost its place as the reader during the wait: another fiber may have
 * taken bytes of the body. */
bool gyre_http_wait_for_input(VALUE self, const char **reason) {
  struct gyre_http_exchange *exchange = gyre_http_exchange_open(self);
  struct gyre_scheduler *scheduler = exchange->connection->acceptor->scheduler;
  struct gyre_http_reader input = {.self = self, .came_ns = -1};
  int64_t limit_ns = input_limit_ns(exchange, reason), from_ns = gyre_loop_now(&scheduler->loop);
  gyre_wait_begin(scheduler, &input.wait, self);
  gyre_wait_arm(&input.wait, limit_ns);
  exchange->reader = &input;
  rb_ensure(gyre_wait_body, (VALUE)&input.wait, input_wait_ensure, (VALUE)&input);
  if (gyre_http_exchange_open(self) && !input.kept) refuse_second_reader();
  exchange = gyre_http_exchange_get(self);
  /* Counts until the bytes came, not until the fiber ran: the loop may have been late. */
  int64_t until_ns = input.came_ns < 0 ? gyre_loop_now(&scheduler->loop) : input.came_ns;
  if (exchange && until_ns > from_ns) exchange->body.waited_ns += until_ns - from_ns;
  return !input.wait.timed_out;
}

void gyre_http_request_fail(struct gyre_http_exchange *exchange, int status, const char *reason) {
  exchange->body.over = false;
  exchange->connection->keep_alive = false;
  exchange->status = (uint16_t)status;
  exchange->reason = reason;
  rb_exc_raise(gyre_http_error("RequestError", status, reason));
}

void gyre_http_request_cut(VALUE self) {
  struct gyre_http_exchange *exchange = current(self);
  if (exchange->operations->alone) {
    exchange->connection->keep_alive = false;
    exchange->connection->hung_up = true;
  }
  rb_exc_raise(gyre_http_error("RequestCut", 0, "the client left before the end of the request's body"));
}

struct gyre_http_exchange *gyre_http_request_reading(VALUE self) {
  struct gyre_http_exchange *exchange = gyre_http_exchange_open(self);
  if (!exchange) gyre_http_request_cut(self);
  if (exchange->reader) refuse_second_reader();
  if (exchange->status) gyre_http_request_fail(exchange, exchange->status, exchange->reason);
  return exchange;
}

static VALUE exchange_read_body(VALUE self, VALUE most) {
  long length = NUM2LONG(most);
  if (length <= 0) rb_raise(rb_eArgError, "cannot read %ld bytes", length);
  struct gyre_http_exchange *exchange = gyre_http_exchange_open(self);
  if (!exchange) gyre_http_request_cut(self);
  return exchange->operations->read_body(self, (size_t)length);
}

/* Called by ThreadCalls. */
static VALUE exchange_interrupt_reader(VALUE self, VALUE fiber, VALUE exception) {
  struct gyre_http_exchange *exchange = gyre_http_exchange_get(self);
  if (!exchange || !exchange->reader || exchange->reader->wait.parked.fiber != fiber) return Qnil;
  gyre_interrupt_fiber(exchange->connection->acceptor->scheduler, fiber, exception);
  /* Ruby code may have run */
  exchange = gyre_http_exchange_get(self);
  if (exchange) exchange->reader = NULL;
  return Qnil;
}

/* --- the response --- */

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

/* In HTTP/2, :close means the same as :chunked, and :raw means a stream in both directions (RFC
 * 9113, section 8.5; RFC 8441). */
static VALUE exchange_write_head(VALUE self, VALUE status, VALUE headers, VALUE given) {
  int code = NUM2INT(status);
  uint64_t length = NIL_P(given) || RB_SYMBOL_P(given) ? 0 : NUM2ULL(given);
  struct gyre_http_exchange *exchange = gyre_http_response_writable(self);
  bool alone = exchange->operations->alone;
  if (exchange->response.status) rb_raise(rb_eRuntimeError, "the head has been sent already");
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
  if (exchange->response.status || exchange->http_1_0) return false;
  struct gyre_http_response_head head = gyre_http_response_head_begin(exchange, status);
  if (!NIL_P(headers)) app_fields(&head, headers);
  if (exchange->operations->alone) gyre_http_buffer_text(head.output, "\r\n");
  if (head.output->failed) rb_memerror();
  if (status == 100) exchange->expects_continue = false;
  exchange->operations->send_head(exchange->handle, &head);
  return true;
}

static VALUE exchange_write_interim(VALUE self, VALUE status, VALUE headers) {
  int code = NUM2INT(status);
  if (code < 100 || code > 199 || code == 101) rb_raise(rb_eArgError, "status %d is no interim one", code);
  Check_Type(headers, T_HASH);
  struct gyre_http_exchange *exchange = current(self);
  if (!gyre_http_exchange_open(self) || gyre_http_exchange_is_over(exchange)) return Qfalse;
  return gyre_http_response_interim(exchange, code, headers) ? Qtrue : Qfalse;
}

/* The trailers are checked when they are sent. */
static VALUE exchange_set_trailer(VALUE self, VALUE name, VALUE value) {
  struct gyre_http_exchange *exchange = current(self);
  if (NIL_P(exchange->response_trailers)) exchange->response_trailers = rb_hash_new();
  return rb_hash_aset(exchange->response_trailers, name, value);
}

static VALUE exchange_write_body(VALUE self, VALUE string) {
  struct gyre_http_exchange *exchange = gyre_http_response_writable(self);
  Check_Type(string, T_STRING);
  gyre_yield_if_due(exchange->connection->acceptor->scheduler); /* other fibers get their turn */
  exchange = gyre_http_response_writable(self);
  VALUE length = SIZET2NUM((size_t)RSTRING_LEN(string));
  if (RSTRING_LEN(string) == 0 || exchange->response.framing == GYRE_HTTP_NO_BODY) return length;
  exchange->response.body_bytes += (uint64_t)RSTRING_LEN(string);
  exchange->operations->send_body(self, string);
  return length;
}

static VALUE exchange_finish_body(VALUE self) {
  struct gyre_http_exchange *exchange = gyre_http_response_writable(self);
  gyre_http_exchange_end_limit(exchange);
  if (exchange->response.framing != GYRE_HTTP_NO_BODY) exchange->operations->finish_body(self);
  return Qnil;
}

static VALUE exchange_write_file(VALUE self, VALUE io, VALUE from, VALUE size) {
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

/* --- from one request to the next, and the end --- */

/* Lets the handler respond with the refusal's status and reason. */
static void refuse(struct gyre_http_exchange *exchange) {
  VALUE self = exchange->handle, env = exchange->env;
  bool alone = exchange->operations->alone; /* the connection ends with the refusal */
  exchange->connection->keep_alive = false;
  if (alone) exchange->env = Qnil;
  rb_funcall(exchange->connection->acceptor->handler, rb_intern("refused"), 4, self, env, INT2NUM(exchange->status),
             rb_str_new_cstr(exchange->reason));
  exchange = gyre_http_exchange_get(self);
  if (exchange && alone) gyre_http_connection_linger(exchange->connection);
}

VALUE gyre_http_request_take(struct gyre_http_exchange *exchange) {
  gyre_http_route_begin(exchange);
  if (exchange->status && !exchange->taken) {
    refuse(exchange);
    return Qnil;
  }
  exchange->taken = true;
  return exchange->env;
}

static VALUE exchange_next_request(VALUE self) {
  gyre_http_route_end(self, true);
  struct gyre_http_exchange *exchange = gyre_http_exchange_get(self);
  if (!exchange || (exchange->operations->alone && !gyre_http_exchange_open(self))) return Qnil;
  if (!exchange->taken) return gyre_http_request_take(exchange);
  gyre_http_exchange_measure(exchange);
  return exchange->operations->next_request ? exchange->operations->next_request(self) : Qnil;
}

/* Returns the same socket again in later calls, even after the request's end. */
static VALUE exchange_hijack(VALUE self) {
  ID id = rb_intern("hijacked_socket");
  VALUE socket = rb_attr_get(self, id);
  if (!NIL_P(socket)) return socket;
  const struct gyre_http_acceptor *acceptor = exchange_elsewhere(self);
  if (acceptor) return gyre_http_hand_over(acceptor, self, "hijack", 0, NULL);
  struct gyre_http_exchange *exchange = current(self);
  if (!gyre_http_exchange_open(self)) rb_raise(rb_eIOError, "the connection is over and cannot be hijacked");
  VALUE env = exchange->env, handler = exchange->connection->acceptor->handler;
  socket = exchange->operations->hijack(exchange);
  VALUE away = gyre_http_exchange_get(self)->connection->state == GYRE_HTTP_HIJACKED ? Qtrue : Qfalse;
  rb_ivar_set(self, id, socket);
  if (RB_TYPE_P(env, T_HASH)) rb_hash_aset(env, rb_str_new_cstr("rack.hijack_io"), socket);
  rb_check_funcall(handler, rb_intern("hijacked"), 2, (VALUE[]){socket, away}); /* handlers of tests may lack it */
  RB_GC_GUARD(env);
  return socket;
}

static VALUE end(VALUE self, bool reset) {
  gyre_http_route_end(self, true);
  struct gyre_http_exchange *exchange = gyre_http_exchange_get(self);
  if (exchange) exchange->operations->close(exchange, reset);
  return Qnil;
}

static VALUE exchange_close(VALUE self) { return end(self, false); }
static VALUE exchange_reset(VALUE self) { return end(self, true); }

static VALUE exchange_leave_place(VALUE self) {
  struct gyre_http_exchange *exchange = gyre_http_exchange_get(self);
  if (exchange) gyre_http_exchange_leave_place(exchange);
  return Qnil;
}

static VALUE exchange_open_ended(VALUE self) {
  gyre_http_route_end(self, true);
  struct gyre_http_exchange *exchange = gyre_http_exchange_get(self);
  if (exchange) gyre_http_exchange_open_ended(exchange);
  return Qnil;
}

/* Counts an open file until the request's end. Returns false if too many files are open. */
static VALUE exchange_hold_file(VALUE self) {
  struct gyre_http_exchange *exchange = current(self);
  struct gyre_http_budget *files = &exchange->connection->acceptor->capacity.files;
  gyre_http_budget_hold(files, &exchange->response.files_counted, 1);
  if (!gyre_http_budget_is_over(files)) return Qtrue;
  gyre_http_budget_hold(files, &exchange->response.files_counted, 0);
  return Qfalse;
}

static VALUE exchange_trailers(VALUE self) {
  struct gyre_http_exchange *exchange = current(self);
  return NIL_P(exchange->trailers) ? rb_hash_new() : exchange->trailers;
}

/* Returns a Gyre::Promise, or nil after the request's end. The promise's value is true if the
 * client has left, and false if the request has ended first. */
static VALUE exchange_client_gone(VALUE self) {
  struct gyre_http_exchange *exchange = gyre_http_exchange_get(self);
  if (!exchange) return Qnil;
  VALUE promise = exchange->departure.promise;
  if (NIL_P(promise)) {
    promise = rb_class_new_instance(0, NULL, rb_path2class("Gyre::Promise"));
    if (!(exchange = gyre_http_exchange_get(self))) return Qnil;
    exchange->departure.promise = promise;
    if (exchange->connection->hung_up || exchange->connection->state == GYRE_HTTP_CLOSED ||
        gyre_http_exchange_is_over(exchange))
      gyre_http_exchange_peer_ended(exchange);
  }
  if (exchange->departure.seen && !exchange->departure.told) {
    gyre_list_remove(&exchange->departure.node);
    exchange->departure.told = true;
    gyre_http_exchange_settle((struct gyre_http_promise){promise, Qtrue});
  }
  return promise;
}

#define QUESTION(name, expression)                                                                                     \
  static VALUE exchange_##name(VALUE self) {                                                                           \
    const struct gyre_http_exchange *exchange = gyre_http_exchange_get(self);                                          \
    return exchange && (expression) ? Qtrue : Qfalse;                                                                  \
  }

QUESTION(head_sent_p, exchange->response.status)
QUESTION(expects_continue_p, exchange->expects_continue && !exchange->response.status)
QUESTION(head_only_p, exchange->head_only)
QUESTION(hijacked_p, gyre_http_exchange_is_hijacked(exchange))

static VALUE exchange_closed_p(VALUE self) {
  const struct gyre_http_exchange *exchange = gyre_http_exchange_open(self);
  return exchange && !gyre_http_exchange_is_over(exchange) ? Qfalse : Qtrue;
}

static VALUE exchange_body_bytes_sent(VALUE self) {
  const struct gyre_http_exchange *exchange = gyre_http_exchange_get(self);
  return ULL2NUM(exchange ? exchange->response.body_bytes : 0);
}

/* clang-format off */
#define METHODS(METHOD) \
  METHOD(exchange, read_body, 1) METHOD(exchange, close, 0) METHOD(exchange, reset, 0) METHOD(exchange, leave_place, 0) \
  METHOD(exchange, open_ended, 0) METHOD(exchange, hold_file, 0) METHOD(exchange, write_response, 3) \
  METHOD(exchange, write_head, 3) METHOD(exchange, write_interim, 2) METHOD(exchange, write_body, 1) \
  METHOD(exchange, finish_body, 0) METHOD(exchange, write_file, 3)
/* clang-format on */
METHODS(GYRE_HTTP_TRAMPOLINE)

VALUE gyre_http_define_exchange(const char *version, const struct gyre_http_exchange_operations *operations) {
  VALUE http = rb_define_module_under(gyre_mGyre, "HTTP");
  VALUE class = rb_define_class_under(rb_define_module_under(http, version), "Exchange",
                                      rb_define_class_under(http, "Exchange", rb_cObject));
  rb_undef_alloc_func(class);
  gyre_http_exchange_reserve(operations);
  rb_define_method(class, "next_request", exchange_next_request, 0);
  rb_define_method(class, "interrupt_reader", exchange_interrupt_reader, 2);
  rb_define_method(class, "trailers", exchange_trailers, 0);
  rb_define_method(class, "hijack", exchange_hijack, 0);
  rb_define_method(class, "client_gone", exchange_client_gone, 0);
  rb_define_method(class, "head_sent?", exchange_head_sent_p, 0);
  rb_define_method(class, "expects_continue?", exchange_expects_continue_p, 0);
  rb_define_method(class, "head_only?", exchange_head_only_p, 0);
  rb_define_method(class, "hijacked?", exchange_hijacked_p, 0);
  rb_define_method(class, "closed?", exchange_closed_p, 0);
  rb_define_method(class, "body_bytes_sent", exchange_body_bytes_sent, 0);
  rb_define_method(class, "[]=", exchange_set_trailer, 2);
  METHODS(GYRE_HTTP_DEFINE)
  return class;
}
