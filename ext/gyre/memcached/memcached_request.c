/*
 * How a call of the memcached client goes: its command is queued in the present home's pipeline and
 * sent, its fiber or thread waits, and the reply becomes a value. memcached_server.c and
 * memcached_many.c fill in what is to be queued. A call never retries.
 */
#include "memcached/memcached_request.h"
#include "net/socket_wait.h"

#include <errno.h>
#include <ruby/encoding.h>
#include <ruby/fiber/scheduler.h>
#include <string.h>

#define CODED 3 /* flags of a value that is serialized or compressed, as Dalli has them */
#define UTF8 4

static VALUE call_class;
static ID id_connect, id_fail, id_refuse, id_dump, id_load, id_full;

/* --- the server, and its connection here --- */

static void server_mark(void *opaque) {
  const struct gyre_memcached_server *server = opaque;
  rb_gc_mark(server->connections);
  rb_gc_mark(server->keys);
  rb_gc_mark(server->prefix);
  rb_gc_mark(server->values);
}

static const rb_data_type_t server_type = {
    .wrap_struct_name = "Gyre::Memcached::Server",
    .function = {.dmark = server_mark, .dfree = RUBY_TYPED_DEFAULT_FREE},
    .flags = RUBY_TYPED_FREE_IMMEDIATELY,
};

VALUE gyre_memcached_server_allocate(VALUE class) {
  struct gyre_memcached_server *server;
  VALUE self = TypedData_Make_Struct(class, struct gyre_memcached_server, &server_type, server);
  server->connections = server->keys = server->prefix = server->values = Qnil;
  server->direct_bytes = -1;
  return self;
}

struct gyre_memcached_server *gyre_memcached_server_get(VALUE self) {
  return rb_check_typeddata(self, &server_type);
}

VALUE gyre_memcached_connection_here(const struct gyre_memcached_server *server) {
  if (NIL_P(server->connections)) return Qnil;
  const struct gyre_scheduler *scheduler = gyre_socket_scheduler();
  for (long i = 0; i < RARRAY_LEN(server->connections); i++) {
    VALUE object = RARRAY_AREF(server->connections, i);
    const struct gyre_memcached_connection *connection = gyre_memcached_connection_get(object);
    if (connection->scheduler == scheduler && gyre_memcached_connection_usable(connection)) return object;
  }
  return Qnil;
}

/* --- calls that are Ruby objects: of fibers that another library may collect, and of commands that
 * are sent now and waited for later --- */

struct handle {
  struct gyre_memcached_call call; /* first: the connection knows only that */
  VALUE server;
  const char *command;
  enum gyre_memcached_result result;
  long count;
};

static void handle_mark(void *opaque) {
  const struct handle *handle = opaque;
  gyre_memcached_call_mark(&handle->call);
  rb_gc_mark(handle->server);
}

static const rb_data_type_t handle_type = {
    .wrap_struct_name = "Gyre::Memcached::Call",
    .function = {.dmark = handle_mark, .dfree = RUBY_TYPED_DEFAULT_FREE},
    .flags = RUBY_TYPED_FREE_IMMEDIATELY,
};

static void put_on_heap(struct gyre_memcached_request *request) {
  struct handle *handle;
  request->call_object = TypedData_Make_Struct(call_class, struct handle, &handle_type, handle);
  handle->call = request->own;
  handle->call.owner = request->call_object;
  handle->server = request->self;
  handle->command = request->command;
  handle->result = request->result;
  handle->count = request->count;
  request->call = &handle->call;
}

/* --- waiting --- */

static VALUE wait_in_loop(VALUE argument) {
  struct gyre_memcached_request *request = (struct gyre_memcached_request *)argument;
  while (request->call->outstanding) gyre_wait_again(&request->wait);
  return Qnil;
}

static VALUE leave_loop(VALUE argument) {
  struct gyre_memcached_request *request = (struct gyre_memcached_request *)argument;
  request->call->wait = NULL;
  gyre_wait_end(&request->wait);
  return Qnil;
}

