/*
 * The methods of an exchange: those that are the same for each version of HTTP, which read and
 * write nothing of a connection, and the names of the others. What a refusal is beside its bytes.
 */
#include "http/http1.h"

static VALUE exchange_interrupt_reader(VALUE self, VALUE fiber, VALUE exception) {
  struct gyre_http_exchange *exchange = gyre_http_exchange_get(self);
  if (!exchange || !exchange->reader || exchange->reader->wait.parked.fiber != fiber) return Qnil;
  gyre_interrupt_fiber(exchange->connection->acceptor->scheduler, fiber, exception);
  /* It may have run Ruby code: another look. */
  exchange = gyre_http_exchange_get(self);
  if (exchange) exchange->reader = NULL;
  return Qnil;
}

static VALUE exchange_trailers(VALUE self) {
  struct gyre_http_exchange *exchange = gyre_http_exchange_get(self);
  if (!exchange) gyre_http1_request_is_over();
  return NIL_P(exchange->trailers) ? rb_hash_new() : exchange->trailers;
}

/* Checked when they are sent. */
static VALUE exchange_set_trailer(VALUE self, VALUE name, VALUE value) {
  struct gyre_http_exchange *exchange = gyre_http_exchange_get(self);
  if (!exchange) gyre_http1_request_is_over();
  if (NIL_P(exchange->response_trailers)) exchange->response_trailers = rb_hash_new();
  return rb_hash_aset(exchange->response_trailers, name, value);
}

#define QUESTION(name, expression)                                                                                     \
  static VALUE exchange_##name(VALUE self) {                                                                           \
    const struct gyre_http_exchange *exchange = gyre_http_exchange_get(self);                                          \
    return exchange && (expression) ? Qtrue : Qfalse;                                                                  \
  }

QUESTION(head_sent_p, exchange->head_sent)
QUESTION(expects_continue_p, exchange->expects_continue && !exchange->head_sent)
QUESTION(head_only_p, exchange->head_only)

static VALUE exchange_body_bytes_sent(VALUE self) {
  const struct gyre_http_exchange *exchange = gyre_http_exchange_get(self);
  return ULL2NUM(exchange ? exchange->body_bytes_sent : 0);
}

static VALUE exchange_remote_address(VALUE self) {
  struct gyre_http_exchange *exchange = gyre_http_exchange_get(self);
  return exchange ? gyre_http1_connection_address(exchange->connection) : rb_str_new(NULL, 0);
}

static VALUE exchange_leave_place(VALUE self) {
  if (gyre_http_exchange_is_outside(self)) return gyre_http_exchange_hand_over(self, "leave_place", 0, NULL);
  struct gyre_http_exchange *exchange = gyre_http_exchange_get(self);
  if (exchange) gyre_http_exchange_leave_place(exchange);
  return Qnil;
}

/* Until the request's end: a client that takes its file slowly holds a descriptor. */
static VALUE exchange_hold_file(VALUE self) {
  if (gyre_http_exchange_is_outside(self)) return gyre_http_exchange_hand_over(self, "hold_file", 0, NULL);
  struct gyre_http_exchange *exchange = gyre_http_exchange_get(self);
  if (!exchange) gyre_http1_request_is_over();
  struct gyre_http_budget *files = &exchange->connection->acceptor->capacity->files;
  gyre_http_budget_hold(files, &exchange->files_counted, 1);
  if (!gyre_http_budget_is_over(files)) return Qtrue;
  gyre_http_budget_hold(files, &exchange->files_counted, 0);
  return Qfalse;
}

/* --- refusals --- */

static VALUE ignore_error(VALUE self, VALUE error) {
  (void)self;
  (void)error; /* the client that is refused is gone already */
  return Qnil;
}

void gyre_http_exchange_refuse(struct gyre_http_exchange *exchange, VALUE (*respond)(VALUE self)) {
  struct gyre_scheduler *scheduler = exchange->connection->acceptor->scheduler;
  VALUE self = exchange->handle, handler = exchange->connection->acceptor->handler;
  VALUE arguments[] = {exchange->env, INT2NUM(exchange->status), Qnil, Qnil};
  bool alone = !exchange->stream; /* on its connection, which ends with it */
  int64_t from_ns = gyre_loop_now(&scheduler->loop);
  if (alone) exchange->env = Qnil;
  rb_rescue2(respond, self, ignore_error, self, rb_eStandardError, (VALUE)0);
  exchange = gyre_http_exchange_get(self);
  arguments[2] = ULL2NUM(exchange ? exchange->body_bytes_sent : 0);
  arguments[3] = DBL2NUM((double)(gyre_loop_now(&scheduler->loop) - from_ns) / 1e9);
  if (exchange && alone) gyre_http1_connection_linger(exchange->connection);
  rb_check_funcall(handler, rb_intern("refused"), 4, arguments); /* handlers of tests may lack it */
}

/* --- names --- */

void gyre_http_exchange_define_request(VALUE class, const struct gyre_http_request_methods *own) {
  rb_define_method(class, "next_request", own->next_request, 0);
  rb_define_method(class, "read_body", own->read_body, 1);
  rb_define_method(class, "hijack", own->hijack, 0);
  rb_define_method(class, "close", own->close, 0);
  rb_define_method(class, "reset", own->reset, 0);
  rb_define_method(class, "keep_alive?", own->keep_alive_p, 0);
  rb_define_method(class, "closed?", own->closed_p, 0);
  rb_define_method(class, "hijacked?", own->hijacked_p, 0);
  rb_define_method(class, "interrupt_reader", exchange_interrupt_reader, 2);
  rb_define_method(class, "trailers", exchange_trailers, 0);
  rb_define_method(class, "leave_place", exchange_leave_place, 0);
  rb_define_method(class, "hold_file", exchange_hold_file, 0);
  rb_define_method(class, "client_gone", gyre_http_exchange_client_gone, 0);
  rb_define_method(class, "[]=", exchange_set_trailer, 2);
  rb_define_method(class, "head_sent?", exchange_head_sent_p, 0);
  rb_define_method(class, "expects_continue?", exchange_expects_continue_p, 0);
  rb_define_method(class, "head_only?", exchange_head_only_p, 0);
  rb_define_method(class, "body_bytes_sent", exchange_body_bytes_sent, 0);
  rb_define_method(class, "remote_address", exchange_remote_address, 0);
}

void gyre_http_exchange_define_response(VALUE class, const struct gyre_http_response_methods *own) {
  rb_define_method(class, "write_response", own->write_response, 3);
  rb_define_method(class, "write_head", own->write_head, 3);
  rb_define_method(class, "write_body", own->write_body, 1);
  rb_define_method(class, "finish_body", own->finish_body, 0);
  rb_define_method(class, "write_file", own->write_file, 3);
  rb_define_method(class, "write_interim", own->write_interim, 2);
}
