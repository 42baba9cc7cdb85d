/*
 * Gyre::Log::NativeSink and NativeSession (see log_ingest.c): finished lines for one output, and a client of acknowledged logging.
 */
#include "log/log_ingest.h"

static VALUE class_sink, class_session;
static ID id_text, id_json, id_redis;

/* --- sinks --- */

static void sink_free(void *pointer) {
  struct gyre_log_sink *const sink = pointer;
  if (!sink) return;
  struct gyre_log_hub *const hub = sink->hub;
  gyre_log_sink_release(sink);
  gyre_log_hub_release(hub);
}

static size_t sink_size(const void *pointer) {
  const struct gyre_log_sink *const sink = pointer;
  if (!sink) return 0;
  return sizeof(*sink) + sink->bytes.capacity + sink->last.capacity + sink->clients_capacity * sizeof(*sink->clients);
}

static const rb_data_type_t sink_type = {
    "Gyre::Log::NativeSink", {NULL, sink_free, sink_size}, NULL, NULL, RUBY_TYPED_FREE_IMMEDIATELY};

struct gyre_log_sink *gyre_log_sink_of(VALUE sink) {
  return rb_check_typeddata(sink, &sink_type);
}

static enum gyre_log_format format_of(VALUE name) {
  const ID id = SYMBOL_P(name) ? SYM2ID(name) : 0;
  if (id == id_text) return GYRE_LOG_TEXT;
  if (id == id_json) return GYRE_LOG_JSON;
  if (id == id_redis) return GYRE_LOG_REDIS;
  rb_raise(rb_eArgError, "format: one of text, json, redis, not %+" PRIsVALUE, name);
}

VALUE gyre_log_open_sink(VALUE self, VALUE format, VALUE cull, VALUE raw, VALUE origin, VALUE limit, VALUE bound,
                         VALUE drops, VALUE key) {
  struct gyre_log_hub *const hub = gyre_log_hub_of(self);
  const enum gyre_log_format chosen = format_of(format);
  const size_t bytes = NIL_P(limit) ? SIZE_MAX : NUM2SIZET(limit), queue = NIL_P(bound) ? SIZE_MAX : NUM2SIZET(bound);
  const struct gyre_log_text key_text = gyre_log_text_of_string(&key);
  VALUE object = TypedData_Wrap_Struct(class_sink, &sink_type, NULL);
  struct gyre_log_sink *const sink = gyre_log_sink_open(hub, chosen, key_text);
  if (!sink) gyre_log_check(-ENOMEM);
  gyre_log_hub_retain(hub);
  sink->cull = RTEST(cull);
  sink->raw = RTEST(raw);
  if (!NIL_P(origin)) sink->origin = RTEST(origin);
  sink->limit = bytes;
  sink->bound = queue;
  sink->drops = RTEST(drops);
  RTYPEDDATA_DATA(object) = sink;
  RB_GC_GUARD(key);
  return object;
}

/* More than one entry of a client may stand in the list when it had several sessions. */
static VALUE clients_of(const struct gyre_log_sink *sink) {
  VALUE clients = rb_hash_new();
  for (size_t i = 0; i < sink->clients_count; i++) {
    const struct gyre_log_client *const client = &sink->clients[i];
    VALUE id = rb_utf8_str_new(client->id, GYRE_LOG_CLIENT_ID), before = rb_hash_lookup(clients, id);
    if (NIL_P(before) || NUM2ULL(before) < client->last) rb_hash_aset(clients, id, ULL2NUM(client->last));
  }
  return clients;
}

/* Puts the bytes in the place of what the String has, into the same memory if they fit. */
static void put_into(VALUE string, const struct gyre_log_buffer *bytes) {
  const long length = (long)bytes->length;
  if (gyre_log_is_waste(rb_str_capacity(string), bytes->length)) rb_str_resize(string, 0);
  if (rb_str_capacity(string) < bytes->length)
    rb_str_modify_expand(string, length + length / 4 - RSTRING_LEN(string));
  else
    rb_str_modify(string);
  if (length > 0) memcpy(RSTRING_PTR(string), bytes->bytes, bytes->length);
  rb_str_set_len(string, length);
}

