/* Begins and ends exchanges. The end of an exchange empties its Ruby handle. Does no I/O. */
#include "http/exchange.h"

#include <stdio.h>

#ifdef __SANITIZE_ADDRESS__
#define SPARE_LIMIT 0 /* lets ASan catch uses after the end */
#else
#define SPARE_LIMIT 64
#endif

static size_t largest; /* size of the largest version's struct */

void gyre_http_exchange_mark(const struct gyre_http_exchange *exchange) {
  GYRE_MARK(exchange->fiber, exchange->env, exchange->trailers, exchange->departure.promise,
            exchange->response_trailers, exchange->path);
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

GYRE_TYPE(handle_type, "Gyre::HTTP::Exchange", handle_mark, NULL, handle_size, RUBY_TYPED_FREE_IMMEDIATELY);

/* Takes a spare exchange if there is one: malloc would cost 5 % of a request's time in C. */
static struct gyre_http_exchange *take(struct gyre_http_acceptor *acceptor, size_t bytes) {
  struct gyre_http_exchange *exchange;
  if (gyre_list_empty(&acceptor->exchanges.spare)) {
    exchange = malloc(largest);
    if (!exchange) rb_memerror();
  } else {
    exchange = GYRE_CONTAINER(acceptor->exchanges.spare.next, struct gyre_http_exchange, node);
    gyre_list_remove(&exchange->node);
    acceptor->exchanges.spare_count--;
  }
  memset(exchange, 0, bytes);
  return exchange;
}

/* --- the request's limit of time, and its client's departure --- */

static void cancel(struct gyre_http_exchange *exchange, struct gyre_interrupt **interrupt) {
  if (*interrupt) gyre_interrupt_cancel(exchange->connection->acceptor->scheduler, *interrupt);
}

void gyre_http_exchange_end_limit(struct gyre_http_exchange *exchange) {
  if (gyre_timer_armed(&exchange->limit.timer))
    gyre_timers_cancel(&exchange->connection->acceptor->scheduler->loop.timers, &exchange->limit.timer);
  cancel(exchange, &exchange->limit.interrupt);
}

static void interrupt(struct gyre_http_exchange *exchange, struct gyre_interrupt **interrupt, const char *class,
                      const char *message) {
  if (NIL_P(exchange->fiber) || *interrupt) return;
  *interrupt = gyre_http_cancel(exchange->connection->acceptor->scheduler, exchange->fiber, class, message);
  if (*interrupt) (*interrupt)->owner = interrupt;
}

/* Does not interrupt a request that waits for its client: such waits have their own limits. */
static void limit_is_over(struct gyre_timer *timer, void *context) {
  struct gyre_http_exchange *exchange = GYRE_CONTAINER(timer, struct gyre_http_exchange, limit.timer);
  struct gyre_loop *loop = context;
  int64_t limit_ns = exchange->connection->acceptor->limits.request_ns;
  if (exchange->response.writing || exchange->reader) {
    (void)gyre_timers_arm(&loop->timers, timer, loop->now_ns + limit_ns);
    return;
  }
  char message[80];
  snprintf(message, sizeof(message), "the request took longer than %g s", (double)limit_ns / 1e9);
  interrupt(exchange, &exchange->limit.interrupt, "Gyre::HTTP::RequestTimeout", message);
}

void gyre_http_exchange_limit(struct gyre_http_exchange *exchange) {
  const struct gyre_http_acceptor *acceptor = exchange->connection->acceptor;
  struct gyre_loop *loop = &acceptor->scheduler->loop;
  if (acceptor->limits.request_ns < 0) return;
  exchange->limit.timer.fire = limit_is_over;
  (void)gyre_timers_arm(&loop->timers, &exchange->limit.timer,
                        gyre_loop_coarse_now(loop) + acceptor->limits.request_ns);
}

static VALUE settle_body(VALUE argument) {
  const struct gyre_http_promise *promise = (const struct gyre_http_promise *)argument;
  return rb_funcall(promise->promise, rb_intern("resolve"), 1, promise->gone);
}

void gyre_http_exchange_settle(struct gyre_http_promise promise) {
  int state = 0;
  if (NIL_P(promise.promise)) return;
  rb_protect(settle_body, (VALUE)&promise, &state);
  if (state) rb_set_errinfo(Qnil);
}

/* Ends an open-ended response that had no output since the last check. Browsers and proxies end
 * both sides; another client may still read, and notices output. */
static void half_closed_for_long(struct gyre_timer *timer, void *context) {
  struct gyre_http_exchange *exchange = GYRE_CONTAINER(timer, struct gyre_http_exchange, limit.timer);
  struct gyre_loop *loop = context;
  if (exchange->response.writing || exchange->departure.body_bytes != exchange->response.body_bytes) {
    exchange->departure.body_bytes = exchange->response.body_bytes;
    (void)gyre_timers_arm(&loop->timers, timer, loop->now_ns + exchange->connection->acceptor->limits.write_ns);
  } else {
    interrupt(exchange, &exchange->departure.interrupt, "Gyre::Stop", "the client has ended its side");
  }
}

static void expect_departure(struct gyre_http_exchange *exchange) {
  struct gyre_http_acceptor *acceptor = exchange->connection->acceptor;
  struct gyre_loop *loop = &acceptor->scheduler->loop;
  if (acceptor->limits.write_ns < 0 || gyre_timer_armed(&exchange->limit.timer)) return;
  exchange->departure.body_bytes = exchange->response.body_bytes;
  exchange->limit.timer.fire = half_closed_for_long;
  (void)gyre_timers_arm(&loop->timers, &exchange->limit.timer, gyre_loop_coarse_now(loop) + acceptor->limits.write_ns);
}

void gyre_http_exchange_open_ended(struct gyre_http_exchange *exchange) {
  gyre_http_exchange_leave_place(exchange);
  exchange->open_ended = true;
  if (exchange->connection->hung_up) gyre_http_exchange_peer_ended(exchange);
}

void gyre_http_exchange_peer_ended(struct gyre_http_exchange *exchange) {
  struct gyre_http_acceptor *acceptor = exchange->connection->acceptor;
  bool asked = !NIL_P(exchange->departure.promise), cancels = acceptor->cancel_when_gone || exchange->open_ended;
  bool closed = exchange->connection->state == GYRE_HTTP_CLOSED;
  if (!closed && !exchange->operations->is_reset(exchange)) {
    if (exchange->open_ended && !exchange->measured) expect_departure(exchange);
    return;
  }
  if (!asked && !cancels) return;
  exchange->departure.seen = true;
  if (asked && !exchange->departure.told && gyre_list_empty(&exchange->departure.node)) {
    gyre_list_append(&acceptor->leaving, &exchange->departure.node);
    gyre_post(acceptor->scheduler, &acceptor->thread_calls.post);
  }
  if (!closed && cancels && !exchange->measured)
    interrupt(exchange, &exchange->departure.interrupt, "Gyre::Stop", "the client has left");
}

void gyre_http_exchange_wake_reader(struct gyre_http_exchange *exchange) {
  struct gyre_http_reader *reader = exchange->reader;
  if (!reader) return;
  if (reader->came_ns < 0) reader->came_ns = gyre_http_loop(exchange->connection)->unseen_ns;
  gyre_wake(exchange->connection->acceptor->scheduler, &reader->wait.parked);
}

/* A hijacked response has no duration. */
void gyre_http_exchange_measure(struct gyre_http_exchange *exchange) {
  if (exchange->measured) return;
  exchange->measured = true;
  gyre_http_exchange_end_limit(exchange);
  struct gyre_http_connection *connection = exchange->connection;
  struct gyre_http_acceptor *acceptor = connection->acceptor;
  bool hijacked = gyre_http_exchange_is_hijacked(exchange);
  acceptor->measured_ns = gyre_loop_now(&acceptor->scheduler->loop);
  gyre_http_statistics_take_bytes(&acceptor->statistics, &connection->transport);
  if (hijacked && !exchange->response.status) return; /* the app itself sends the response */
  gyre_http_statistics_response(&acceptor->statistics, exchange->response.status,
                                hijacked ? -1 : acceptor->measured_ns - exchange->began_ns);
}

struct gyre_http_exchange *gyre_http_exchange_new(struct gyre_http_connection *connection,
                                                  const struct gyre_http_exchange_operations *operations) {
  VALUE handle = TypedData_Wrap_Struct(*operations->class, &handle_type, NULL);
  struct gyre_http_exchange *exchange = take(connection->acceptor, operations->bytes);
  exchange->operations = operations;
  exchange->connection = connection;
  exchange->handle = handle;
  exchange->fiber = exchange->env = exchange->path = exchange->trailers = exchange->response_trailers = Qnil;
  exchange->departure.promise = Qnil;
  exchange->began_ns = gyre_http_loop(connection)->now_ns;
  RTYPEDDATA_DATA(handle) = exchange;
  gyre_list_init(&exchange->departure.node);
  gyre_list_append(&connection->acceptor->exchanges.active, &exchange->node);
  return exchange;
}

void gyre_http_exchange_leave_place(struct gyre_http_exchange *exchange) {
  gyre_http_exchange_end_limit(exchange);
  if (!exchange->placed) return;
  exchange->placed = false;
  gyre_admission_leave(&exchange->connection->acceptor->capacity.admission);
}

int64_t gyre_http_exchange_begin_wait(struct gyre_http_exchange *exchange, uint64_t given, size_t held) {
  struct gyre_http_acceptor *acceptor = exchange->connection->acceptor;
  const struct gyre_http_limits *limits = &acceptor->limits;
  struct gyre_http_budget *output = &acceptor->capacity.output;
  /* Bytes before the first wait have filled the kernel's buffer; the client may not have them. */
  if (!exchange->response.waited_ns) exchange->response.taken_before = given;
  if (exchange->response.whole && gyre_http_exchange_holds_place(exchange)) {
    gyre_http_budget_hold(output, &exchange->response.output_counted, held);
    if (!gyre_http_budget_is_over(output)) gyre_http_exchange_leave_place(exchange);
  }
  if (limits->write_ns < 0 || !limits->response_rate_bytes) return limits->write_ns;
  int64_t earned_ns = gyre_http_earned_ns((int64_t)(given - exchange->response.taken_before),
                                          limits->response_rate_bytes, gyre_http_exchange_holds_place(exchange));
  int64_t left_ns = earned_ns - exchange->response.waited_ns;
  if (left_ns >= 0) return limits->write_ns;
  return left_ns + limits->write_ns > 0 ? left_ns + limits->write_ns : 0;
}

void gyre_http_exchange_end_wait(struct gyre_http_exchange *exchange, int64_t from_ns) {
  int64_t waited_ns = gyre_loop_now(&exchange->connection->acceptor->scheduler->loop) - from_ns;
  exchange->response.waited_ns += waited_ns > 0 ? waited_ns : 1; /* 0 would mean: no wait yet */
}

void gyre_http_exchange_free(struct gyre_http_exchange *exchange) {
  struct gyre_http_acceptor *acceptor = exchange->connection->acceptor;
  gyre_http_exchange_measure(exchange);
  gyre_http_route_end(exchange->handle, false);
  gyre_http_exchange_leave_place(exchange);
  if (exchange->response.output_counted)
    gyre_http_budget_hold(&acceptor->capacity.output, &exchange->response.output_counted, 0);
  if (exchange->response.files_counted)
    gyre_http_budget_hold(&acceptor->capacity.files, &exchange->response.files_counted, 0);
  cancel(exchange, &exchange->departure.interrupt);
  RTYPEDDATA_DATA(exchange->handle) = NULL;
  if (exchange->reader) gyre_wake(acceptor->scheduler, &exchange->reader->wait.parked);
  gyre_list_remove(&exchange->departure.node);
  gyre_list_remove(&exchange->node);
  if (acceptor->exchanges.spare_count < SPARE_LIMIT) {
    acceptor->exchanges.spare_count++;
    gyre_list_prepend(&acceptor->exchanges.spare, &exchange->node);
  } else {
    free(exchange);
  }
}

void gyre_http_exchange_reserve(const struct gyre_http_exchange_operations *operations) {
  if (operations->bytes > largest) largest = operations->bytes;
}
