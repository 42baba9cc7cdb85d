/*
 * What Ruby has of a connection while an app answers: the handle, one for each request, and the fiber that runs the
 * handler. http1_connection.c starts it with a head that is complete, or to refuse. It reads and writes nothing.
 */
#include "http/http1.h"

VALUE gyre_cHttp1Connection;
static ID id_call;

/* --- the handle: what Ruby sees of a connection while its handler runs --- */

static void handle_mark(void *opaque) {
  struct gyre_http1_connection *connection = opaque;
  if (!connection) return;
  rb_gc_mark(connection->acceptor->self);
  rb_gc_mark(connection->fiber);
  rb_gc_mark(connection->env);
  rb_gc_mark(connection->trailers);
}

static size_t handle_size(const void *opaque) {
  const struct gyre_http1_connection *connection = opaque;
  return connection ? sizeof(*connection) + connection->buffer_capacity : 0;
}

static const rb_data_type_t handle_type = {
    .wrap_struct_name = "Gyre::HTTP::NativeConnection",
    .function = {.dmark = handle_mark, .dfree = NULL, .dsize = handle_size},
    .flags = RUBY_TYPED_FREE_IMMEDIATELY,
};

static VALUE run_handler(VALUE handle) {
  struct gyre_http1_connection *connection = gyre_http1_connection_get(handle);
  return rb_funcall(connection->acceptor->handler, id_call, 1, handle);
}

static VALUE wrap(struct gyre_http1_connection *connection) {
  return TypedData_Wrap_Struct(gyre_cHttp1Connection, &handle_type, connection);
}

/* Whatever fiber or thread still has the handle, its request has ended. */
static void let_go_of_handle(struct gyre_http1_connection *connection) {
  RTYPEDDATA_DATA(connection->handle) = NULL;
  if (!connection->reader) return;
  gyre_wake(connection->acceptor->scheduler, &connection->reader->wait.parked);
  connection->reader = NULL;
}

void gyre_http1_connection_renew(struct gyre_http1_connection *connection) {
  VALUE handle = wrap(connection); /* may raise */
  let_go_of_handle(connection);
  connection->handle = handle;
}

/* The handler is done, whatever it did: the connection goes on without a fiber, or is gone. */
static VALUE finish_handler(VALUE argument) {
  struct gyre_http1_connection *connection = (struct gyre_http1_connection *)argument;
  struct gyre_http1_acceptor *acceptor = connection->acceptor;

  let_go_of_handle(connection);
  connection->handle = connection->fiber = connection->env = connection->trailers = Qnil;
  connection->handler = false;
  gyre_list_remove(&connection->active);
  acceptor->running--;
  if (connection->state == GYRE_HTTP1_SERVING) gyre_http1_connection_close(connection, true);
  if (connection->state == GYRE_HTTP1_CLOSED || connection->state == GYRE_HTTP1_HIJACKED) {
    gyre_http1_connection_free(connection);
    return Qnil;
  }
  struct gyre_loop *loop = &acceptor->scheduler->loop;
  if (!gyre_timer_armed(&connection->timer) && connection->deadline_ns != INT64_MAX) { /* it fired meanwhile */
    (void)gyre_timers_arm(&loop->timers, &connection->timer, connection->deadline_ns);
  }
  if (connection->readable) connection->watch.ready(loop, &connection->watch, GYRE_READABLE);
  return Qnil;
}

static VALUE handler_main(VALUE handle) {
  struct gyre_http1_connection *connection = gyre_http1_connection_get(handle);
  connection->fiber = rb_fiber_current();
  return rb_ensure(run_handler, handle, finish_handler, (VALUE)connection); /* it lives as long as it has a handler */
}

struct starting {
  struct gyre_http1_connection *connection;
  VALUE handle;
  const struct gyre_http1_head *head;
  const char *bytes;
};

static VALUE start_body(VALUE argument) {
  struct starting *starting = (struct starting *)argument;
  struct gyre_http1_connection *connection = starting->connection;
  starting->handle = connection->handle = wrap(connection);
  if (connection->status) {
    gyre_http1_request_refused(connection, starting->head, starting->bytes);
  } else {
    gyre_http1_request_begin(connection, starting->head, starting->bytes);
  }
  return gyre_spawn(connection->acceptor->scheduler, handler_main, connection->handle, Qnil);
}

/* Runs the handler for a head that is complete, or to refuse (connection->status). */
void gyre_http1_handler_start(struct gyre_http1_connection *connection, const struct gyre_http1_head *head,
                              const char *at) {
  struct gyre_http1_acceptor *acceptor = connection->acceptor;
  struct starting starting = {connection, Qnil, head, at};
  int state = 0;

  if (connection->is_idle) {
    connection->is_idle = false;
    acceptor->idle--;
  }
  connection->state = GYRE_HTTP1_SERVING;
  (void)gyre_http1_connection_count_head(connection, 0);
  connection->deadline_ns = INT64_MAX;
  connection->handler = true;
  gyre_list_append(&acceptor->active, &connection->active);
  acceptor->running++;
  rb_protect(start_body, (VALUE)&starting, &state);
  if (!state) return;

  /* No memory, or no fiber left: this connection ends, the others go on. Once the handler has begun (its connection may be
   * gone by now) it is none of its business: its SystemExit and the like, or what another thread raises here. */
  VALUE error = rb_errinfo();
  bool fatal = !rb_obj_is_kind_of(error, rb_eException) || rb_obj_is_kind_of(error, rb_eSystemExit) ||
               rb_obj_is_kind_of(error, rb_eSignal);
  if (NIL_P(starting.handle)) {
    connection->handler = false;
    gyre_list_remove(&connection->active);
    acceptor->running--;
    gyre_http1_connection_close(connection, true);
    gyre_http1_connection_free(connection);
  } else {
    struct gyre_http1_connection *left = gyre_http1_connection_get(starting.handle);
    if (left && NIL_P(left->fiber))
      finish_handler((VALUE)left);
    else
      fatal = true;
  }
  if (fatal) rb_jump_tag(state);
  rb_set_errinfo(Qnil);
  rb_funcall(acceptor->scheduler->self, rb_intern("report"), 2, error, rb_fiber_current());
}

void gyre_init_http1_handler(void) {
  id_call = rb_intern("call");
  VALUE http1 = rb_define_module_under(gyre_mGyre, "HTTP");
  VALUE connection = rb_define_class_under(http1, "Connection", rb_cObject);
  gyre_cHttp1Connection = rb_define_class_under(http1, "NativeConnection", connection);
  rb_gc_register_mark_object(gyre_cHttp1Connection);
  rb_undef_alloc_func(gyre_cHttp1Connection);
}
