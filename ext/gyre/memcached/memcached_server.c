/*
 * Gyre::Memcached::Server in C: the calls of the client. Each puts its command into the pipeline of
 * the present home, has it sent, waits and makes a value of the reply; lib/gyre/memcached/server.rb
 * connects, and has what is not on the hot path. A call never retries.
 */
#include "memcached/memcached.h"
#include "net/socket_wait.h"

#include <errno.h>
#include <ruby/encoding.h>
#include <ruby/fiber/scheduler.h>
#include <string.h>

#define GROUP_BYTES (64 * 1024) /* of quiet commands, up to their mn */
#define CODED 3
#define UTF8 4

static VALUE server_class, call_class;
static ID id_connect, id_fail, id_refuse, id_dump, id_load, id_full, id_close;

struct server {
  VALUE connections; /* Array, one for each home that has been used */
  VALUE keys;        /* makes full keys of the caller's (Gyre::Memcached::Keys); nil: they are full */
  VALUE prefix;      /* what it puts before each, or nil; where it is not always the same: false */
  VALUE values;      /* Gyre::Memcached::Values */
  unsigned failures; /* one after the other, without a reply between them */
  bool raw;          /* values are bytes, without flags */
  long direct_bytes; /* a String of at most so many is stored as it is; -1: none is */
};

