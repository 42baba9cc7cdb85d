/* Gyre::Memcached::Server's calls for one key, and its connections. lib/gyre/memcached/server.rb
 * connects and raises errors; memcached_request.c carries out calls. */
#include "memcached/memcached_request.h"

/* `given`: nil waits, :send starts a Call, :hold queues it unsent, :drop also drops its reply. */
static void set_starts(struct gyre_memcached_request *request, VALUE given) {
  if (NIL_P(given)) return;
  request->starts = true;
  ID how = SYM2ID(given);
  request->drops = how == rb_intern("drop");
  request->holds = request->drops || how == rb_intern("hold");
}

static VALUE server_get(VALUE self, VALUE key) {
  struct gyre_memcached_request request;
  gyre_memcached_request_begin(&request, self, GYRE_MEMCACHED_GET, "get");
  gyre_memcached_callers_key(&request, key);
  gyre_memcached_set_flags(&request, " v f", request.server->raw ? 2 : 4);
  return gyre_memcached_request_run(&request);
}

static VALUE server_set(VALUE self, VALUE key, VALUE value, VALUE ttl_s) {
  struct gyre_memcached_request request;
  gyre_memcached_request_begin(&request, self, GYRE_MEMCACHED_SET, "set");
  request.ttl_s = NUM2LL(ttl_s);
  gyre_memcached_callers_key(&request, key);
  request.data = gyre_memcached_dump(&request, value);
  gyre_memcached_set_flags(&request, " c", 2);
  request.verb = GYRE_MEMCACHED_VERB_MS;
  request.stores = true;
  return gyre_memcached_request_run(&request);
}

static VALUE server_delete(VALUE self, VALUE key) {
  struct gyre_memcached_request request;
  gyre_memcached_request_begin(&request, self, GYRE_MEMCACHED_DELETE, "delete");
  gyre_memcached_callers_key(&request, key);
  request.verb = GYRE_MEMCACHED_VERB_MD;
  return gyre_memcached_request_run(&request);
}

static const char *name_of(VALUE command) { return rb_id2name(SYM2ID(command)); }

/* exchange(command, verb, key, flags, bytes, value_flags, ttl_s, how): returns a Reply. `command`:
 * the client's method, for errors. `key`: a full key. `flags`: each after a space. `bytes`,
 * `value_flags` and `ttl_s` are for ms. */
static VALUE server_exchange(int argc, VALUE *argv, VALUE self) {
  struct gyre_memcached_request request;
  rb_check_arity(argc, 8, 8);
  gyre_memcached_request_begin(&request, self, GYRE_MEMCACHED_WHOLE, name_of(argv[0]));
  set_starts(&request, argv[7]);
  gyre_memcached_full_key(&request, argv[2]);
  request.list = rb_str_new_frozen(StringValue(argv[3]));
  gyre_memcached_set_flags(&request, RSTRING_PTR(request.list), (size_t)RSTRING_LEN(request.list));
  request.verb = gyre_memcached_verb_of(argv[1]);
  request.stores = request.verb == GYRE_MEMCACHED_VERB_MS;
  if (request.stores) {
    request.data = rb_str_new_frozen(StringValue(argv[4]));
    request.data_flags = NUM2UINT(argv[5]);
    request.ttl_s = NUM2LL(argv[6]);
  }
  return gyre_memcached_request_run(&request);
}

static int put_line(struct gyre_memcached_request *request) {
  return gyre_memcached_put_line(request, RSTRING_PTR(request->data), (size_t)RSTRING_LEN(request->data));
}

/* line(command, line, how): sends a line of the text protocol, which ends with CRLF. Returns
 * the reply's lines without their first words. */
static VALUE server_line(VALUE self, VALUE command, VALUE line, VALUE how) {
  struct gyre_memcached_request request;
  gyre_memcached_request_begin(&request, self, GYRE_MEMCACHED_LINES, name_of(command));
  set_starts(&request, how);
  request.data = rb_str_new_frozen(StringValue(line));
  bool stats = strncmp(StringValueCStr(request.data), "stats", 5) == 0;
  request.verb = stats ? GYRE_MEMCACHED_VERB_STATS : GYRE_MEMCACHED_VERB_WORD;
  request.put = put_line;
  return gyre_memcached_request_run(&request);
}