static void wait_for_reply(struct gyre_memcached_request *request) {
  struct gyre_memcached_call *call = request->call;
  if (!call->outstanding) return;
  struct gyre_memcached_connection *connection = call->connection;
  if (!connection->scheduler) {
    gyre_memcached_threads_wait(connection, call, request->until_ns);
    return;
  }
  gyre_wait_begin(connection->scheduler, &request->wait, connection->self);
  call->wait = &request->wait;
  rb_ensure(wait_in_loop, (VALUE)request, leave_loop, (VALUE)request);
}

struct room_wait {
  struct gyre_memcached_connection *connection;
  struct gyre_memcached_room room;
  struct gyre_wait wait;
};

static VALUE wait_in_crowd(VALUE argument) {
  struct room_wait *wait = (struct room_wait *)argument;
  while (!wait->connection->failed && !gyre_memcached_connection_has_room(wait->connection)) {
    if (gyre_list_empty(&wait->room.node)) gyre_list_append(&wait->connection->room, &wait->room.node);
    gyre_wait_again(&wait->wait);
  }
  return Qnil;
}

static VALUE leave_crowd(VALUE argument) {
  struct room_wait *wait = (struct room_wait *)argument;
  gyre_list_remove(&wait->room.node);
  gyre_wait_end(&wait->wait);
  return Qnil;
}

void gyre_memcached_wait_for_room(struct gyre_memcached_connection *connection) {
  gyre_memcached_connection_send(connection, true);
  if (!connection->scheduler) {
    gyre_memcached_threads_wait(connection, NULL, -1);
    return;
  }
  struct room_wait wait = {.connection = connection, .room = {.wait = &wait.wait}};
  gyre_list_init(&wait.room.node);
  gyre_wait_begin(connection->scheduler, &wait.wait, connection->self);
  rb_ensure(wait_in_crowd, (VALUE)&wait, leave_crowd, (VALUE)&wait);
}

/* The present home's, with room for a command. */
static void take_connection(struct gyre_memcached_request *request) {
  for (;;) {
    VALUE object = gyre_memcached_connection_here(request->server);
    if (NIL_P(object)) object = rb_funcall(request->self, id_connect, 0);
    request->connection_object = object;
    request->connection = gyre_memcached_connection_get(object);
    if (__builtin_expect(gyre_memcached_connection_has_room(request->connection), 1)) return;
    gyre_memcached_wait_for_room(request->connection);
    if (!request->connection->failed) return;
  }
}

static VALUE request_body(VALUE argument) {
  struct gyre_memcached_request *request = (struct gyre_memcached_request *)argument;
  int error;
  bool alone;
  do { /* one that turns out to be closed before anything was queued is replaced */
    take_connection(request);
    alone = !gyre_memcached_pending(request->connection) && request->connection->scheduler &&
            request->connection->scheduler->ready_count == 0;
    error = request->put(request);
  } while (error == -EPIPE && !request->call->connection);
  if (error == -ENOMEM) rb_memerror();
  if (error == -EPIPE) request->call->failed = true;
  if (request->starts) {
    if (request->drops) gyre_memcached_call_leave(request->call);
    if (!request->holds || gyre_bytes_held(request->connection->transport->output) >= GYRE_LENT_BYTES)
      gyre_memcached_connection_send(request->connection, false);
    request->started = true;
    return Qnil;
  }
  gyre_memcached_connection_send(request->connection, alone);
  if (alone && request->connection->linked) request->connection->scheduler->loop.expected = &request->connection->busy;
  wait_for_reply(request);
  return Qnil;
}

static VALUE wait_body(VALUE argument) {
  struct gyre_memcached_request *request = (struct gyre_memcached_request *)argument;
  gyre_memcached_connection_send(request->connection, false);
  wait_for_reply(request);
  return Qnil;
}

/* It leaves by an exception: another one reads, and may wait for this reply as well. */
static VALUE stop_waiting(VALUE argument) {
  const struct gyre_memcached_call *call = ((struct gyre_memcached_request *)argument)->call;
  if (call->outstanding && !call->connection->scheduler) gyre_memcached_threads_hand_over(call->connection);
  return Qnil;
}

