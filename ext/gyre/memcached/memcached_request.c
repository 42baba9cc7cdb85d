/* Carries out a call: queues its command in the home's pipeline, sends, waits, makes the value.
 * Called by memcached_server.c and memcached_multi.c, which fill in requests. Never retries. */
#include "memcached/memcached_request.h"
#include "net/socket_wait.h"

#include <ruby/encoding.h>
#include <ruby/fiber/scheduler.h>

/* --- the server, and its connection here --- */

GYRE_MARKER(server_mark, struct gyre_memcached_server, own->connections, own->keys, own->prefix, own->values)

GYRE_TYPE(server_type, "Gyre::Memcached::Server", server_mark, RUBY_TYPED_DEFAULT_FREE, NULL,
          RUBY_TYPED_FREE_IMMEDIATELY);

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

static VALUE wait_in_loop(VALUE argument) {
  struct gyre_memcached_waiter *waiter = (struct gyre_memcached_waiter *)argument;
  while (!gyre_memcached_is_over(waiter->connection, waiter->call)) {
    if (!waiter->call && gyre_list_empty(&waiter->node))
      gyre_list_append(&waiter->connection->on_loop.room, &waiter->node);
    gyre_wait_again(&waiter->wait);
  }
  return Qnil;
}

static VALUE leave_loop(VALUE argument) {
  struct gyre_memcached_waiter *waiter = (struct gyre_memcached_waiter *)argument;
  if (waiter->call) waiter->call->wait = NULL;
  gyre_list_remove(&waiter->node);
  gyre_wait_end(&waiter->wait);
  return Qnil;
}

/* Waits for the call's end; if `call` is NULL, for room. */
static void wait_until_over(struct gyre_memcached_connection *connection, struct gyre_memcached_call *call) {
  if (!connection->scheduler) {
    gyre_memcached_threads_wait(connection, call);
    return;
  }
  struct gyre_memcached_waiter waiter;
  waiter.connection = connection;
  waiter.call = call;
  gyre_list_init(&waiter.node);
  gyre_wait_begin(connection->scheduler, &waiter.wait, connection->self);
  if (call) call->wait = &waiter.wait;
  rb_ensure(wait_in_loop, (VALUE)&waiter, leave_loop, (VALUE)&waiter);
}

void gyre_memcached_wait_for_room(struct gyre_memcached_connection *connection) {
  gyre_memcached_connection_send(connection, true);
  wait_until_over(connection, NULL);
}

/* Finds or makes the home's connection, and waits until it has room. Before the first value on a
 * connection, asks for the server's version: an old one would run the value's lines as commands. */
static void take_connection(struct gyre_memcached_request *request) {
  for (;;) {
    VALUE object = gyre_memcached_connection_here(request->server);
    if (NIL_P(object)) object = rb_funcall(request->self, rb_intern("connect"), 0);
    request->connection_object = object;
    request->connection = gyre_memcached_connection_get(object);
    if (__builtin_expect(request->stores && !request->connection->stores, 0)) {
      rb_funcall(request->self, rb_intern("check_version"), 2, object, ID2SYM(rb_intern(request->call->command)));
      if (!request->connection->stores || request->connection->failed) continue;
    }
    if (__builtin_expect(gyre_memcached_connection_has_room(request->connection), 1)) return;
    gyre_memcached_wait_for_room(request->connection);
    if (!request->connection->failed) return;
  }
}

