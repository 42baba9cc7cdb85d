/*
 * Gyre::Memcached::Server's calls for many keys. Values are asked for one by one, in one write, and
 * matched in order, which costs less than having each reply name its key. What is stored or deleted
 * is quiet: the server replies only where it refuses, and to the mn behind each group.
 */
#include "memcached/memcached_request.h"

#include <errno.h>
#include <ruby/encoding.h>
#include <string.h>

#define GROUP_BYTES (64 * 1024) /* of quiet commands, up to their mn */

/* --- values --- */

/* No Ruby code runs between the commands of one call: it could leave for ever, and the call with
 * it. */
static int put_keys(struct gyre_memcached_request *request) {
  for (; request->done < RARRAY_LEN(request->list); request->done++) {
    if (!gyre_memcached_connection_has_room(request->connection)) gyre_memcached_wait_for_room(request->connection);
    VALUE key = RARRAY_AREF(request->list, request->done);
    if (!gyre_memcached_plain_key(request, key)) gyre_memcached_full_key(request, key);
    int error = gyre_memcached_put(request, "mg", (uint32_t)request->done);
    if (error < 0) return error;
  }
  return 0;
}

static int put_full_keys(struct gyre_memcached_request *request) {
  for (; request->done < RARRAY_LEN(request->list); request->done++) {
    if (!gyre_memcached_connection_has_room(request->connection)) gyre_memcached_wait_for_room(request->connection);
    gyre_memcached_full_key(request, RARRAY_AREF(request->list, request->done));
    int error = gyre_memcached_put(request, "mg", (uint32_t)request->done);
    if (error < 0) return error;
  }
  return 0;
}

/* Of no subclass: such a one may have an `eql?` of its own, which the result's Hash would call. */
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

/* Finds those that cannot be sent before others are. Unless all are usual, full keys take their
 * place. */
static VALUE checked_keys(struct gyre_memcached_request *request, VALUE keys) {
  bool usual = true;
  VALUE maker = request->server->keys;
  for (long i = 0; i < RARRAY_LEN(keys) && usual; i++) usual = gyre_memcached_plain_key(request, RARRAY_AREF(keys, i));
  request->put = usual ? put_keys : put_full_keys;
  if (usual) return keys;
  VALUE all = rb_ary_new_capa(RARRAY_LEN(keys));
  for (long i = 0; i < RARRAY_LEN(keys); i++) {
    VALUE key = RARRAY_AREF(keys, i);
    if (!NIL_P(maker)) key = rb_funcall(maker, rb_intern("full"), 1, key);
    gyre_memcached_full_key(request, key);
    rb_ary_push(all, key);
  }
  return all;
}

/*
 * @api private
 * @param keys [Array] as the server takes them
 * @param names [Array<String>, nil] by which the values are returned; nil: the keys
 * @param starts [Boolean] whether it is only started
 * @return [Hash{String => Object}, Call] without those that are not there
 */
static VALUE server_values(VALUE self, VALUE keys, VALUE names, VALUE starts) {
  struct gyre_memcached_request request;
  gyre_memcached_request_begin(&request, self, GYRE_MEMCACHED_VALUES, GYRE_MEMCACHED_RESULT_TABLE, "get_multi");
  request.starts = RTEST(starts);
  VALUE own = strings(keys);
  request.own.keys = NIL_P(names) ? own : strings(names);
  request.list = checked_keys(&request, own);
  if (RARRAY_LEN(request.own.keys) != RARRAY_LEN(request.list)) rb_raise(rb_eArgError, "as many names as keys");
  request.own.value = rb_hash_new();
  request.flags = " v f";
  request.flags_length = request.server->raw ? 2 : 4;
  request.verb = GYRE_MEMCACHED_VERB_MG;
  return gyre_memcached_request_run(&request);
}

/* --- quiet groups --- */

/* Queues the one that is next. */
typedef int put_one(struct gyre_memcached_request *request);