/* Likewise, but what is queued goes out, and the replies are dropped. */
static VALUE leave(VALUE argument) {
  struct gyre_memcached_request *request = (struct gyre_memcached_request *)argument;
  struct gyre_memcached_call *call = request->call;
  if (!call->outstanding || (request->starts && request->started)) return Qnil;
  struct gyre_memcached_connection *connection = call->connection;
  gyre_memcached_call_leave(call);
  gyre_memcached_connection_send(connection, false);
  if (!connection->scheduler) gyre_memcached_threads_hand_over(connection);
  return Qnil;
}

void gyre_memcached_request_begin(struct gyre_memcached_request *request, VALUE self, enum gyre_memcached_kind kind,
                                  enum gyre_memcached_result result, const char *command) {
  request->self = self;
  request->server = gyre_memcached_server_get(self);
  request->command = command;
  request->result = result;
  request->connection_object = request->call_object = Qnil;
  request->data = request->list = Qnil;
  request->starts = request->holds = request->drops = request->started = request->quiet = false;
  request->until_ns = -1;
  request->data_flags = 0;
  request->flags_length = 0;
  request->ttl_s = 0;
  request->done = request->count = 0;
  gyre_memcached_call_init(&request->own, kind);
  request->call = &request->own;
}

/* Raises what has become of it, if that is an error. */
static void check(const struct gyre_memcached_request *request) {
  const struct gyre_memcached_call *call = request->call;
  if (__builtin_expect(call->failed, 0))
    rb_funcall(request->self, id_fail, 4, ID2SYM(rb_intern(request->command)),
               rb_str_new_cstr(call->connection ? call->connection->reason : "no connection"),
               call->unsent ? Qfalse : Qtrue,
               !call->connection || call->connection->transport->received_bytes ? Qtrue : Qfalse);
  if (__builtin_expect(!NIL_P(call->error) && call->kind != GYRE_MEMCACHED_QUIET, 0))
    rb_funcall(request->self, id_refuse, 2, ID2SYM(rb_intern(request->command)), call->error);
  request->server->failures = 0;
}

static VALUE load(const struct gyre_memcached_server *server, VALUE bytes, uint32_t flags) {
  if (!(flags & CODED) || server->raw) return bytes;
  return rb_funcall(server->values, id_load, 2, bytes, UINT2NUM(flags));
}

static VALUE load_all(const struct gyre_memcached_request *request) {
  VALUE table = request->call->value, coded = request->call->coded;
  for (long i = 0; !NIL_P(coded) && i < RARRAY_LEN(coded); i += 3) {
    VALUE flags = RARRAY_AREF(coded, i + 1);
    rb_hash_aset(table, RARRAY_AREF(coded, i), load(request->server, RARRAY_AREF(coded, i + 2), NUM2UINT(flags)));
  }
  return table;
}

static VALUE result(const struct gyre_memcached_request *request) {
  const struct gyre_memcached_call *call = request->call;
  check(request);
  switch (request->result) {
  case GYRE_MEMCACHED_RESULT_VALUE:
    if (call->code != GYRE_MEMCACHED_VA) return call->code == GYRE_MEMCACHED_HD ? Qtrue : Qnil;
    return load(request->server, call->value, call->flags);
  case GYRE_MEMCACHED_RESULT_CAS: return call->code == GYRE_MEMCACHED_HD ? ULL2NUM(call->cas) : Qfalse;
  case GYRE_MEMCACHED_RESULT_DONE: return call->code == GYRE_MEMCACHED_HD ? Qtrue : Qfalse;
  case GYRE_MEMCACHED_RESULT_COUNT: return LONG2NUM(request->count - (long)call->refused);
  case GYRE_MEMCACHED_RESULT_TABLE: return load_all(request);
  default: return call->value;
  }
}