static VALUE sink_take(int count, VALUE *arguments, VALUE self) {
  struct gyre_log_sink *const sink = gyre_log_sink_of(self);
  VALUE taken = Qnil;
  rb_check_arity(count, 0, 1);
  VALUE bytes = count > 0 ? rb_str_to_str(arguments[0]) : rb_str_new(NULL, 0);
  gyre_log_check(gyre_log_sink_finish(sink));
  put_into(bytes, &sink->bytes);
  if (sink->bytes.length > 0 || sink->clients_count > 0) taken = rb_assoc_new(bytes, clients_of(sink));
  gyre_log_sink_clear(sink);
  return taken;
}

static VALUE sink_bytesize(VALUE self) { return SIZET2NUM(gyre_log_sink_of(self)->bytes.length); }

static VALUE sink_lines(VALUE self) { return ULL2NUM(gyre_log_sink_of(self)->lines); }

static VALUE sink_dropped(VALUE self) { return ULL2NUM(gyre_log_sink_of(self)->dropped); }

static bool has_more_than(VALUE self, size_t parts) {
  const struct gyre_log_sink *const sink = gyre_log_sink_of(self);
  return sink->bytes.length + sink->pending > sink->bound / parts;
}

static VALUE sink_is_full(VALUE self) { return has_more_than(self, 1) ? Qtrue : Qfalse; }

/* Whether connections that bring messages for it have to wait. */
static VALUE sink_is_blocked(VALUE self) {
  return has_more_than(self, 1) && !gyre_log_sink_of(self)->drops ? Qtrue : Qfalse;
}

static VALUE sink_has_room(VALUE self) { return has_more_than(self, 2) ? Qfalse : Qtrue; }

/* Whether a message came while it was full; asked once. */
static VALUE sink_was_hit(VALUE self) {
  struct gyre_log_sink *const sink = gyre_log_sink_of(self);
  const bool hit = sink->hit;
  sink->hit = false;
  return hit ? Qtrue : Qfalse;
}

static VALUE sink_written(VALUE self) {
  gyre_log_sink_of(self)->pending = 0;
  return Qnil;
}

static VALUE sink_format(VALUE self) {
  static const char *const names[] = {"text", "json", "redis"};
  return ID2SYM(rb_intern(names[gyre_log_sink_of(self)->format]));
}

/* --- sessions --- */

static void session_free(void *pointer) { gyre_log_session_release(pointer); }

static size_t session_size(const void *pointer) {
  const struct gyre_log_session *const session = pointer;
  return session ? sizeof(*session) + session->marks_count * sizeof(*session->marks) : 0;
}

static const rb_data_type_t session_type = {
    "Gyre::Log::NativeSession", {NULL, session_free, session_size}, NULL, NULL, RUBY_TYPED_FREE_IMMEDIATELY};

struct gyre_log_session *gyre_log_session_of(VALUE session) {
  return NIL_P(session) ? NULL : rb_check_typeddata(session, &session_type);
}

static bool is_client_id(const char *bytes, long length) {
  if (length != GYRE_LOG_CLIENT_ID) return false;
  for (long i = 0; i < length; i++) {
    if (memchr("0123456789abcdefABCDEF", bytes[i], 22) == NULL) return false;
  }
  return true;
}

static int set_mark(VALUE sink, VALUE sequence, VALUE object) {
  const uint64_t last = NIL_P(sequence) ? 0 : NUM2ULL(sequence), number = gyre_log_sink_of(sink)->number;
  struct gyre_log_session *const session = gyre_log_session_of(object);
  struct gyre_log_mark *const mark = gyre_log_session_mark(session, number);
  if (!mark) gyre_log_check(-ENOMEM);
  mark->last = mark->stored = last;
  mark->unknown = NIL_P(sequence);
  session->unknown += mark->unknown;
  return ST_CONTINUE;
}