/* Sends the commands that were queued with :hold. */
static VALUE server_release(VALUE self) {
  VALUE object = gyre_memcached_connection_here(gyre_memcached_server_get(self));
  if (!NIL_P(object)) gyre_memcached_connection_send(gyre_memcached_connection_get(object), false);
  return Qnil;
}

/* Returns the connection of the caller's home, or nil. */
static VALUE server_connection(VALUE self) { return gyre_memcached_connection_here(gyre_memcached_server_get(self)); }

static bool is_over(VALUE object) {
  const struct gyre_memcached_connection *connection = gyre_memcached_connection_get(object);
  return !gyre_memcached_connection_usable(connection) || (connection->scheduler && connection->scheduler->closed);
}

/* Removes and returns unusable connections. */
static VALUE server_sweep(VALUE self) {
  struct gyre_memcached_server *server = gyre_memcached_server_get(self);
  VALUE kept = rb_ary_new(), over = rb_ary_new();
  for (long i = 0; !NIL_P(server->connections) && i < RARRAY_LEN(server->connections); i++) {
    VALUE object = RARRAY_AREF(server->connections, i);
    rb_ary_push(is_over(object) ? over : kept, object);
  }
  RB_OBJ_WRITE(self, &server->connections, kept);
  return over;
}

static VALUE server_adopt(VALUE self, VALUE connection) {
  struct gyre_memcached_server *server = gyre_memcached_server_get(self);
  (void)gyre_memcached_connection_get(connection);
  VALUE over = server_sweep(self);
  rb_ary_push(server->connections, connection);
  for (long i = 0; i < RARRAY_LEN(over); i++) rb_funcall(RARRAY_AREF(over, i), rb_intern("close"), 0);
  return connection;
}

static VALUE server_forget(VALUE self) {
  struct gyre_memcached_server *server = gyre_memcached_server_get(self);
  VALUE connections = NIL_P(server->connections) ? rb_ary_new() : server->connections;
  server->connections = Qnil;
  return connections;
}

/* Number of consecutive failures. */
static VALUE server_failures(VALUE self) { return UINT2NUM(gyre_memcached_server_get(self)->failures); }

static VALUE server_set_failures(VALUE self, VALUE count) {
  gyre_memcached_server_get(self)->failures = NUM2UINT(count);
  return count;
}

static VALUE server_prepare(VALUE self, VALUE keys, VALUE prefix, VALUE values, VALUE direct_bytes) {
  struct gyre_memcached_server *server = gyre_memcached_server_get(self);
  server->raw = RTEST(rb_funcall(values, rb_intern("raw"), 0));
  if (RTEST(prefix)) prefix = rb_str_new_frozen(StringValue(prefix));
  server->direct_bytes = NUM2LONG(direct_bytes);
  RB_OBJ_WRITE(self, &server->keys, keys);
  RB_OBJ_WRITE(self, &server->prefix, prefix);
  RB_OBJ_WRITE(self, &server->values, values);
  return self;
}

void gyre_init_memcached_server(void) {
  VALUE class = gyre_class(rb_define_module_under(gyre_mGyre, "Memcached"), "Server", gyre_memcached_server_allocate);
  rb_define_method(class, "get", server_get, 1);
  rb_define_method(class, "set", server_set, 3);
  rb_define_method(class, "delete", server_delete, 1);
  rb_define_method(class, "exchange", server_exchange, -1);
  rb_define_method(class, "line", server_line, 3);
  rb_define_method(class, "release", server_release, 0);
  rb_define_method(class, "connection", server_connection, 0);
  rb_define_private_method(class, "adopt", server_adopt, 1);
  rb_define_private_method(class, "sweep", server_sweep, 0);
  rb_define_private_method(class, "forget", server_forget, 0);
  rb_define_private_method(class, "failures", server_failures, 0);
  rb_define_private_method(class, "failures=", server_set_failures, 1);
  rb_define_method(class, "prepare", server_prepare, 4);
}
