/* Gyre::Memcached::Server's calls for many keys. To get values, sends one command for each key, all
 * in one write, and matches replies by order, which is cheaper than by name. Stores and deletes are
 * groups of quiet commands: the server replies only to refused commands, and to a final mn. */
#include "memcached/memcached_request.h"

#include <ruby/encoding.h>

#define GROUP_BYTES (64 * 1024) /* bytes after which a group of quiet commands is ended by mn */

/* Runs no Ruby code between commands, because that code might never return. */
static int put_keys(struct gyre_memcached_request *request) {
  for (; request->done < RARRAY_LEN(request->list); request->done++) {
    if (!gyre_memcached_connection_has_room(request->connection)) gyre_memcached_wait_for_room(request->connection);
    VALUE key = RARRAY_AREF(request->list, request->done);
    if (request->full || !gyre_memcached_plain_key(request, key)) gyre_memcached_full_key(request, key);
    int error = gyre_memcached_put(request);
    if (error < 0) return error;
  }
  return 0;
}

/* Returns the keys as plain Strings, because the result's Hash would call `eql?` of subclasses. */
static VALUE strings(VALUE keys) {
  VALUE all = rb_ary_dup(rb_convert_type(keys, T_ARRAY, "Array", "to_ary"));
  for (long i = 0; i < RARRAY_LEN(all); i++) {
    VALUE key = RARRAY_AREF(all, i);
    if (!RB_TYPE_P(key, T_STRING)) key = rb_obj_as_string(key);
    if (rb_obj_class(key) != rb_cString) key = rb_enc_str_new(RSTRING_PTR(key), RSTRING_LEN(key), rb_enc_get(key));
    rb_ary_store(all, i, key);
  }
  return all;
}

/* Checks all keys. Returns `keys` if all are plain, otherwise an Array of all full keys. */
static VALUE checked_keys(struct gyre_memcached_request *request, VALUE keys) {
  VALUE maker = request->server->keys;
  for (long i = 0; i < RARRAY_LEN(keys) && !request->full; i++)
    request->full = !gyre_memcached_plain_key(request, RARRAY_AREF(keys, i));
  if (!request->full) return keys;
  VALUE all = rb_ary_new_capa(RARRAY_LEN(keys));
  for (long i = 0; i < RARRAY_LEN(keys); i++) {
    VALUE key = RARRAY_AREF(keys, i);
    if (!NIL_P(maker)) key = rb_funcall(maker, rb_intern("full"), 1, key);
    gyre_memcached_full_key(request, key);
    rb_ary_push(all, key);
  }
  return all;
}

/* values(keys, names): returns a Hash of the found values by key. If `names` is not nil, returns a
 * Call; in its Hash the names replace the keys. */
static VALUE server_values(VALUE self, VALUE keys, VALUE names) {
  struct gyre_memcached_request request;
  gyre_memcached_request_begin(&request, self, GYRE_MEMCACHED_VALUES, "get_multi");
  request.starts = !NIL_P(names);
  VALUE own = strings(keys);
  request.own.keys = NIL_P(names) ? own : strings(names);
  request.list = checked_keys(&request, own);
  if (RARRAY_LEN(request.own.keys) != RARRAY_LEN(request.list)) rb_raise(rb_eArgError, "as many names as keys");
  request.own.value = rb_hash_new();
  gyre_memcached_set_flags(&request, " v f", request.server->raw ? 2 : 4);
  request.put = put_keys;
  return gyre_memcached_request_run(&request);
}

/* Queues a command without Ruby code. Returns -EINVAL if another fiber's change prevents that. */
static int put_one(struct gyre_memcached_request *request) {
  VALUE key = RARRAY_AREF(request->list, request->done);
  if (request->full) {
    gyre_memcached_full_key(request, key);
  } else if (!gyre_memcached_plain_key(request, key)) {
    return -EINVAL;
  }
  if (request->step > 1) request->data = RARRAY_AREF(request->list, request->done + 1);
  if (request->step == 2 && !gyre_memcached_direct_value(request, request->data)) return -EINVAL;
  if (request->step == 3) request->data_flags = FIX2UINT(RARRAY_AREF(request->list, request->done + 2));
  return gyre_memcached_put(request);
}

/* Queues a group without Ruby code, because no other command may come between its commands. */
static int put_group(struct gyre_memcached_request *request) {
  struct gyre_memcached_connection *connection = request->connection;
  const struct gyre_transport *transport = connection->transport;
  size_t before = gyre_bytes_held(transport->output);
  if (!request->call->connection) request->call->start = transport->sent_bytes + before;
  long first = request->done;
  int error;
  request->verb = request->step == 1 ? GYRE_MEMCACHED_VERB_MD : GYRE_MEMCACHED_VERB_MS;
  do {
    error = put_one(request);
    request->done += request->step;
  } while (error == 0 && request->done < RARRAY_LEN(request->list) &&
           gyre_bytes_held(transport->output) - before < GROUP_BYTES);
  request->verb = GYRE_MEMCACHED_VERB_MN;
  if (error == 0) error = gyre_memcached_put_line(request, "mn\r\n", 4);
  if (error == 0) return 0;
  /* The group lacks its mn, so the connection is unusable. */
  request->done = first;
  gyre_memcached_connection_fail(connection, 0, "no memory for a group of commands");
  return -EPIPE;
}

