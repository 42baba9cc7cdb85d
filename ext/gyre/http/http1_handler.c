/*
 * The handler's fiber: begun by a connection whose head is complete, or refused, and ended with its
 * last request. It reads and writes nothing.
 */
#include "http/http1.h"

static ID id_call, id_report;

static VALUE run_handler(VALUE handle) {
  struct gyre_http_exchange *exchange = gyre_http_exchange_get(handle);
  return rb_funcall(exchange->connection->acceptor->handler, id_call, 1, handle);
}

static void finish(struct gyre_http1_connection *connection) {
  struct gyre_http1_acceptor *acceptor = connection->acceptor;
  gyre_http_exchange_end(connection);
  acceptor->running--;
  if (connection->state == GYRE_HTTP1_SERVING) gyre_http1_connection_close(connection, true);
  if (connection->state == GYRE_HTTP1_CLOSED || connection->state == GYRE_HTTP1_HIJACKED) {
    gyre_http1_connection_free(connection);
    return;
  }
  struct gyre_loop *loop = &acceptor->scheduler->loop;
  if (!gyre_timer_armed(&connection->timer) && connection->deadline_ns != INT64_MAX) { /* it fired meanwhile */
    (void)gyre_timers_arm(&loop->timers, &connection->timer, connection->deadline_ns);
  }
  if (connection->state == GYRE_HTTP1_WAITING) {
    gyre_http1_connection_decided(connection);
  } else if (connection->readable) {
    connection->watch.ready(loop, &connection->watch, GYRE_READABLE);
  }
}

/* The handler is done, whatever it did: the connection goes on without a fiber, or is gone. The
 * promise comes last, for its code may let others run, and these end the connection. */
static VALUE finish_handler(VALUE argument) {
  struct gyre_http1_connection *connection = (struct gyre_http1_connection *)argument;
  struct gyre_http_promise promise = gyre_http_exchange_take_promise(connection->exchange);
  finish(connection);
  gyre_http_exchange_settle(promise);
  return Qnil;
}

static VALUE handler_main(VALUE handle) {
  struct gyre_http_exchange *exchange = gyre_http_exchange_get(handle);
  exchange->fiber = rb_fiber_current();
  /* A connection lives as long as it has a handler. */
  return rb_ensure(run_handler, handle, finish_handler, (VALUE)exchange->connection);
}

struct starting {
  struct gyre_http1_connection *connection;
  const struct gyre_http1_request *request;
  VALUE handle;
};

static VALUE start_body(VALUE argument) {
  struct starting *starting = (struct starting *)argument;
  struct gyre_http1_acceptor *acceptor = starting->connection->acceptor;
  struct gyre_http_exchange *exchange = gyre_http_exchange_begin(starting->connection);
  starting->handle = exchange->handle;
  exchange->placed = starting->request->placed;
  if (starting->request->since_ns) exchange->began_ns = starting->request->since_ns;
  acceptor->running++;
  gyre_http1_request_begin(exchange, starting->request);
  return gyre_spawn(acceptor->scheduler, handler_main, exchange->handle, Qnil);
}

void gyre_http1_handler_start(struct gyre_http1_connection *connection, const struct gyre_http1_request *request) {
  struct gyre_http1_acceptor *acceptor = connection->acceptor;
  struct starting starting = {connection, request, Qnil};
  int state = 0;
  if (connection->is_idle) {
    connection->is_idle = false;
    acceptor->idle--;
  }
  connection->state = GYRE_HTTP1_SERVING;
  connection->deadline_ns = INT64_MAX;
  rb_protect(start_body, (VALUE)&starting, &state);
  if (!state) return;

  struct gyre_http_exchange *left = NIL_P(starting.handle) ? NULL : gyre_http_exchange_get(starting.handle);
  bool begun = false;
  if (NIL_P(starting.handle)) {
    if (request->placed) gyre_admission_leave(&acceptor->capacity->admission);
    gyre_http1_connection_close(connection, true);
    gyre_http1_connection_free(connection);
  } else if (left && NIL_P(left->fiber)) {
    finish_handler((VALUE)connection);
  } else {
    begun = true;
  }
  state = gyre_http_handler_failed(acceptor, state, begun);
  if (state) rb_jump_tag(state);
}

/* No memory, or no fiber left: this request ends, the others go on. Once the handler has begun (its
 * connection may be gone by now) its errors are not the connection's: its SystemExit and the like,
 * or what another thread raises here. */
int gyre_http_handler_failed(struct gyre_http1_acceptor *acceptor, int state, bool begun) {
  VALUE error = rb_errinfo();
  if (begun || !rb_obj_is_kind_of(error, rb_eException) || rb_obj_is_kind_of(error, rb_eSystemExit) ||
      rb_obj_is_kind_of(error, rb_eSignal))
    return state;
  rb_set_errinfo(Qnil);
  rb_funcall(acceptor->scheduler->self, id_report, 2, error, rb_fiber_current());
  return 0;
}

void gyre_init_http1_handler(void) {
  id_call = rb_intern("call");
  id_report = rb_intern("report");
}
