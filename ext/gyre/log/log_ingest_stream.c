/*
 * Gyre::Log::NativeStream (see log_ingest.c): a connection's bytes on their way through the ingest.
 */
#include "log/log_ingest.h"

static VALUE class_stream;
static ID id_analogger, id_records, id_syslog, id_json, id_auto, id_octet_counting, id_lines;

static void stream_free(void *pointer) {
  gyre_log_stream_close(pointer);
  ruby_xfree(pointer);
}

static size_t stream_size(const void *pointer) {
  const struct gyre_log_stream *const stream = pointer;
  return sizeof(*stream) + stream->rest.capacity + stream->lines.capacity + stream->origin.bytes.capacity;
}

static const rb_data_type_t stream_type = {
    "Gyre::Log::NativeStream", {NULL, stream_free, stream_size}, NULL, NULL, RUBY_TYPED_FREE_IMMEDIATELY};

static struct gyre_log_stream *stream_of(VALUE stream) { return rb_check_typeddata(stream, &stream_type); }

static enum gyre_log_kind kind_of(VALUE name, size_t *limit) {
  const ID id = SYMBOL_P(name) ? SYM2ID(name) : 0;
  *limit = id == id_analogger ? 8192 : id == id_records || id == id_json ? 1 << 20 : 1 << 16;
  if (id == id_analogger) return GYRE_LOG_FRAMES;
  if (id == id_records) return GYRE_LOG_RECORDS;
  if (id == id_syslog) return GYRE_LOG_SYSLOG;
  if (id == id_json) return GYRE_LOG_JSON_LINES;
  rb_raise(rb_eArgError, "no stream of kind %+" PRIsVALUE, name);
}

static enum gyre_log_framing framing_of(VALUE name) {
  const ID id = SYMBOL_P(name) ? SYM2ID(name) : 0;
  if (id == id_auto) return GYRE_LOG_AUTO;
  if (id == id_octet_counting) return GYRE_LOG_OCTET_COUNTING;
  if (id == id_lines) return GYRE_LOG_LINES;
  rb_raise(rb_eArgError, "framing: one of auto, octet_counting, lines, not %+" PRIsVALUE, name);
}

VALUE gyre_log_open_stream(VALUE self, VALUE kind, VALUE framing, VALUE session, VALUE limit, VALUE host, VALUE pid) {
  struct gyre_log_hub *const hub = gyre_log_hub_of(self);
  struct gyre_log_stream *stream;
  size_t bytes;
  const enum gyre_log_kind chosen = kind_of(kind, &bytes);
  const enum gyre_log_framing framed = framing_of(framing);
  const unsigned long long process = NIL_P(pid) ? 0 : NUM2ULL(pid);
  if (!NIL_P(limit)) bytes = NUM2SIZET(limit);
  if (!NIL_P(host)) StringValue(host);
  struct gyre_log_session *const of = chosen == GYRE_LOG_RECORDS ? gyre_log_session_of(session) : NULL;
  VALUE object = TypedData_Make_Struct(class_stream, struct gyre_log_stream, &stream_type, stream);
  gyre_log_stream_open(stream, hub, of, chosen, framed, bytes);
  if (!NIL_P(host)) gyre_log_check(gyre_log_stream_set_origin(stream, gyre_log_text_of_string(&host), process));
  RB_GC_GUARD(host);
  RB_GC_GUARD(session);
  return object;
}

/* nil, or the text of what is wrong. */
static VALUE answer(int result) {
  gyre_log_check(result);
  return result == 0 ? Qnil : rb_utf8_str_new_cstr(gyre_log_wrong_text(result));
}

static VALUE stream_feed(VALUE self, VALUE bytes, VALUE time_ns) {
  struct gyre_log_stream *const stream = stream_of(self);
  const int64_t time = NUM2LL(time_ns);
  StringValue(bytes);
  const int result = gyre_log_stream_feed(stream, RSTRING_PTR(bytes), (size_t)RSTRING_LEN(bytes), time);
  RB_GC_GUARD(bytes);
  return answer(result);
}

static VALUE stream_finish(VALUE self, VALUE time_ns) {
  return answer(gyre_log_stream_finish(stream_of(self), NUM2LL(time_ns)));
}

static int deliver_of_stream(void *to, const struct gyre_log_message *message) {
  return gyre_log_stream_deliver(to, message);
}

static VALUE stream_deliver(VALUE self, VALUE service, VALUE severity, VALUE text, VALUE time_ns) {
  struct gyre_log_stream *const stream = stream_of(self);
  VALUE texts[3] = {service, severity, text};
  return gyre_log_message(stream->hub, texts, time_ns, deliver_of_stream, stream);
}

static VALUE stream_bytesize(VALUE self) { return SIZET2NUM(stream_of(self)->rest.length); }

static VALUE stream_rest(VALUE self) {
  const struct gyre_log_stream *const stream = stream_of(self);
  return rb_str_new(stream->rest.bytes, (long)stream->rest.length);
}

/* Whole lines of JSON with their ends, or nil. */
static VALUE stream_take_lines(VALUE self) {
  struct gyre_log_stream *const stream = stream_of(self);
  if (stream->lines.length == 0) return Qnil;
  VALUE lines = rb_str_new(stream->lines.bytes, (long)stream->lines.length);
  if (gyre_log_is_waste(stream->lines.capacity, stream->lines.length)) gyre_log_buffer_free(&stream->lines);
  stream->lines.length = 0;
  return lines;
}

static VALUE stream_messages(VALUE self) { return ULL2NUM(stream_of(self)->messages); }

void gyre_init_log_stream(VALUE log) {
  id_analogger = rb_intern("analogger");
  id_records = rb_intern("records");
  id_syslog = rb_intern("syslog");
  id_json = rb_intern("json");
  id_auto = rb_intern("auto");
  id_octet_counting = rb_intern("octet_counting");
  id_lines = rb_intern("lines");
  class_stream = rb_define_class_under(log, "NativeStream", rb_cObject);
  rb_undef_alloc_func(class_stream);
  rb_define_method(class_stream, "feed", stream_feed, 2);
  rb_define_method(class_stream, "finish", stream_finish, 1);
  rb_define_method(class_stream, "deliver", stream_deliver, 4);
  rb_define_method(class_stream, "bytesize", stream_bytesize, 0);
  rb_define_method(class_stream, "rest", stream_rest, 0);
  rb_define_method(class_stream, "take_lines", stream_take_lines, 0);
  rb_define_method(class_stream, "messages", stream_messages, 0);
  rb_gc_register_mark_object(class_stream);
}