static VALUE request_body(VALUE argument) {
  struct gyre_memcached_request *request = (struct gyre_memcached_request *)argument;
  int error;
  bool alone;
  do { /* connects again if the connection closes before any command is queued */
    take_connection(request);
    alone = !gyre_memcached_pending(request->connection) && request->connection->scheduler &&
            request->connection->scheduler->waits.ready_count == 0;
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
  if (alone && request->connection->on_loop.linked)
    request->connection->scheduler->loop.expected = &request->connection->on_loop.busy;
  if (request->call->outstanding) wait_until_over(request->connection, request->call);
  return Qnil;
}

/* After an exception, drops the call's replies and sends the queue. */
static VALUE leave(VALUE argument) {
  struct gyre_memcached_request *request = (struct gyre_memcached_request *)argument;
  struct gyre_memcached_call *call = request->call;
  if (!call->outstanding || (request->starts && request->started)) return Qnil;
  gyre_memcached_call_leave(call);
  gyre_memcached_connection_send(call->connection, false);
  return Qnil;
}

void gyre_memcached_request_begin(struct gyre_memcached_request *request, VALUE self, enum gyre_memcached_kind kind,
                                  const char *command) {
  *request = (struct gyre_memcached_request){.self = self,
                                             .server = gyre_memcached_server_get(self),
                                             .connection_object = Qnil,
                                             .call = &request->own,
                                             .put = gyre_memcached_put,
                                             .data = Qnil,
                                             .list = Qnil};
  gyre_memcached_call_init(&request->own, self, kind, command);
}

static void check(const struct gyre_memcached_call *call) {
  const struct gyre_memcached_connection *connection = call->connection;
  if (__builtin_expect(call->failed, 0))
    rb_funcall(call->server, rb_intern("fail_call"), 5, ID2SYM(rb_intern(call->command)),
               connection && connection->cause ? ID2SYM(connection->cause) : Qnil,
               rb_str_new_cstr(connection ? connection->reason : "no connection"), call->unsent ? Qfalse : Qtrue,
               !connection || connection->transport->received_bytes > connection->greeting ? Qtrue : Qfalse);
  if (__builtin_expect(!NIL_P(call->error) && call->kind != GYRE_MEMCACHED_QUIET, 0))
    rb_funcall(call->server, rb_intern("refuse_call"), 2, ID2SYM(rb_intern(call->command)), call->error);
  /* The version of a server tells nothing about what it does with commands. */
  if (call->kind != GYRE_MEMCACHED_LINES || strcmp(call->command, "greeting") != 0)
    gyre_memcached_server_get(call->server)->failures = 0;
}

static VALUE load(const struct gyre_memcached_call *call, VALUE bytes, uint32_t flags) {
  const struct gyre_memcached_server *server = gyre_memcached_server_get(call->server);
  if (!(flags & GYRE_MEMCACHED_CODED) || server->raw) return bytes;
  return rb_funcall(server->values, rb_intern("load"), 2, bytes, UINT2NUM(flags));
}

static VALUE load_all(const struct gyre_memcached_call *call) {
  VALUE coded = call->coded;
  for (long i = 0; !NIL_P(coded) && i < RARRAY_LEN(coded); i += 3) {
    VALUE value = load(call, RARRAY_AREF(coded, i + 2), NUM2UINT(RARRAY_AREF(coded, i + 1)));
    rb_hash_aset(call->value, RARRAY_AREF(coded, i), value);
  }
  return call->value;
}

static VALUE result(const struct gyre_memcached_call *call) {
  check(call);
  switch (call->kind) {
  case GYRE_MEMCACHED_GET:
    if (call->code != GYRE_MEMCACHED_VA) return call->code == GYRE_MEMCACHED_HD ? Qtrue : Qnil;
    return load(call, call->value, call->flags);
  case GYRE_MEMCACHED_SET: return call->code == GYRE_MEMCACHED_HD ? ULL2NUM(call->cas) : Qfalse;
  case GYRE_MEMCACHED_DELETE: return call->code == GYRE_MEMCACHED_HD ? Qtrue : Qfalse;
  case GYRE_MEMCACHED_QUIET: return LONG2NUM(call->count - (long)call->refused);
  case GYRE_MEMCACHED_VALUES: return load_all(call);
  default: return call->value;
  }
}

VALUE gyre_memcached_request_run(struct gyre_memcached_request *request) {
  /* An object outlives this stack, which another library's scheduler may drop with its fiber. */
  bool kept = request->starts || (!NIL_P(rb_fiber_scheduler_current()) && !gyre_socket_scheduler());
  if (kept && !request->drops) request->call = gyre_memcached_call_keep(&request->own);
  VALUE owner = request->call->owner;
  rb_ensure(request_body, (VALUE)request, leave, (VALUE)request);
  VALUE value = request->starts ? owner : result(request->call);
  RB_GC_GUARD(owner);
  RB_GC_GUARD(request->connection_object);
  RB_GC_GUARD(request->data);
  RB_GC_GUARD(request->list);
  return value;
}

/* Returns a started call's value. Only fibers or threads of its home may wait for it. */
static VALUE call_value(VALUE self) {
  struct gyre_memcached_call *call = gyre_memcached_call_get(self);
  struct gyre_memcached_connection *connection = call->connection;
  if (call->outstanding && !gyre_memcached_connection_usable(connection)) {
    gyre_memcached_call_leave(call);
    call->failed = true;
    gyre_memcached_connection_forked(connection);
  }
  if (call->outstanding) {
    if (call->wait || (connection->scheduler && connection->scheduler != gyre_socket_scheduler()))
      rb_raise(rb_eThreadError, "another fiber or thread waits for the call");
    gyre_memcached_connection_send(connection, false);
  }
  if (call->outstanding) wait_until_over(connection, call);
  VALUE value = result(call);
  RB_GC_GUARD(self);
  return value;
}

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
  gyre_memcached_full_key(request, NIL_P(keys) ? key : rb_funcall(keys, rb_intern("full"), 1, key));
}

