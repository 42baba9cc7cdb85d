/*
 * Gyre::Memcached::Server in C: the calls for one key. lib/gyre/memcached/server.rb connects, and
 * has what errors are; memcached_request.c has the way of a call.
 */
#include "memcached/memcached_request.h"
#include "net/socket_wait.h"

#include <errno.h>
#include <string.h>

static ID id_close;

/* --- one key --- */

static int put_get(struct gyre_memcached_request *request) { return gyre_memcached_put(request, "mg", 0); }
static int put_delete(struct gyre_memcached_request *request) { return gyre_memcached_put(request, "md", 0); }
static int put_arithmetic(struct gyre_memcached_request *request) { return gyre_memcached_put(request, "ma", 0); }

/* Whether it only starts: `how` is nil, :send, :hold (it leaves with the others) or :drop
 * (likewise, and nothing waits for its reply). */
static void set_starts(struct gyre_memcached_request *request, int argc, VALUE *argv, int required) {
  rb_check_arity(argc, required, required + 1);
  if (argc == required || NIL_P(argv[required])) return;
  request->starts = true;
  ID how = SYM2ID(argv[required]);
  request->drops = how == rb_intern("drop");
  request->holds = request->drops || how == rb_intern("hold");
}

/*
 * @api private
 * @param key [Object]
 * @param starts [Symbol, nil] :send or :hold start it only
 * @return [Object, Call, nil]
 */
static VALUE server_get(int argc, VALUE *argv, VALUE self) {
  struct gyre_memcached_request request;
  gyre_memcached_request_begin(&request, self, GYRE_MEMCACHED_GET, GYRE_MEMCACHED_RESULT_VALUE, "get");
  set_starts(&request, argc, argv, 1);
  gyre_memcached_callers_key(&request, argv[0]);
  request.flags = " v f";
  request.flags_length = request.server->raw ? 2 : 4;
  request.verb = GYRE_MEMCACHED_VERB_MG;
  request.put = put_get;
  return gyre_memcached_request_run(&request);
}

/*
 * @api private
 * @param key [Object]
 * @param value [Object]
 * @param ttl [Integer] seconds
 * @param starts [Symbol, nil] :send or :hold start it only
 * @return [Integer, Call, false] the CAS number
 */
static VALUE server_set(int argc, VALUE *argv, VALUE self) {
  struct gyre_memcached_request request;
  gyre_memcached_request_begin(&request, self, GYRE_MEMCACHED_STATUS, GYRE_MEMCACHED_RESULT_CAS, "set");
  set_starts(&request, argc, argv, 3);
  request.ttl_s = NUM2LL(argv[2]);
  gyre_memcached_callers_key(&request, argv[0]);
  request.data = gyre_memcached_dump(&request, argv[1]);
  request.flags = " c";
  request.flags_length = 2;
  request.put = gyre_memcached_put_value;
  return gyre_memcached_request_run(&request);
}

/*
 * @api private
 * @param key [Object]
 * @param starts [Symbol, nil] :send or :hold start it only
 * @return [Boolean, Call]
 */
static VALUE server_delete(int argc, VALUE *argv, VALUE self) {
  struct gyre_memcached_request request;
  gyre_memcached_request_begin(&request, self, GYRE_MEMCACHED_STATUS, GYRE_MEMCACHED_RESULT_DONE, "delete");
  set_starts(&request, argc, argv, 1);
  gyre_memcached_callers_key(&request, argv[0]);
  request.verb = GYRE_MEMCACHED_VERB_MD;
  request.put = put_delete;
  return gyre_memcached_request_run(&request);
}

static const char *name_of(VALUE command) { return rb_id2name(SYM2ID(command)); }

/*
 * @api private A command with all that its reply has.
 * @param command [Symbol] the client's method, for errors
 * @param verb [Symbol] :mg, :ms, :md or :ma
 * @param key [String] as Keys#full has made it
 * @param flags [String] each with a space before it
 * @param bytes [String, nil] of ms
 * @param value_flags [Integer] of the bytes
 * @param ttl [Integer] of ms, in seconds
 * @param starts [Symbol, nil] :send, :hold or :drop start it only
 * @return [Reply, Call, nil]
 */
static VALUE server_exchange(int argc, VALUE *argv, VALUE self) {
  struct gyre_memcached_request request;
  rb_check_arity(argc, 7, 8);
  gyre_memcached_request_begin(&request, self, GYRE_MEMCACHED_WHOLE, GYRE_MEMCACHED_RESULT_ITSELF, name_of(argv[0]));
  set_starts(&request, argc, argv, 7);
  gyre_memcached_full_key(&request, argv[2]);
  request.list = rb_str_new_frozen(StringValue(argv[3]));
  request.flags = RSTRING_PTR(request.list);
  request.flags_length = (size_t)RSTRING_LEN(request.list);
  const char *verb = name_of(argv[1]);
  if (strcmp(verb, "ms") == 0) {
    request.data = rb_str_new_frozen(StringValue(argv[4]));
    request.data_flags = NUM2UINT(argv[5]);
    request.ttl_s = NUM2LL(argv[6]);
    request.put = gyre_memcached_put_value;
  } else if (strcmp(verb, "mg") == 0) {
    request.verb = GYRE_MEMCACHED_VERB_MG;
    request.put = put_get;
  } else if (strcmp(verb, "md") == 0) {
    request.verb = GYRE_MEMCACHED_VERB_MD;
    request.put = put_delete;
  } else {
    request.verb = GYRE_MEMCACHED_VERB_MA;
    request.put = put_arithmetic;
  }
  return gyre_memcached_request_run(&request);
}

/* --- no key --- */

