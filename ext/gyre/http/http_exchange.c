/*
 * The life of an exchange, and the handle that Ruby has of it: the handler begins one for each
 * request, and ends it with the next request or with itself. Then the handle is empty. It reads and
 * writes nothing.
 */
#include "http/http1.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __SANITIZE_ADDRESS__
#define SPARE_LIMIT 0 /* so that a use after its end is found */
#else
#define SPARE_LIMIT 64
#endif

VALUE gyre_cHttp1Exchange;
static ID id_call, id_resolve;

void gyre_http_exchange_mark(const struct gyre_http_exchange *exchange) {
  rb_gc_mark(exchange->fiber);
  rb_gc_mark(exchange->env);
  rb_gc_mark(exchange->trailers);
  rb_gc_mark(exchange->gone);
  rb_gc_mark(exchange->response_trailers);
}

static void handle_mark(void *opaque) {
  struct gyre_http_exchange *exchange = opaque;
  if (!exchange) return;
  rb_gc_mark(exchange->connection->acceptor->self);
  gyre_http_exchange_mark(exchange);
}

static size_t handle_size(const void *opaque) {
  const struct gyre_http_exchange *exchange = opaque;
  return exchange ? sizeof(*exchange) + gyre_transport_available(&exchange->connection->transport) : 0;
}

static const rb_data_type_t handle_type = {
    .wrap_struct_name = "Gyre::HTTP::H1::Exchange",
    .function = {.dmark = handle_mark, .dfree = NULL, .dsize = handle_size},
    .flags = RUBY_TYPED_FREE_IMMEDIATELY,
};

/* One for each request from malloc would cost 5 % of its time in C. */
static struct gyre_http_exchange *take(struct gyre_http1_acceptor *acceptor) {
  struct gyre_http_exchange *exchange;
  if (gyre_list_empty(&acceptor->spare)) {
    exchange = malloc(sizeof(*exchange));
    if (!exchange) rb_memerror();
  } else {
    exchange = GYRE_CONTAINER(acceptor->spare.next, struct gyre_http_exchange, node);
    gyre_list_remove(&exchange->node);
    acceptor->spare_count--;
  }
  memset(exchange, 0, sizeof(*exchange));
  return exchange;
}

/* --- the request's limit of time, and its client's departure --- */

static void cancel(struct gyre_http_exchange *exchange, struct gyre_interrupt **interrupt) {
  if (*interrupt) gyre_interrupt_cancel(exchange->connection->acceptor->scheduler, *interrupt);
}

void gyre_http_exchange_end_limit(struct gyre_http_exchange *exchange) {
  if (gyre_timer_armed(&exchange->limit))
    gyre_timers_cancel(&exchange->connection->acceptor->scheduler->loop.timers, &exchange->limit);
  cancel(exchange, &exchange->timeout);
}

static VALUE make_timeout(VALUE argument) {
  char message[80];
  snprintf(message, sizeof(message), "the request took longer than %g s", (double)*(int64_t *)argument / 1e9);
  return gyre_http1_cancellation("Gyre::HTTP::RequestTimeout", message);
}

static VALUE make_stop(VALUE argument) {
  (void)argument;
  return gyre_http1_cancellation("Gyre::Stop", "the client has left");
}

static void interrupt(struct gyre_http_exchange *exchange, struct gyre_interrupt **interrupt, VALUE (*make)(VALUE),
                      VALUE argument) {
  int state = 0;
  if (NIL_P(exchange->fiber) || *interrupt) return;
  VALUE exception = rb_protect(make, argument, &state);
  if (state) {
    rb_set_errinfo(Qnil);
    return;
  }
  *interrupt = gyre_interrupt_fiber(exchange->connection->acceptor->scheduler, exchange->fiber, exception);
  if (*interrupt) (*interrupt)->owner = interrupt;
}

/* The time in which the client is waited for is not the app's; other limits bound it. */
static void limit_is_over(struct gyre_timer *timer, void *context) {
  struct gyre_http_exchange *exchange = GYRE_CONTAINER(timer, struct gyre_http_exchange, limit);
  struct gyre_loop *loop = context;
  int64_t limit_ns = exchange->connection->acceptor->limits.request_ns;
  if (exchange->writing || exchange->reader) {
    (void)gyre_timers_arm(&loop->timers, timer, loop->now_ns + limit_ns);
    return;
  }
  interrupt(exchange, &exchange->timeout, make_timeout, (VALUE)&limit_ns);
}

void gyre_http_exchange_limit(struct gyre_http_exchange *exchange) {
  const struct gyre_http1_acceptor *acceptor = exchange->connection->acceptor;
  struct gyre_loop *loop = &acceptor->scheduler->loop;
  if (acceptor->limits.request_ns < 0) return;
  exchange->limit.fire = limit_is_over;
  (void)gyre_timers_arm(&loop->timers, &exchange->limit, gyre_loop_coarse_now(loop) + acceptor->limits.request_ns);
}