bool gyre_memcached_direct_value(struct gyre_memcached_request *request, VALUE value) {
  if (!RB_TYPE_P(value, T_STRING) || rb_obj_class(value) != rb_cString ||
      RSTRING_LEN(value) > request->server->direct_bytes)
    return false;
  int encoding = rb_enc_get_index(value);
  if (encoding != rb_utf8_encindex() && encoding != rb_ascii8bit_encindex()) return false;
  request->data_flags = encoding == rb_utf8_encindex() ? GYRE_MEMCACHED_UTF8 : 0;
  return true;
}

VALUE gyre_memcached_dump(struct gyre_memcached_request *request, VALUE value) {
  if (gyre_memcached_direct_value(request, value)) return value;
  VALUE key = rb_utf8_str_new(request->key, (long)request->key_length);
  VALUE pair = rb_check_array_type(rb_funcall(request->server->values, rb_intern("dump"), 2, key, value));
  if (NIL_P(pair) || RARRAY_LEN(pair) != 2) rb_raise(rb_eTypeError, "a value's dump is an Array of bytes and flags");
  VALUE bytes = rb_ary_entry(pair, 0);
  StringValue(bytes);
  request->data_flags = NUM2UINT(rb_ary_entry(pair, 1));
  return bytes;
}

/* --- what goes on the wire --- */

static const char verbs[][3] = {"mg", "ms", "md", "ma"};

enum gyre_memcached_verb gyre_memcached_verb_of(VALUE name) {
  for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
    if (strcmp(rb_id2name(SYM2ID(name)), verbs[i]) == 0) return (enum gyre_memcached_verb)i;
  }
  rb_raise(rb_eArgError, "no meta command");
}

static char *reserve(struct gyre_memcached_request *request, size_t length, int *error) {
  char *start = gyre_memcached_connection_reserve(request->connection, length);
  if (!start) *error = request->connection->failed ? -EPIPE : -ENOMEM;
  return start;
}

/* Queues a command; a quiet command (`step`) has no call, because it gets no reply. */
static int queue(struct gyre_memcached_request *request, size_t length) {
  struct gyre_memcached_call *call = request->step ? NULL : request->call;
  return gyre_memcached_connection_queue(request->connection, call, request->verb, (uint32_t)request->done, length);
}

int gyre_memcached_put(struct gyre_memcached_request *request) {
  bool stores = request->verb == GYRE_MEMCACHED_VERB_MS;
  size_t length = stores ? (size_t)RSTRING_LEN(request->data) : 0;
  int error;
  char *start = reserve(request,
                        gyre_memcached_key_room(request->key_length) + GYRE_MEMCACHED_COMMAND_BYTES +
                            request->flags_length + length,
                        &error);
  if (!start) return error;
  if (!stores) {
    char *end = gyre_memcached_put_command(start, verbs[request->verb], request->key, request->key_length,
                                           request->form, request->flags, request->flags_length);
    return queue(request, (size_t)(end - start));
  }
  char *end = gyre_memcached_put_set(start, request->key, request->key_length, request->form, length,
                                     request->data_flags, request->ttl_s, request->flags, request->flags_length);
  memcpy(end, RSTRING_PTR(request->data), length);
  memcpy(end + length, "\r\n", 2);
  return queue(request, (size_t)(end - start) + length + 2);
}

int gyre_memcached_put_line(struct gyre_memcached_request *request, const char *line, size_t length) {
  int error;
  char *start = reserve(request, length, &error);
  if (!start) return error;
  memcpy(start, line, length);
  return gyre_memcached_connection_queue(request->connection, request->call, request->verb, 0, length);
}

void gyre_init_memcached_request(void) {
  VALUE call_class = rb_define_class_under(rb_define_module_under(gyre_mGyre, "Memcached"), "Call", rb_cObject);
  rb_define_method(call_class, "value", call_value, 0);
}
