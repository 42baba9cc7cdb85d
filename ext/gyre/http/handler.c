/* Runs the handler's fiber, from a head to the fiber's last request. Decides whether a request may
 * run now. */
#include "http/exchange.h"

struct running {
  struct gyre_http_connection *connection; /* lives as long as its handler */
  VALUE handle;
};

static VALUE run_handler(VALUE handle) {
  struct gyre_http_exchange *exchange = gyre_http_exchange_get(handle);
  return rb_funcall(exchange->connection->acceptor->handler, rb_intern("call"), 1, handle);
}

/* Ends the handler's fiber. The connection continues without a fiber or is freed. Settles the
 * promise last, because other fibers may then run and end the connection. */
static VALUE finish_handler(VALUE argument) {
  const struct running *running = (const struct running *)argument;
  struct gyre_http_connection *connection = running->connection;
  struct gyre_http_exchange *exchange = connection->exchange; /* may be a later request's */
  if (!exchange) exchange = gyre_http_exchange_get(running->handle);
  struct gyre_http_promise promise = gyre_http_exchange_take_promise(exchange);
  connection->acceptor->counts.running--;
  exchange->operations->done(connection, exchange);
  gyre_http_exchange_settle(promise);
  return Qnil;
}

static VALUE handler_main(VALUE handle) {
  struct gyre_http_exchange *exchange = gyre_http_exchange_get(handle);
  struct running running = {exchange->connection, handle};
  exchange->fiber = rb_fiber_current();
  return rb_ensure(run_handler, handle, finish_handler, (VALUE)&running);
}

struct starting {
  struct gyre_http_connection *connection;
  const struct gyre_http_request *request;
  const struct gyre_http_exchange_operations *operations;
  VALUE handle;
};

static VALUE start(VALUE argument) {
  struct starting *starting = (struct starting *)argument;
  struct gyre_http_acceptor *acceptor = starting->connection->acceptor;
  struct gyre_http_exchange *exchange = gyre_http_exchange_new(starting->connection, starting->operations);
  starting->handle = exchange->handle;
  exchange->placed = starting->request->placed;
  if (starting->request->since_ns) exchange->began_ns = starting->request->since_ns;
  acceptor->counts.running++;
  starting->operations->begin(exchange, starting->request);
  return gyre_spawn(acceptor->scheduler, handler_main, exchange->handle, Qnil);
}

int gyre_http_handler_start(struct gyre_http_connection *connection, const struct gyre_http_request *request,
                            const struct gyre_http_exchange_operations *operations) {
  struct gyre_http_acceptor *acceptor = connection->acceptor;
  struct starting starting = {connection, request, operations, Qnil};
  int state = 0;
  rb_protect(start, (VALUE)&starting, &state);
  if (!state) return 0;

  struct gyre_http_exchange *left = NIL_P(starting.handle) ? NULL : gyre_http_exchange_get(starting.handle);
  bool begun = false;
  if (NIL_P(starting.handle)) {
    if (request->placed) gyre_admission_leave(&acceptor->capacity.admission);
    operations->drop(connection, request);
  } else if (left && NIL_P(left->fiber)) {
    finish_handler((VALUE) & (struct running){connection, starting.handle});
  } else {
    begun = true;
  }
  return gyre_http_handler_failed(acceptor, state, begun);
}

/* Ends only this request if memory or fibers run out. Passes on SystemExit, signals, and exceptions
 * that the handler raised; the connection may then be freed. */
int gyre_http_handler_failed(struct gyre_http_acceptor *acceptor, int state, bool begun) {
  VALUE error = rb_errinfo();
  if (begun || !rb_obj_is_kind_of(error, rb_eException) || rb_obj_is_kind_of(error, rb_eSystemExit) ||
      rb_obj_is_kind_of(error, rb_eSignal))
    return state;
  rb_set_errinfo(Qnil);
  rb_funcall(acceptor->scheduler->self, rb_intern("report"), 2, error, rb_fiber_current());
  return 0;
}

struct asking {
  VALUE exempt;
  const char *path;
  long length;
};

static VALUE ask(VALUE argument) {
  const struct asking *asking = (const struct asking *)argument;
  return rb_funcall(asking->exempt, rb_intern("call"), 1, rb_str_new(asking->path, asking->length));
}

/* Calls `exempt` on the loop's fiber, where it must not wait. If it raises, its error is reported,
 * and the request needs a place. */
bool gyre_http_is_exempt(struct gyre_http_acceptor *acceptor, const struct gyre_http_request *request) {
  if (!RTEST(acceptor->exempt)) return false;
  const struct gyre_http_slice path = request->head->path;
  uint8_t number = request->head->method_number;
  if (number != GYRE_HTTP_METHOD_GET && number != GYRE_HTTP_METHOD_HEAD) return false;
  struct asking asking = {acceptor->exempt, request->bytes + path.offset, (long)path.length};
  int state = 0;
  VALUE exempt = rb_protect(ask, (VALUE)&asking, &state);
  if (!state) return RTEST(exempt);
  state = gyre_http_handler_failed(acceptor, state, false);
  if (state) rb_jump_tag(state);
  return false;
}

bool gyre_http_admit(struct gyre_http_acceptor *acceptor, struct gyre_http_request *request) {
  struct gyre_admission *admission = &acceptor->capacity.admission;
  if (!gyre_admission_has_place(admission)) return gyre_http_is_exempt(acceptor, request);
  gyre_admission_take(admission);
  request->placed = true;
  return true;
}