static VALUE settle_body(VALUE argument) {
  const struct gyre_http_promise *promise = (const struct gyre_http_promise *)argument;
  return rb_funcall(promise->promise, id_resolve, 1, promise->gone);
}

void gyre_http_exchange_settle(struct gyre_http_promise promise) {
  int state = 0;
  if (NIL_P(promise.promise)) return;
  rb_protect(settle_body, (VALUE)&promise, &state);
  if (state) rb_set_errinfo(Qnil);
}

void gyre_http_exchange_peer_ended(struct gyre_http_exchange *exchange) {
  const struct gyre_http1_connection *connection = exchange->connection;
  struct gyre_http1_acceptor *acceptor = connection->acceptor;
  enum gyre_http_departure departure = acceptor->departure;
  if (NIL_P(exchange->gone) && departure == GYRE_HTTP_RESET_TELLS) return;
  bool closed = connection->state == GYRE_HTTP1_CLOSED;
  bool reset =
      closed || (exchange->stream ? exchange->stream->closed : gyre_transport_is_reset(&connection->transport));
  if (!reset && departure != GYRE_HTTP_END_CANCELS) return;
  exchange->departed = true;
  if (!NIL_P(exchange->gone) && !exchange->told && gyre_list_empty(&exchange->leaving)) {
    gyre_list_append(&acceptor->leaving, &exchange->leaving);
    gyre_post(acceptor->scheduler, &acceptor->departures);
  }
  if (!closed && departure != GYRE_HTTP_RESET_TELLS && !exchange->measured)
    interrupt(exchange, &exchange->departure, make_stop, Qnil);
}

/* A Gyre::Promise of true when the client has left, or of false when the request has ended; nil
 * when it has already. The app's fiber asks: it need not wait until it is told. */
VALUE gyre_http_exchange_client_gone(VALUE self) {
  struct gyre_http_exchange *exchange = gyre_http_exchange_get(self);
  if (!exchange) return Qnil;
  VALUE promise = exchange->gone;
  if (NIL_P(promise)) {
    promise = rb_class_new_instance(0, NULL, rb_path2class("Gyre::Promise"));
    if (!(exchange = gyre_http_exchange_get(self))) return Qnil;
    exchange->gone = promise;
    if (exchange->connection->hung_up || exchange->connection->state == GYRE_HTTP1_CLOSED ||
        (exchange->stream && exchange->stream->closed))
      gyre_http_exchange_peer_ended(exchange);
  }
  if (exchange->departed && !exchange->told) {
    gyre_list_remove(&exchange->leaving);
    exchange->told = true;
    gyre_http_exchange_settle((struct gyre_http_promise){promise, Qtrue});
  }
  return promise;
}

/* --- life --- */

/* What has no end of its own (an upgrade, a hijacked socket) has no duration. */
void gyre_http_exchange_measure(struct gyre_http_exchange *exchange) {
  if (exchange->measured) return;
  exchange->measured = true;
  gyre_http_exchange_end_limit(exchange);
  struct gyre_http1_connection *connection = exchange->connection;
  struct gyre_http1_acceptor *acceptor = connection->acceptor;
  bool hijacked = connection->state == GYRE_HTTP1_HIJACKED;
  acceptor->measured_ns = gyre_loop_now(&acceptor->scheduler->loop);
  gyre_http_statistics_take_bytes(&acceptor->statistics, &connection->transport);
  if (hijacked && !exchange->sent_status) return; /* its response is the app's own */
  gyre_http_statistics_response(&acceptor->statistics, exchange->sent_status,
                                hijacked ? -1 : acceptor->measured_ns - exchange->began_ns);
}

struct gyre_http_exchange *gyre_http_exchange_new(struct gyre_http1_connection *connection, VALUE class) {
  VALUE handle = TypedData_Wrap_Struct(class, &handle_type, NULL);
  struct gyre_http_exchange *exchange = take(connection->acceptor);
  exchange->connection = connection;
  exchange->handle = handle;
  exchange->fiber = exchange->env = exchange->trailers = exchange->response_trailers = exchange->gone = Qnil;
  exchange->began_ns = connection->acceptor->scheduler->loop.now_ns;
  RTYPEDDATA_DATA(handle) = exchange;
  gyre_list_init(&exchange->leaving);
  gyre_list_append(&connection->acceptor->active, &exchange->node);
  return exchange;
}

struct gyre_http_exchange *gyre_http_exchange_begin(struct gyre_http1_connection *connection) {
  struct gyre_http_exchange *before = connection->exchange;
  struct gyre_http_exchange *exchange = gyre_http_exchange_new(connection, gyre_cHttp1Exchange);
  if (before) {
    exchange->fiber = before->fiber;
    gyre_http_exchange_end(connection);
    exchange->began_ns = connection->acceptor->measured_ns;
  }
  return connection->exchange = exchange;
}