/* What was unknown is known now; what was known stands. */
static int learn_mark(VALUE sink, VALUE sequence, VALUE object) {
  struct gyre_log_session *const session = gyre_log_session_of(object);
  const uint64_t last = NIL_P(sequence) ? 0 : NUM2ULL(sequence), number = gyre_log_sink_of(sink)->number;
  struct gyre_log_mark *const mark = gyre_log_session_mark(session, number);
  if (!mark) gyre_log_check(-ENOMEM);
  if (!mark->unknown || NIL_P(sequence)) return ST_CONTINUE;
  mark->last = mark->stored = last;
  mark->unknown = false;
  session->unknown--;
  return ST_CONTINUE;
}

static VALUE session_learn(VALUE self, VALUE last) {
  Check_Type(last, T_HASH);
  gyre_log_session_of(self)->refused = false;
  rb_hash_foreach(last, learn_mark, self);
  return Qnil;
}

static VALUE session_was_refused(VALUE self) { return gyre_log_session_of(self)->refused ? Qtrue : Qfalse; }

VALUE gyre_log_open_session(VALUE self, VALUE client_id, VALUE last) {
  StringValue(client_id);
  Check_Type(last, T_HASH);
  if (!is_client_id(RSTRING_PTR(client_id), RSTRING_LEN(client_id)))
    rb_raise(rb_eArgError, "a client's id has 32 hexadecimal digits: %+" PRIsVALUE, client_id);
  VALUE object = TypedData_Wrap_Struct(class_session, &session_type, NULL);
  struct gyre_log_session *const session = gyre_log_session_open(RSTRING_PTR(client_id));
  if (!session) gyre_log_check(-ENOMEM);
  RTYPEDDATA_DATA(object) = session;
  rb_hash_foreach(last, set_mark, object);
  RB_GC_GUARD(client_id);
  return object;
}

static VALUE session_client_id(VALUE self) {
  return rb_utf8_str_new(gyre_log_session_of(self)->client_id, GYRE_LOG_CLIENT_ID);
}

static VALUE session_received(VALUE self) { return ULL2NUM(gyre_log_session_of(self)->received); }

static VALUE session_stored(VALUE self, VALUE sink, VALUE sequence) {
  const uint64_t stored = NUM2ULL(sequence), number = gyre_log_sink_of(sink)->number;
  struct gyre_log_mark *const mark = gyre_log_session_mark(gyre_log_session_of(self), number);
  if (!mark) gyre_log_check(-ENOMEM);
  if (mark->stored < stored) mark->stored = stored;
  return Qnil;
}

static VALUE session_durable(VALUE self) { return ULL2NUM(gyre_log_session_durable(gyre_log_session_of(self))); }

void gyre_init_log_sink(VALUE log) {
  id_text = rb_intern("text");
  id_json = rb_intern("json");
  id_redis = rb_intern("redis");
  class_sink = rb_define_class_under(log, "NativeSink", rb_cObject);
  rb_undef_alloc_func(class_sink);
  rb_define_method(class_sink, "take", sink_take, -1);
  rb_define_method(class_sink, "bytesize", sink_bytesize, 0);
  rb_define_method(class_sink, "lines", sink_lines, 0);
  rb_define_method(class_sink, "dropped", sink_dropped, 0);
  rb_define_method(class_sink, "full?", sink_is_full, 0);
  rb_define_method(class_sink, "blocked?", sink_is_blocked, 0);
  rb_define_method(class_sink, "room?", sink_has_room, 0);
  rb_define_method(class_sink, "hit?", sink_was_hit, 0);
  rb_define_method(class_sink, "written", sink_written, 0);
  rb_define_method(class_sink, "format", sink_format, 0);
  class_session = rb_define_class_under(log, "NativeSession", rb_cObject);
  rb_undef_alloc_func(class_session);
  rb_define_method(class_session, "client_id", session_client_id, 0);
  rb_define_method(class_session, "received", session_received, 0);
  rb_define_method(class_session, "stored", session_stored, 2);
  rb_define_method(class_session, "durable", session_durable, 0);
  rb_define_method(class_session, "learn", session_learn, 1);
  rb_define_method(class_session, "refused?", session_was_refused, 0);
  rb_gc_register_mark_object(class_sink);
  rb_gc_register_mark_object(class_session);
}