/* Copies the items that are not queued yet, because other fibers may change them. */
static void keep(const struct gyre_memcached_request *request) {
  for (long i = request->done; i < RARRAY_LEN(request->list); i++) {
    VALUE text = RARRAY_AREF(request->list, i);
    if (!RB_OBJ_FROZEN(text)) rb_ary_store(request->list, i, rb_str_new_frozen(text));
  }
}

static int put_groups(struct gyre_memcached_request *request) {
  while (request->done < RARRAY_LEN(request->list)) {
    if (!gyre_memcached_connection_has_room(request->connection)) {
      keep(request);
      gyre_memcached_wait_for_room(request->connection);
    }
    int error = request->connection->failed ? -EPIPE : put_group(request);
    if (error < 0) {
      keep(request);
      return error;
    }
  }
  return 0;
}

static VALUE run_quiet(struct gyre_memcached_request *request, long step) {
  request->step = step;
  request->stores = step > 1;
  request->put = put_groups;
  gyre_memcached_set_flags(request, " q", 2);
  request->own.count = RARRAY_LEN(request->list) / step;
  return gyre_memcached_request_run(request);
}

/* set_pairs(pairs, ttl_s): takes keys and values in turn. Returns the number of stored values; nil,
 * without storing any, if a key or value needs conversion (plain_key, direct_value). */
static VALUE server_set_pairs(VALUE self, VALUE pairs, VALUE ttl) {
  struct gyre_memcached_request request;
  gyre_memcached_request_begin(&request, self, GYRE_MEMCACHED_QUIET, "set_multi");
  Check_Type(pairs, T_ARRAY);
  request.list = rb_ary_dup(pairs);
  request.ttl_s = NUM2LL(ttl);
  for (long i = 0; i < RARRAY_LEN(request.list); i += 2) {
    if (!gyre_memcached_plain_key(&request, rb_ary_entry(request.list, i)) ||
        !gyre_memcached_direct_value(&request, rb_ary_entry(request.list, i + 1)))
      return Qnil;
  }
  VALUE here = gyre_memcached_connection_here(request.server);
  const struct gyre_memcached_connection *connection = NIL_P(here) ? NULL : gyre_memcached_connection_get(here);
  if (!connection || !connection->stores || !gyre_memcached_connection_has_room(connection)) keep(&request);
  return run_quiet(&request, 2);
}

/* Prepares a call that only starts. Copies `items`: the first of each `step` is a full key. */
static VALUE copy(struct gyre_memcached_request *request, VALUE items, long step) {
  Check_Type(items, T_ARRAY);
  VALUE list = rb_ary_new_capa(RARRAY_LEN(items));
  request->full = request->starts = true;
  for (long i = 0; i < RARRAY_LEN(items); i++) {
    VALUE item = RARRAY_AREF(items, i);
    if (i % step == 0) gyre_memcached_full_key(request, item);
    rb_ary_push(list, i % step == 2 ? UINT2NUM(NUM2UINT(item) & FIXNUM_MAX) : rb_str_new_frozen(StringValue(item)));
  }
  return list;
}

/* set_all(triples, ttl_s): takes full keys, bytes, flags in turn. Returns a Call with the number of
 * stored values. */
static VALUE server_set_all(VALUE self, VALUE triples, VALUE ttl) {
  struct gyre_memcached_request request;
  gyre_memcached_request_begin(&request, self, GYRE_MEMCACHED_QUIET, "set_multi");
  request.list = copy(&request, triples, 3);
  request.ttl_s = NUM2LL(ttl);
  return run_quiet(&request, 3);
}

/* delete_all(keys): takes full keys. Returns a Call with the number of deleted keys. */
static VALUE server_delete_all(VALUE self, VALUE keys) {
  struct gyre_memcached_request request;
  gyre_memcached_request_begin(&request, self, GYRE_MEMCACHED_QUIET, "delete_multi");
  request.list = copy(&request, keys, 1);
  return run_quiet(&request, 1);
}

void gyre_init_memcached_multi(void) {
  VALUE class = rb_define_class_under(rb_define_module_under(gyre_mGyre, "Memcached"), "Server", rb_cObject);
  rb_define_method(class, "values", server_values, 2);
  rb_define_method(class, "set_pairs", server_set_pairs, 2);
  rb_define_method(class, "set_all", server_set_all, 2);
  rb_define_method(class, "delete_all", server_delete_all, 1);
}