static int put_line(struct gyre_memcached_request *request) {
  struct gyre_memcached_connection *connection = request->connection;
  size_t length = (size_t)RSTRING_LEN(request->data);
  char *start = gyre_memcached_connection_reserve(connection, length);
  if (!start) return connection->failed ? -EPIPE : -ENOMEM;
  memcpy(start, RSTRING_PTR(request->data), length);
  return gyre_memcached_connection_queue(connection, request->call, request->verb, 0, length);
}

/*
 * @api private
 * @param command [Symbol] the client's method, for errors
 * @param line [String] of the text protocol, with its end
 * @param starts [Symbol, nil] as of exchange
 * @return [String, Hash{String => String}, Call, nil] what follows the reply's first word; of stats
 *   a table
 */
static VALUE server_line(int argc, VALUE *argv, VALUE self) {
  struct gyre_memcached_request request;
  rb_check_arity(argc, 2, 3);
  gyre_memcached_request_begin(&request, self, GYRE_MEMCACHED_LINES, GYRE_MEMCACHED_RESULT_ITSELF, name_of(argv[0]));
  set_starts(&request, argc, argv, 2);
  request.data = rb_str_new_frozen(StringValue(argv[1]));
  bool stats = strncmp(StringValueCStr(request.data), "stats", 5) == 0;
  request.verb = stats ? GYRE_MEMCACHED_VERB_STATS : GYRE_MEMCACHED_VERB_WORD;
  request.put = put_line;
  return gyre_memcached_request_run(&request);
}

/* --- connections --- */

/* @api private Sends what is held here. */
static VALUE server_release(VALUE self) {
  VALUE object = gyre_memcached_connection_here(gyre_memcached_server_get(self));
  if (!NIL_P(object)) gyre_memcached_connection_send(gyre_memcached_connection_get(object), false);
  return Qnil;
}

/* @api private @return [Connection, nil] that of the present home */
static VALUE server_connection(VALUE self) { return gyre_memcached_connection_here(gyre_memcached_server_get(self)); }

static bool is_over(VALUE object) {
  const struct gyre_memcached_connection *connection = gyre_memcached_connection_get(object);
  return !gyre_memcached_connection_usable(connection) || (connection->scheduler && connection->scheduler->closed);
}

/* @api private @return [Array<Connection>] those that can be used no more, which are not the
 *   server's from now on */
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

/* @api private The present home's from now on. */
static VALUE server_adopt(VALUE self, VALUE connection) {
  struct gyre_memcached_server *server = gyre_memcached_server_get(self);
  (void)gyre_memcached_connection_get(connection);
  VALUE over = server_sweep(self);
  rb_ary_push(server->connections, connection);
  for (long i = 0; i < RARRAY_LEN(over); i++) rb_funcall(RARRAY_AREF(over, i), id_close, 0);
  return connection;
}

/* @api private @return [Array<Connection>] all, which are not the server's from now on */
static VALUE server_forget(VALUE self) {
  struct gyre_memcached_server *server = gyre_memcached_server_get(self);
  VALUE connections = NIL_P(server->connections) ? rb_ary_new() : server->connections;
  server->connections = Qnil;
  return connections;
}

/* @api private @return [Integer] failures one after the other */
static VALUE server_failures(VALUE self) { return UINT2NUM(gyre_memcached_server_get(self)->failures); }

/* @api private */
static VALUE server_set_failures(VALUE self, VALUE count) {
  gyre_memcached_server_get(self)->failures = NUM2UINT(count);
  return count;
}

/* @api private @return [Array<Connection>] */
static VALUE server_connections(VALUE self) {
  const struct gyre_memcached_server *server = gyre_memcached_server_get(self);
  return NIL_P(server->connections) ? rb_ary_new() : rb_ary_dup(server->connections);
}

/* @api private What makes keys and values. */
static VALUE server_prepare(VALUE self, VALUE keys, VALUE prefix, VALUE values, VALUE direct_bytes) {
  struct gyre_memcached_server *server = gyre_memcached_server_get(self);
  server->raw = RTEST(rb_funcall(values, rb_intern("raw?"), 0));
  if (RTEST(prefix)) prefix = rb_str_new_frozen(StringValue(prefix));
  server->direct_bytes = NUM2LONG(direct_bytes);
  RB_OBJ_WRITE(self, &server->keys, keys);
  RB_OBJ_WRITE(self, &server->prefix, prefix);
  RB_OBJ_WRITE(self, &server->values, values);
  return self;
}

void gyre_init_memcached_server(void) {
  id_close = rb_intern("close");
  VALUE module = rb_define_module_under(gyre_mGyre, "Memcached");
  VALUE class = rb_define_class_under(module, "Server", rb_cObject);
  rb_define_alloc_func(class, gyre_memcached_server_allocate);
  rb_define_method(class, "get", server_get, -1);
  rb_define_method(class, "set", server_set, -1);
  rb_define_method(class, "delete", server_delete, -1);
  rb_define_method(class, "exchange", server_exchange, -1);
  rb_define_method(class, "line", server_line, -1);
  rb_define_method(class, "release", server_release, 0);
  rb_define_method(class, "connection", server_connection, 0);
  rb_define_method(class, "connections", server_connections, 0);
  rb_define_private_method(class, "adopt", server_adopt, 1);
  rb_define_private_method(class, "sweep", server_sweep, 0);
  rb_define_private_method(class, "forget", server_forget, 0);
  rb_define_private_method(class, "failures", server_failures, 0);
  rb_define_private_method(class, "failures=", server_set_failures, 1);
  rb_define_method(class, "prepare", server_prepare, 4);
}