static int end_group(struct gyre_memcached_request *request) {
  char *start = gyre_memcached_connection_reserve(request->connection, 4);
  if (!start) return -ENOMEM;
  memcpy(start, "mn\r\n", 4);
  return gyre_memcached_connection_queue(request->connection, request->call, GYRE_MEMCACHED_VERB_MN, 0, 4);
}

/* Nothing else may stand in the pipeline between its commands, so no Ruby code runs here. */
static int put_group(struct gyre_memcached_request *request, put_one *put, long step) {
  struct gyre_memcached_connection *connection = request->connection;
  const struct gyre_transport *transport = connection->transport;
  size_t before = gyre_bytes_held(transport->output);
  if (!request->call->connection) request->call->start = transport->sent_bytes + before;
  long first = request->done;
  int error = 0;
  do {
    error = put(request);
    request->done += step;
  } while (error == 0 && request->done < RARRAY_LEN(request->list) &&
           gyre_bytes_held(transport->output) - before < GROUP_BYTES);
  if (error == 0) error = end_group(request);
  if (error == 0) return 0;
  /* Without its mn a group has no end. */
  request->done = first;
  gyre_memcached_connection_fail(connection, "no memory for a group of commands");
  return -EPIPE;
}

/* Before others run: what they change is stored as it was. */
static void keep(const struct gyre_memcached_request *request) {
  for (long i = request->done; i < RARRAY_LEN(request->list); i++) {
    VALUE text = RARRAY_AREF(request->list, i);
    if (!RB_OBJ_FROZEN(text)) rb_ary_store(request->list, i, rb_str_new_frozen(text));
  }
}

static int put_groups(struct gyre_memcached_request *request, put_one *put, long step) {
  while (request->done < RARRAY_LEN(request->list)) {
    if (!gyre_memcached_connection_has_room(request->connection)) {
      keep(request);
      gyre_memcached_wait_for_room(request->connection);
    }
    int error = request->connection->failed ? -EPIPE : put_group(request, put, step);
    if (error < 0) {
      keep(request);
      return error;
    }
  }
  return 0;
}

static int put_pair(struct gyre_memcached_request *request) {
  request->data = RARRAY_AREF(request->list, request->done + 1);
  if (!gyre_memcached_plain_key(request, RARRAY_AREF(request->list, request->done)) ||
      !gyre_memcached_direct_value(request, request->data))
    return -EINVAL; /* changed while others ran */
  return gyre_memcached_put_value(request);
}

/* One that was checked before. */
static void take_key(struct gyre_memcached_request *request) {
  VALUE key = RARRAY_AREF(request->list, request->done);
  request->key_length = (size_t)RSTRING_LEN(key);
  memcpy(request->key, RSTRING_PTR(key), request->key_length);
  request->form = gyre_memcached_key_form(request->key, request->key_length);
}

static int put_triple(struct gyre_memcached_request *request) {
  take_key(request);
  request->data = RARRAY_AREF(request->list, request->done + 1);
  request->data_flags = FIX2UINT(RARRAY_AREF(request->list, request->done + 2));
  return gyre_memcached_put_value(request);
}

static int put_deletion(struct gyre_memcached_request *request) {
  take_key(request);
  return gyre_memcached_put(request, "md", 0);
}

static int put_pairs(struct gyre_memcached_request *request) { return put_groups(request, put_pair, 2); }
static int put_triples(struct gyre_memcached_request *request) { return put_groups(request, put_triple, 3); }
static int put_deletions(struct gyre_memcached_request *request) { return put_groups(request, put_deletion, 1); }

static VALUE run_quiet(struct gyre_memcached_request *request, VALUE starts, long step) {
  request->quiet = true;
  request->starts = RTEST(starts);
  request->count = RARRAY_LEN(request->list) / step;
  if (request->count == 0) return INT2FIX(0);
  return gyre_memcached_request_run(request);
}

/*
 * @api private
 * @param pairs [Array] keys and values by turns
 * @param ttl [Integer] seconds
 * @return [Integer, nil] how many were stored; nil: not all of them are usual keys, and Strings
 *   that are stored as they are
 */