VALUE gyre_memcached_request_run(struct gyre_memcached_request *request) {
  /* Fibers of another library's scheduler may be collected while they wait. */
  bool kept = request->starts || (!NIL_P(rb_fiber_scheduler_current()) && !gyre_socket_scheduler());
  if (kept && !request->drops) put_on_heap(request);
  rb_ensure(request_body, (VALUE)request, leave, (VALUE)request);
  VALUE value = request->starts ? request->call_object : result(request);
  RB_GC_GUARD(request->connection_object);
  RB_GC_GUARD(request->call_object);
  RB_GC_GUARD(request->data);
  RB_GC_GUARD(request->list);
  return value;
}

static struct gyre_memcached_request request_of(VALUE self) {
  struct handle *handle = rb_check_typeddata(self, &handle_type);
  return (struct gyre_memcached_request){.self = handle->server,
                                         .server = gyre_memcached_server_get(handle->server),
                                         .connection = handle->call.connection,
                                         .call_object = self,
                                         .call = &handle->call,
                                         .until_ns = -1,
                                         .command = handle->command,
                                         .result = handle->result,
                                         .count = handle->count};
}

/*
 * @api private Waits for what was started, in the home in which that was. Several threads may, and
 * each may leave by an exception: the others, and it itself later, get the reply all the same.
 * @param timeout [Numeric, nil] seconds, of a thread without a loop
 * @return [Boolean] whether it is over
 */
static VALUE call_wait(VALUE self, VALUE timeout) {
  struct handle *handle = rb_check_typeddata(self, &handle_type);
  struct gyre_memcached_request request = request_of(self);
  int64_t timeout_ns = gyre_duration_ns(timeout);
  if (timeout_ns >= 0) request.until_ns = gyre_timers_now() + timeout_ns;
  if (handle->call.outstanding && !gyre_memcached_connection_usable(request.connection)) {
    gyre_memcached_call_leave(&handle->call);
    handle->call.failed = true;
    gyre_memcached_connection_forked(request.connection);
  }
  if (handle->call.outstanding) {
    const struct gyre_scheduler *home = request.connection->scheduler;
    if (home && home != gyre_socket_scheduler())
      rb_raise(rb_eThreadError, "a call that a fiber has started can be waited for by fibers of its thread only");
    if (handle->call.wait) rb_raise(rb_eThreadError, "it is waited for already");
    rb_ensure(wait_body, (VALUE)&request, stop_waiting, (VALUE)&request);
  }
  RB_GC_GUARD(self);
  return handle->call.outstanding ? Qfalse : Qtrue;
}

/* @api private Waits as well. */
static VALUE call_value(VALUE self) {
  (void)call_wait(self, Qnil);
  struct gyre_memcached_request request = request_of(self);
  VALUE value = result(&request);
  RB_GC_GUARD(self);
  return value;
}

/* --- keys and values --- */

bool gyre_memcached_plain_key(struct gyre_memcached_request *request, VALUE key) {
  const struct gyre_memcached_server *server = request->server;
  if (NIL_P(server->keys) || !RB_TYPE_P(key, T_STRING) || server->prefix == Qfalse) return false;
  size_t before = NIL_P(server->prefix) ? 0 : (size_t)RSTRING_LEN(server->prefix), length = (size_t)RSTRING_LEN(key);
  if (length == 0 || before + length > GYRE_MEMCACHED_KEY_BYTES) return false;
  if (before) memcpy(request->key, RSTRING_PTR(server->prefix), before);
  memcpy(request->key + before, RSTRING_PTR(key), length);
  request->key_length = before + length;
  request->form = gyre_memcached_key_form(request->key, request->key_length);
  return request->form == GYRE_MEMCACHED_PLAIN;
}

void gyre_memcached_full_key(struct gyre_memcached_request *request, VALUE key) {
  StringValue(key);
  request->key_length = (size_t)RSTRING_LEN(key);
  request->form = gyre_memcached_key_form(RSTRING_PTR(key), request->key_length);
  if (request->form == GYRE_MEMCACHED_REFUSED)
    rb_raise(rb_eArgError, "a key has 1 to %d bytes as it is sent, this one has %" PRIuSIZE, GYRE_MEMCACHED_KEY_BYTES,
             request->key_length);
  memcpy(request->key, RSTRING_PTR(key), request->key_length);
  RB_GC_GUARD(key);
}