void gyre_http_exchange_leave_place(struct gyre_http_exchange *exchange) {
  gyre_http_exchange_end_limit(exchange);
  if (!exchange->placed) return;
  exchange->placed = false;
  gyre_admission_leave(&exchange->connection->acceptor->capacity->admission);
}

int64_t gyre_http_exchange_begin_wait(struct gyre_http_exchange *exchange, uint64_t given, size_t held) {
  struct gyre_http1_acceptor *acceptor = exchange->connection->acceptor;
  const struct gyre_http1_limits_table *limits = &acceptor->limits;
  struct gyre_http_budget *output = &acceptor->capacity->output;
  if (!exchange->write_waited_ns) exchange->taken_before = given; /* more than the kernel's memory */
  if (exchange->whole && gyre_http_exchange_holds_place(exchange)) {
    gyre_http_budget_hold(output, &exchange->output_counted, held);
    if (!gyre_http_budget_is_over(output)) gyre_http_exchange_leave_place(exchange);
  }
  if (limits->write_ns < 0 || !limits->response_rate) return limits->write_ns;
  int64_t earned_ns = gyre_http_earned_ns((int64_t)(given - exchange->taken_before), limits->response_rate,
                                          gyre_http_exchange_holds_place(exchange));
  int64_t left_ns = earned_ns - exchange->write_waited_ns;
  if (left_ns >= 0) return limits->write_ns;
  return left_ns + limits->write_ns > 0 ? left_ns + limits->write_ns : 0;
}

void gyre_http_exchange_end_wait(struct gyre_http_exchange *exchange, int64_t from_ns) {
  int64_t waited_ns = gyre_loop_now(&exchange->connection->acceptor->scheduler->loop) - from_ns;
  exchange->write_waited_ns += waited_ns > 0 ? waited_ns : 1; /* it has waited */
}

void gyre_http_exchange_end(struct gyre_http1_connection *connection) {
  struct gyre_http_exchange *exchange = connection->exchange;
  connection->exchange = NULL;
  gyre_http_exchange_free(exchange);
}

void gyre_http_exchange_free(struct gyre_http_exchange *exchange) {
  struct gyre_http1_acceptor *acceptor = exchange->connection->acceptor;
  gyre_http_exchange_measure(exchange);
  gyre_http_exchange_leave_place(exchange);
  if (exchange->output_counted) gyre_http_budget_hold(&acceptor->capacity->output, &exchange->output_counted, 0);
  if (exchange->files_counted) gyre_http_budget_hold(&acceptor->capacity->files, &exchange->files_counted, 0);
  cancel(exchange, &exchange->departure);
  RTYPEDDATA_DATA(exchange->handle) = NULL;
  if (exchange->reader) gyre_wake(acceptor->scheduler, &exchange->reader->wait.parked);
  if (exchange->writer) gyre_wake(acceptor->scheduler, &exchange->writer->wait.parked);
  gyre_list_remove(&exchange->leaving);
  gyre_list_remove(&exchange->node);
  if (acceptor->spare_count < SPARE_LIMIT) {
    acceptor->spare_count++;
    gyre_list_prepend(&acceptor->spare, &exchange->node);
  } else {
    free(exchange);
  }
}

void gyre_http_exchange_free_spare(struct gyre_http1_acceptor *acceptor) {
  while (!gyre_list_empty(&acceptor->spare)) {
    struct gyre_http_exchange *exchange = GYRE_CONTAINER(acceptor->spare.next, struct gyre_http_exchange, node);
    gyre_list_remove(&exchange->node);
    free(exchange);
  }
}

/* --- calls from other threads (lib/gyre/http/handovers.rb) --- */

bool gyre_http_exchange_is_outside(VALUE self) {
  const struct gyre_http_exchange *exchange = gyre_http_exchange_get(self);
  return exchange && gyre_thread_is_foreign(exchange->connection->acceptor->scheduler);
}

VALUE gyre_http_exchange_hand_over(VALUE self, const char *method, int count, const VALUE *arguments) {
  VALUE handovers = gyre_http_exchange_get(self)->connection->acceptor->handovers;
  return rb_funcall(handovers, id_call, 3, self, ID2SYM(rb_intern(method)), rb_ary_new_from_values(count, arguments));
}

void gyre_init_http_exchange(void) {
  id_call = rb_intern("call");
  id_resolve = rb_intern("resolve");
  VALUE http = rb_define_module_under(gyre_mGyre, "HTTP");
  VALUE exchange = rb_define_class_under(http, "Exchange", rb_cObject);
  VALUE h1 = rb_define_module_under(http, "H1");
  gyre_cHttp1Exchange = rb_define_class_under(h1, "Exchange", exchange);
  rb_gc_register_mark_object(gyre_cHttp1Exchange);
  rb_undef_alloc_func(gyre_cHttp1Exchange);
}