static VALUE server_set_pairs(VALUE self, VALUE pairs, VALUE ttl) {
  struct gyre_memcached_request request;
  gyre_memcached_request_begin(&request, self, GYRE_MEMCACHED_QUIET, GYRE_MEMCACHED_RESULT_COUNT, "set_multi");
  Check_Type(pairs, T_ARRAY);
  request.list = rb_ary_dup(pairs);
  request.ttl_s = NUM2LL(ttl);
  for (long i = 0; i < RARRAY_LEN(request.list); i += 2) {
    if (!gyre_memcached_plain_key(&request, rb_ary_entry(request.list, i)) ||
        !gyre_memcached_direct_value(&request, rb_ary_entry(request.list, i + 1)))
      return Qnil;
  }
  VALUE here = gyre_memcached_connection_here(request.server);
  if (NIL_P(here) || !gyre_memcached_connection_has_room(gyre_memcached_connection_get(here))) keep(&request);
  request.flags = " q";
  request.flags_length = 2;
  request.put = put_pairs;
  return run_quiet(&request, Qfalse, 2);
}

/*
 * @api private
 * @param triples [Array] keys as Keys#full has made them, bytes and flags by turns
 * @param ttl [Integer] seconds
 * @param starts [Boolean] whether it is only started
 * @return [Integer, Call] how many were stored
 */
static VALUE server_set_all(VALUE self, VALUE triples, VALUE ttl, VALUE starts) {
  struct gyre_memcached_request request;
  gyre_memcached_request_begin(&request, self, GYRE_MEMCACHED_QUIET, GYRE_MEMCACHED_RESULT_COUNT, "set_multi");
  Check_Type(triples, T_ARRAY);
  VALUE list = request.list = rb_ary_new_capa(RARRAY_LEN(triples));
  for (long i = 0; i + 2 < RARRAY_LEN(triples); i += 3) {
    gyre_memcached_full_key(&request, RARRAY_AREF(triples, i));
    VALUE flags = RARRAY_AREF(triples, i + 2), bytes = RARRAY_AREF(triples, i + 1);
    rb_ary_push(list, rb_str_new_frozen(RARRAY_AREF(triples, i)));
    rb_ary_push(list, rb_str_new_frozen(StringValue(bytes)));
    rb_ary_push(list, UINT2NUM(NUM2UINT(flags) & FIXNUM_MAX));
  }
  request.ttl_s = NUM2LL(ttl);
  request.flags = " q";
  request.flags_length = 2;
  request.put = put_triples;
  return run_quiet(&request, starts, 3);
}

/*
 * @api private
 * @param keys [Array<String>] as Keys#full has made them
 * @param starts [Boolean] whether it is only started
 * @return [Integer, Call] how many were deleted
 */
static VALUE server_delete_all(VALUE self, VALUE keys, VALUE starts) {
  struct gyre_memcached_request request;
  gyre_memcached_request_begin(&request, self, GYRE_MEMCACHED_QUIET, GYRE_MEMCACHED_RESULT_COUNT, "delete_multi");
  Check_Type(keys, T_ARRAY);
  VALUE list = request.list = rb_ary_new_capa(RARRAY_LEN(keys));
  for (long i = 0; i < RARRAY_LEN(keys); i++) {
    gyre_memcached_full_key(&request, RARRAY_AREF(keys, i));
    rb_ary_push(list, rb_str_new_frozen(RARRAY_AREF(keys, i)));
  }
  request.flags = " q";
  request.flags_length = 2;
  request.verb = GYRE_MEMCACHED_VERB_MD;
  request.put = put_deletions;
  return run_quiet(&request, starts, 1);
}

void gyre_init_memcached_many(void) {
  VALUE module = rb_define_module_under(gyre_mGyre, "Memcached");
  VALUE class = rb_define_class_under(module, "Server", rb_cObject);
  rb_define_method(class, "values", server_values, 3);
  rb_define_method(class, "set_pairs", server_set_pairs, 2);
  rb_define_method(class, "set_all", server_set_all, 3);
  rb_define_method(class, "delete_all", server_delete_all, 2);
}
