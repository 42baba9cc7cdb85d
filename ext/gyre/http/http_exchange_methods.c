/*
 * The methods of an exchange that are the same for each version of HTTP. They read and write
 * nothing of a connection.
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

void gyre_http_exchange_define(VALUE class) {
  rb_define_method(class, "interrupt_reader", exchange_interrupt_reader, 2);
  rb_define_method(class, "trailers", exchange_trailers, 0);
  rb_define_method(class, "leave_place", exchange_leave_place, 0);
  rb_define_method(class, "client_gone", gyre_http_exchange_client_gone, 0);
  rb_define_method(class, "[]=", exchange_set_trailer, 2);
  rb_define_method(class, "head_sent?", exchange_head_sent_p, 0);
  rb_define_method(class, "expects_continue?", exchange_expects_continue_p, 0);
  rb_define_method(class, "head_only?", exchange_head_only_p, 0);
  rb_define_method(class, "body_bytes_sent", exchange_body_bytes_sent, 0);
  rb_define_method(class, "remote_address", exchange_remote_address, 0);
}