static void server_mark(void *opaque) {
  const struct server *server = opaque;
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

static VALUE server_allocate(VALUE class) {
  struct server *server;
  VALUE self = TypedData_Make_Struct(class, struct server, &server_type, server);
  server->connections = server->keys = server->prefix = server->values = Qnil;
  server->direct_bytes = -1;
  return self;
}

static struct server *server_get(VALUE self) { return rb_check_typeddata(self, &server_type); }

/* --- connections --- */

static VALUE connection_here(const struct server *server) {
  if (NIL_P(server->connections)) return Qnil;
  const struct gyre_scheduler *scheduler = gyre_socket_scheduler();
  for (long i = 0; i < RARRAY_LEN(server->connections); i++) {
    VALUE object = RARRAY_AREF(server->connections, i);
    const struct gyre_memcached_connection *connection = gyre_memcached_connection_get(object);
    if (connection->scheduler == scheduler && gyre_memcached_connection_usable(connection)) return object;
  }
  return Qnil;
}

/* @api private @return [Connection, nil] that of the present home */
static VALUE server_connection(VALUE self) { return connection_here(server_get(self)); }

/* --- calls that are Ruby objects: of fibers that another library may collect, and of commands that
 * are sent now and waited for later --- */

static void call_mark(void *opaque) { gyre_memcached_call_mark(opaque); }

static const rb_data_type_t call_type = {
    .wrap_struct_name = "Gyre::Memcached::Call",
    .function = {.dmark = call_mark, .dfree = RUBY_TYPED_DEFAULT_FREE},
    .flags = RUBY_TYPED_FREE_IMMEDIATELY,
};

static struct gyre_memcached_call *new_call(VALUE *object, enum gyre_memcached_kind kind) {
  struct gyre_memcached_call *call;
  *object = TypedData_Make_Struct(call_class, struct gyre_memcached_call, &call_type, call);
  gyre_memcached_call_init(call, kind);
  call->owner = *object;
  return call;
}

/* --- one call --- */

struct request {
  VALUE self;
  struct server *server;
  struct gyre_memcached_connection *connection;
  VALUE connection_object, call_object;
  struct gyre_memcached_call *call, own;
  struct gyre_wait wait;
  bool waits, starts; /* it only starts the call */
  const char *command;
  /* Queues all it has. 0; -EPIPE: the connection has failed; -ENOMEM. */
  int (*put)(struct request *request);
  /* What is put. */
  enum gyre_memcached_verb verb;
  char key[GYRE_MEMCACHED_KEY_BYTES];
  size_t key_length;
  enum gyre_memcached_key form;
  const char *flags;
  size_t flags_length;
  VALUE data, list;
  uint32_t data_flags;
  int64_t ttl_s;
  long done; /* of a list */
};

static VALUE wait_in_loop(VALUE argument) {
  struct request *request = (struct request *)argument;
  while (request->call->outstanding) gyre_wait_again(&request->wait);
  return Qnil;
}

static VALUE leave_loop(VALUE argument) {
  struct request *request = (struct request *)argument;
  request->call->wait = NULL;
  gyre_wait_end(&request->wait);
  return Qnil;
}

static void wait_for_reply(struct request *request) {
  struct gyre_memcached_call *call = request->call;
  if (!call->outstanding) return;
  struct gyre_memcached_connection *connection = call->connection;
  if (!connection->scheduler) {
    gyre_memcached_threads_wait(connection, call);
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

static void wait_for_room(struct gyre_memcached_connection *connection) {
  gyre_memcached_connection_send(connection, true);
  if (!connection->scheduler) {
    gyre_memcached_threads_wait(connection, NULL);
    return;
  }
  struct room_wait wait = {.connection = connection, .room = {.wait = &wait.wait}};
  gyre_list_init(&wait.room.node);
  gyre_wait_begin(connection->scheduler, &wait.wait, connection->self);
  rb_ensure(wait_in_crowd, (VALUE)&wait, leave_crowd, (VALUE)&wait);
}

/* The present home's, with room for a command. */
static void take_connection(struct request *request) {
  for (;;) {
    VALUE object = connection_here(request->server);
    if (NIL_P(object)) object = rb_funcall(request->self, id_connect, 0);
    request->connection_object = object;
    request->connection = gyre_memcached_connection_get(object);
    if (__builtin_expect(gyre_memcached_connection_has_room(request->connection), 1)) return;
    wait_for_room(request->connection);
    if (!request->connection->failed) return;
  }
}

static VALUE request_body(VALUE argument) {
  struct request *request = (struct request *)argument;
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
  gyre_memcached_connection_send(request->connection, alone && !request->starts);
  if (!request->starts) wait_for_reply(request);
  return Qnil;
}

static VALUE request_ensure(VALUE argument) {
  struct request *request = (struct request *)argument;
  if (request->call->outstanding && !request->starts) {
    struct gyre_memcached_connection *connection = request->call->connection;
    request->call->waiter = Qnil;
    gyre_memcached_call_leave(request->call);
    if (!connection->scheduler) gyre_memcached_threads_hand_over(connection);
  }
  return Qnil;
}

static void begin(struct request *request, VALUE self, enum gyre_memcached_kind kind, const char *command) {
  request->self = self;
  request->server = server_get(self);
  request->command = command;
  request->connection_object = request->call_object = Qnil;
  request->data = request->list = Qnil;
  request->waits = request->starts = false;
  request->data_flags = 0;
  request->flags_length = 0;
  request->ttl_s = 0;
  request->done = 0;
  gyre_memcached_call_init(&request->own, kind);
  request->call = &request->own;
}

/* Fibers of another library's scheduler may be collected while they wait. */
static void run(struct request *request) {
  if (!gyre_socket_scheduler() && !NIL_P(rb_fiber_scheduler_current()) && request->call == &request->own) {
    struct gyre_memcached_call own = request->own;
    request->call = new_call(&request->call_object, own.kind);
    VALUE owner = request->call->owner;
    *request->call = own;
    request->call->owner = owner;
  }
  rb_ensure(request_body, (VALUE)request, request_ensure, (VALUE)request);
}

/* Raises what has become of it, if that is an error. */
static void check(const struct request *request) {
  const struct gyre_memcached_call *call = request->call;
  VALUE self = request->self;
  const char *command = request->command;
  if (__builtin_expect(call->failed, 0))
    rb_funcall(self, id_fail, 3, rb_str_new_cstr(command),
               rb_str_new_cstr(call->connection ? call->connection->reason : "the connection was closed"),
               call->unsent ? Qfalse : Qtrue);
  if (__builtin_expect(!NIL_P(call->error), 0)) rb_funcall(self, id_refuse, 2, rb_str_new_cstr(command), call->error);
  request->server->failures = 0;
}

/* --- keys and values --- */

/* The key as it goes on the wire, copied: it is sent after waits in which other code may run. */
static void full_key(struct request *request, VALUE key) {
  const struct server *server = request->server;
  if (!NIL_P(server->keys) && RB_TYPE_P(key, T_STRING) && server->prefix != Qfalse) {
    size_t before = NIL_P(server->prefix) ? 0 : (size_t)RSTRING_LEN(server->prefix), length = (size_t)RSTRING_LEN(key);
    if (length > 0 && before + length <= GYRE_MEMCACHED_KEY_BYTES) {
      if (before) memcpy(request->key, RSTRING_PTR(server->prefix), before);
      memcpy(request->key + before, RSTRING_PTR(key), length);
      request->key_length = before + length;
      request->form = gyre_memcached_key_form(request->key, request->key_length);
      if (request->form == GYRE_MEMCACHED_PLAIN) return;
    }
  }
  if (!NIL_P(server->keys)) key = rb_funcall(server->keys, id_full, 1, key);
  StringValue(key);
  request->key_length = (size_t)RSTRING_LEN(key);
  request->form = gyre_memcached_key_form(RSTRING_PTR(key), request->key_length);
  if (request->form == GYRE_MEMCACHED_REFUSED)
    rb_raise(rb_eArgError, "a key has 1 to %d bytes as it is sent, this one has %" PRIuSIZE, GYRE_MEMCACHED_KEY_BYTES,
             request->key_length);
  memcpy(request->key, RSTRING_PTR(key), request->key_length);
  RB_GC_GUARD(key);
}

/* The bytes to store. */
static VALUE dump(struct request *request, VALUE key, VALUE value) {
  if (RB_TYPE_P(value, T_STRING) && rb_obj_class(value) == rb_cString &&
      RSTRING_LEN(value) <= request->server->direct_bytes) {
    int encoding = rb_enc_get_index(value);
    if (encoding == rb_utf8_encindex() || encoding == rb_ascii8bit_encindex()) {
      request->data_flags = encoding == rb_utf8_encindex() ? UTF8 : 0;
      return value;
    }
  }
  VALUE pair = rb_check_array_type(rb_funcall(request->server->values, id_dump, 2, key, value));
  if (NIL_P(pair) || RARRAY_LEN(pair) != 2) rb_raise(rb_eTypeError, "a value's dump is an Array of bytes and flags");
  VALUE bytes = rb_ary_entry(pair, 0);
  StringValue(bytes);
  request->data_flags = NUM2UINT(rb_ary_entry(pair, 1));
  return bytes;
}

static VALUE load(const struct server *server, VALUE bytes, uint32_t flags) {
  if (!(flags & CODED)) return bytes;
  return rb_funcall(server->values, id_load, 2, bytes, UINT2NUM(flags));
}

static int64_t ttl_of(VALUE ttl) {
  if (NIL_P(ttl)) return 0;
  return NUM2LL(ttl);
}

/* --- what goes on the wire --- */

static int put_plain(struct request *request, const char *verb) {
  struct gyre_memcached_connection *connection = request->connection;
  size_t room = gyre_memcached_key_room(request->key_length) + GYRE_MEMCACHED_COMMAND_BYTES + request->flags_length;
  char *start = gyre_memcached_connection_reserve(connection, room);
  if (!start) return connection->failed ? -EPIPE : -ENOMEM;
  char *end = gyre_memcached_put_command(start, verb, request->key, request->key_length, request->form, request->flags,
                                         request->flags_length);
  return gyre_memcached_connection_queue(connection, request->call, request->verb, 0, (size_t)(end - start));
}

static int put_get(struct request *request) { return put_plain(request, "mg"); }
static int put_delete(struct request *request) { return put_plain(request, "md"); }

static char *put_value(struct request *request, char *to) {
  size_t length = (size_t)RSTRING_LEN(request->data);
  to = gyre_memcached_put_set(to, request->key, request->key_length, request->form, length, request->data_flags,
                              request->ttl_s, request->flags, request->flags_length);
  memcpy(to, RSTRING_PTR(request->data), length);
  to += length;
  *to++ = '\r';
  *to++ = '\n';
  return to;
}

static size_t value_room(const struct request *request) {
  return gyre_memcached_key_room(request->key_length) + GYRE_MEMCACHED_COMMAND_BYTES + request->flags_length +
         (size_t)RSTRING_LEN(request->data);
}

static int put_set(struct request *request) {
  struct gyre_memcached_connection *connection = request->connection;
  char *start = gyre_memcached_connection_reserve(connection, value_room(request));
  if (!start) return connection->failed ? -EPIPE : -ENOMEM;
  char *end = put_value(request, start);
  return gyre_memcached_connection_queue(connection, request->call, GYRE_MEMCACHED_VERB_MS, 0, (size_t)(end - start));
}

static int put_line(struct request *request) {
  struct gyre_memcached_connection *connection = request->connection;
  size_t length = (size_t)RSTRING_LEN(request->data);
  char *start = gyre_memcached_connection_reserve(connection, length);
  if (!start) return connection->failed ? -EPIPE : -ENOMEM;
  memcpy(start, RSTRING_PTR(request->data), length);
  return gyre_memcached_connection_queue(connection, request->call, request->verb, 0, length);
}

static void set_flags(struct request *request, const char *flags, size_t length) {
  request->flags = flags;
  request->flags_length = length;
}

/* --- the hot path --- */

/*
 * @api private
 * @param key [Object]
 * @return [Object, nil]
 */
static VALUE server_get_value(VALUE self, VALUE key) {
  struct request request;
  begin(&request, self, GYRE_MEMCACHED_GET, "get");
  full_key(&request, key);
  set_flags(&request, " v f", request.server->raw ? 2 : 4);
  request.verb = GYRE_MEMCACHED_VERB_MG;
  request.put = put_get;
  run(&request);
  check(&request);
  RB_GC_GUARD(request.connection_object);
  if (request.call->code != GYRE_MEMCACHED_VA) return request.call->code == GYRE_MEMCACHED_HD ? Qtrue : Qnil;
  return load(request.server, request.call->value, request.call->flags);
}

/*
 * @api private
 * @param key [Object]
 * @param value [Object]
 * @param ttl [Integer, nil] seconds
 * @return [Integer, false] the CAS number
 */
static VALUE server_set_value(VALUE self, VALUE key, VALUE value, VALUE ttl) {
  struct request request;
  begin(&request, self, GYRE_MEMCACHED_STATUS, "set");
  request.ttl_s = ttl_of(ttl);
  request.data = dump(&request, key, value);
  full_key(&request, key);
  set_flags(&request, " c", 2);
  request.put = put_set;
  run(&request);
  check(&request);
  RB_GC_GUARD(request.data);
  RB_GC_GUARD(request.connection_object);
  return request.call->code == GYRE_MEMCACHED_HD ? ULL2NUM(request.call->cas) : Qfalse;
}

/*
 * @api private
 * @param key [Object]
 * @return [Boolean]
 */
static VALUE server_delete(VALUE self, VALUE key) {
  struct request request;
  begin(&request, self, GYRE_MEMCACHED_STATUS, "delete");
  full_key(&request, key);
  request.verb = GYRE_MEMCACHED_VERB_MD;
  request.put = put_delete;
  run(&request);
  check(&request);
  RB_GC_GUARD(request.connection_object);
  return request.call->code == GYRE_MEMCACHED_HD ? Qtrue : Qfalse;
}

/* --- everything else --- */

/* @api private A line of the text protocol with its reply. */
static VALUE server_line(VALUE self, VALUE line, VALUE command) {
  struct request request;
  begin(&request, self, GYRE_MEMCACHED_LINES, StringValueCStr(command));
  request.data = rb_str_new_frozen(StringValue(line));
  request.verb =
      strncmp(RSTRING_PTR(request.data), "stats", 5) == 0 ? GYRE_MEMCACHED_VERB_STATS : GYRE_MEMCACHED_VERB_WORD;
  request.put = put_line;
  run(&request);
  check(&request);
  RB_GC_GUARD(request.data);
  RB_GC_GUARD(request.connection_object);
  RB_GC_GUARD(command);
  return request.call->value;
}

static bool is_over(VALUE object) {
  const struct gyre_memcached_connection *connection = gyre_memcached_connection_get(object);
  return !gyre_memcached_connection_usable(connection) || (connection->scheduler && connection->scheduler->closed);
}

/* @api private @return [Array<Connection>] those that can be used no more, which are not the
 *   server's from now on */
static VALUE server_sweep(VALUE self) {
  struct server *server = server_get(self);
  VALUE kept = rb_ary_new(), over = rb_ary_new();
  for (long i = 0; !NIL_P(server->connections) && i < RARRAY_LEN(server->connections); i++) {
    VALUE object = RARRAY_AREF(server->connections, i);
    rb_ary_push(is_over(object) ? over : kept, object);
  }
  RB_OBJ_WRITE(self, &server->connections, kept);
  return over;
}

/* @api private The present home's from now on. */
static VALUE server_adopt(VALUE self, VALUE connection) {
  struct server *server = server_get(self);
  (void)gyre_memcached_connection_get(connection);
  VALUE over = server_sweep(self);
  rb_ary_push(server->connections, connection);
  for (long i = 0; i < RARRAY_LEN(over); i++) rb_funcall(RARRAY_AREF(over, i), id_close, 0);
  return connection;
}

/* @api private @return [Array<Connection>] all, which are not the server's from now on */
static VALUE server_forget(VALUE self) {
  struct server *server = server_get(self);
  VALUE connections = NIL_P(server->connections) ? rb_ary_new() : server->connections;
  server->connections = Qnil;
  return connections;
}

/* @api private @return [Integer] failures one after the other */
static VALUE server_failures(VALUE self) { return UINT2NUM(server_get(self)->failures); }

/* @api private */
static VALUE server_set_failures(VALUE self, VALUE count) {
  server_get(self)->failures = NUM2UINT(count);
  return count;
}

/* @api private @return [Array<Connection>] */
static VALUE server_connections(VALUE self) {
  const struct server *server = server_get(self);
  return NIL_P(server->connections) ? rb_ary_new() : rb_ary_dup(server->connections);
}

/* @api private What makes keys and values. */
static VALUE server_prepare(VALUE self, VALUE keys, VALUE prefix, VALUE values, VALUE direct_bytes) {
  struct server *server = server_get(self);
  server->raw = RTEST(rb_funcall(values, rb_intern("raw?"), 0));
  if (RTEST(prefix)) prefix = rb_str_new_frozen(StringValue(prefix));
  server->direct_bytes = NUM2LONG(direct_bytes);
  RB_OBJ_WRITE(self, &server->keys, keys);
  RB_OBJ_WRITE(self, &server->prefix, prefix);
  RB_OBJ_WRITE(self, &server->values, values);
  return self;
}

void gyre_init_memcached_server(void) {
  id_connect = rb_intern("connect");
  id_fail = rb_intern("fail_call");
  id_refuse = rb_intern("refuse_call");
  id_dump = rb_intern("dump");
  id_load = rb_intern("load");
  id_full = rb_intern("full");
  id_close = rb_intern("close");
  VALUE module = rb_define_module_under(gyre_mGyre, "Memcached");
  server_class = rb_define_class_under(module, "Server", rb_cObject);
  rb_gc_register_mark_object(server_class);
  call_class = rb_define_class_under(module, "Call", rb_cObject);
  rb_gc_register_mark_object(call_class);
  rb_undef_alloc_func(call_class);
  rb_define_alloc_func(server_class, server_allocate);
  rb_define_method(server_class, "get", server_get_value, 1);
  rb_define_method(server_class, "set", server_set_value, 3);
  rb_define_method(server_class, "delete", server_delete, 1);
  rb_define_method(server_class, "line", server_line, 2);
  rb_define_method(server_class, "connection", server_connection, 0);
  rb_define_method(server_class, "connections", server_connections, 0);
  rb_define_private_method(server_class, "adopt", server_adopt, 1);
  rb_define_private_method(server_class, "sweep", server_sweep, 0);
  rb_define_private_method(server_class, "forget", server_forget, 0);
  rb_define_private_method(server_class, "failures", server_failures, 0);
  rb_define_private_method(server_class, "failures=", server_set_failures, 1);
  rb_define_method(server_class, "prepare", server_prepare, 4);
}