void gyre_memcached_callers_key(struct gyre_memcached_request *request, VALUE key) {
  if (gyre_memcached_plain_key(request, key)) return;
  VALUE keys = request->server->keys;
  gyre_memcached_full_key(request, NIL_P(keys) ? key : rb_funcall(keys, id_full, 1, key));
}

bool gyre_memcached_direct_value(struct gyre_memcached_request *request, VALUE value) {
  if (!RB_TYPE_P(value, T_STRING) || rb_obj_class(value) != rb_cString ||
      RSTRING_LEN(value) > request->server->direct_bytes)
    return false;
  int encoding = rb_enc_get_index(value);
  if (encoding != rb_utf8_encindex() && encoding != rb_ascii8bit_encindex()) return false;
  request->data_flags = encoding == rb_utf8_encindex() ? UTF8 : 0;
  return true;
}

VALUE gyre_memcached_dump(struct gyre_memcached_request *request, VALUE value) {
  if (gyre_memcached_direct_value(request, value)) return value;
  VALUE key = rb_utf8_str_new(request->key, (long)request->key_length);
  VALUE pair = rb_check_array_type(rb_funcall(request->server->values, id_dump, 2, key, value));
  if (NIL_P(pair) || RARRAY_LEN(pair) != 2) rb_raise(rb_eTypeError, "a value's dump is an Array of bytes and flags");
  VALUE bytes = rb_ary_entry(pair, 0);
  StringValue(bytes);
  request->data_flags = NUM2UINT(rb_ary_entry(pair, 1));
  return bytes;
}

/* --- what goes on the wire --- */

int gyre_memcached_put(struct gyre_memcached_request *request, const char *verb, uint32_t index) {
  struct gyre_memcached_connection *connection = request->connection;
  size_t room = gyre_memcached_key_room(request->key_length) + GYRE_MEMCACHED_COMMAND_BYTES + request->flags_length;
  char *start = gyre_memcached_connection_reserve(connection, room);
  if (!start) return connection->failed ? -EPIPE : -ENOMEM;
  char *end = gyre_memcached_put_command(start, verb, request->key, request->key_length, request->form, request->flags,
                                         request->flags_length);
  return gyre_memcached_connection_queue(connection, request->quiet ? NULL : request->call, request->verb, index,
                                         (size_t)(end - start));
}

int gyre_memcached_put_value(struct gyre_memcached_request *request) {
  struct gyre_memcached_connection *connection = request->connection;
  size_t length = (size_t)RSTRING_LEN(request->data);
  size_t room =
      gyre_memcached_key_room(request->key_length) + GYRE_MEMCACHED_COMMAND_BYTES + request->flags_length + length;
  char *start = gyre_memcached_connection_reserve(connection, room);
  if (!start) return connection->failed ? -EPIPE : -ENOMEM;
  char *end = gyre_memcached_put_set(start, request->key, request->key_length, request->form, length,
                                     request->data_flags, request->ttl_s, request->flags, request->flags_length);
  memcpy(end, RSTRING_PTR(request->data), length);
  memcpy(end + length, "\r\n", 2);
  return gyre_memcached_connection_queue(connection, request->quiet ? NULL : request->call, GYRE_MEMCACHED_VERB_MS, 0,
                                         (size_t)(end - start) + length + 2);
}

void gyre_init_memcached_request(void) {
  id_connect = rb_intern("connect");
  id_fail = rb_intern("fail_call");
  id_refuse = rb_intern("refuse_call");
  id_dump = rb_intern("dump");
  id_load = rb_intern("load");
  id_full = rb_intern("full");
  VALUE module = rb_define_module_under(gyre_mGyre, "Memcached");
  call_class = rb_define_class_under(module, "Call", rb_cObject);
  rb_gc_register_mark_object(call_class);
  rb_undef_alloc_func(call_class);
  rb_define_method(call_class, "wait", call_wait, 1);
  rb_define_method(call_class, "value", call_value, 0);
}
