/*
 * The handler's fiber of a stream: begun when its head is complete, or refused, and ended with its
 * response. It reads and writes nothing.
 */
#include "feature.h"

#ifdef GYRE_HAVE_NGHTTP2

#include "http/http2.h"

static VALUE run_handler(VALUE handle) {
  struct gyre_http_exchange *exchange = gyre_http_exchange_get(handle);
  return rb_funcall(exchange->connection->acceptor->handler, rb_intern("call"), 1, handle);
}

/* The handler is done, whatever it did: what it has queued goes out without it. The promise comes
 * last, for its code may let others run, and these end the connection. */
static VALUE finish_handler(VALUE handle) {
  struct gyre_http_exchange *exchange = gyre_http_exchange_get(handle);
  struct gyre_http1_connection *connection = exchange->connection;
  struct gyre_http2_stream *stream = exchange->stream;
  struct gyre_http_promise promise = gyre_http_exchange_take_promise(exchange);
  gyre_http_exchange_free(exchange);
  stream->progress_ns = stream->left_ns = gyre_loop_coarse_now(&connection->acceptor->scheduler->loop);
  stream->left_bytes = stream->sent_bytes;
  gyre_http2_stream_release(stream);
  connection->acceptor->running--;
  connection->http2->running--;
  gyre_http2_connection_send(connection);
  gyre_http2_connection_settle(connection);
  gyre_http_exchange_settle(promise);
  return Qnil;
}

static VALUE handler_main(VALUE handle) {
  gyre_http_exchange_get(handle)->fiber = rb_fiber_current();
  return rb_ensure(run_handler, handle, finish_handler, handle);
}

struct starting {
  struct gyre_http1_connection *connection;
  struct gyre_http2_stream *stream;
  VALUE handle;
};

static VALUE start_body(VALUE argument) {
  struct starting *starting = (struct starting *)argument;
  struct gyre_http1_connection *connection = starting->connection;
  struct gyre_http_exchange *exchange = gyre_http_exchange_new(connection, gyre_cHttp2Exchange);
  exchange->stream = starting->stream;
  exchange->placed = starting->stream->placed;
  if (starting->stream->waiter.since_ns) exchange->began_ns = starting->stream->waiter.since_ns;
  starting->stream->owner = exchange;
  starting->handle = exchange->handle;
  connection->acceptor->running++;
  connection->http2->running++;
  gyre_http2_request_begin(exchange, starting->stream);
  return gyre_spawn(connection->acceptor->scheduler, handler_main, exchange->handle, Qnil);
}

int gyre_http2_handler_start(struct gyre_http1_connection *connection, struct gyre_http2_stream *stream) {
  struct gyre_http1_acceptor *acceptor = connection->acceptor;
  struct starting starting = {connection, stream, Qnil};
  int state = 0;
  rb_protect(start_body, (VALUE)&starting, &state);
  if (!state) return 0;

  struct gyre_http_exchange *left = NIL_P(starting.handle) ? NULL : gyre_http_exchange_get(starting.handle);
  bool begun = false;
  if (NIL_P(starting.handle)) {
    if (stream->placed) gyre_admission_leave(&acceptor->capacity->admission);
    stream->discards = true;
    gyre_http2_stream_refuse(stream);
  } else if (left && NIL_P(left->fiber)) {
    finish_handler(starting.handle);
  } else {
    begun = true;
  }
  return gyre_http_handler_failed(acceptor, state, begun);
}

#endif
