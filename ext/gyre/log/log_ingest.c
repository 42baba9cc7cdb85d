/* Gyre::Log::Ingest with sinks, sessions and decoders (contract: lib/gyre/log/ingest.rb). The hub
 * (log_hub.h) works without Ruby. The Ruby objects do not refer to each other, so they mark nothing
 * and are freed in any order. */
#include "gyre.h"
#include "log/log_crc32.h"
#include "log/log_hub.h"

static VALUE class_sink, class_session, class_decoder;

/* --- common --- */

/* Raises NoMemoryError for -ENOMEM. */
static int check(int result) {
  if (result == -ENOMEM) rb_raise(rb_eNoMemError, "failed to allocate memory for log messages");
  return result;
}

/* Raises TypeError for anything but a String. */
static struct gyre_log_text text_of(VALUE *string) {
  StringValue(*string);
  return (struct gyre_log_text){RSTRING_PTR(*string), (size_t)RSTRING_LEN(*string)};
}

/* Returns a Symbol's index among the names. */
static int choose(const char *what, VALUE name, const char *const names[], int count) {
  VALUE known = rb_str_new(NULL, 0);
  for (int i = 0; i < count; i++) {
    if (SYMBOL_P(name) && SYM2ID(name) == rb_intern(names[i])) return i;
    rb_str_catf(known, i ? ", %s" : "%s", names[i]);
  }
  rb_raise(rb_eArgError, "%s: one of %" PRIsVALUE ", not %+" PRIsVALUE, what, known, name);
}

static VALUE boolean(bool value) { return value ? Qtrue : Qfalse; }

/* --- the ingest --- */

static void ingest_free(void *pointer) { gyre_log_hub_release(pointer); }

GYRE_TYPE(gyre_log_ingest_type, "Gyre::Log::NativeIngest", NULL, ingest_free, NULL, RUBY_TYPED_FREE_IMMEDIATELY);

static struct gyre_log_hub *hub_of(VALUE ingest) {
  struct gyre_log_hub *const hub = rb_check_typeddata(ingest, &gyre_log_ingest_type);
  if (!hub) rb_raise(rb_eRuntimeError, "this ingest was not initialized");
  return hub;
}

static VALUE ingest_allocate(VALUE class) { return TypedData_Wrap_Struct(class, &gyre_log_ingest_type, NULL); }

static VALUE ingest_setup(VALUE self, VALUE services_limit) {
  const size_t limit = NUM2SIZET(services_limit);
  if (RTYPEDDATA_DATA(self)) rb_raise(rb_eRuntimeError, "this ingest was initialized already");
  struct gyre_log_hub *const hub = gyre_log_hub_open(limit);
  if (!hub) check(-ENOMEM);
  RTYPEDDATA_DATA(self) = hub;
  return self;
}

/* --- sinks --- */

struct sink {
  struct gyre_log_hub *hub; /* kept alive, because the sink counts its bytes there */
  struct gyre_log_sink *sink;
};

static void sink_free(void *pointer) {
  struct sink *const object = pointer;
  gyre_log_sink_release(object->sink);
  gyre_log_hub_release(object->hub);
  ruby_xfree(object);
}

static size_t sink_size(const void *pointer) {
  const struct sink *const object = pointer;
  const struct gyre_log_sink *const sink = object->sink;
  if (!sink) return sizeof(*object);
  return sizeof(*object) + sizeof(*sink) + sink->bytes.capacity + sink->last.capacity +
         sink->clients_capacity * sizeof(*sink->clients);
}

GYRE_TYPE(sink_type, "Gyre::Log::Ingest::Sink", NULL, sink_free, sink_size, RUBY_TYPED_FREE_IMMEDIATELY);

static struct gyre_log_sink *sink_of(VALUE sink) { return ((struct sink *)rb_check_typeddata(sink, &sink_type))->sink; }

static VALUE ingest_open_sink(VALUE self, VALUE format, VALUE cull, VALUE raw, VALUE origin, VALUE limit, VALUE bound,
                              VALUE drops, VALUE key) {
  static const char *const formats[] = {"text", "json", "redis"};
  struct gyre_log_hub *const hub = hub_of(self);
  const enum gyre_log_format chosen = (enum gyre_log_format)choose("format", format, formats, 3);
  const size_t bytes = NIL_P(limit) ? SIZE_MAX : NUM2SIZET(limit), queue = NIL_P(bound) ? SIZE_MAX : NUM2SIZET(bound);
  const struct gyre_log_text key_text = text_of(&key);
  struct sink *made;
  VALUE object = TypedData_Make_Struct(class_sink, struct sink, &sink_type, made);
  struct gyre_log_sink *const sink = made->sink = gyre_log_hub_open_sink(hub, chosen, key_text);
  if (!sink) check(-ENOMEM);
  made->hub = hub;
  hub->references++;
  sink->cull = RTEST(cull);
  sink->raw = RTEST(raw);
  if (!NIL_P(origin)) sink->origin = RTEST(origin) ? (unsigned)chosen : GYRE_LOG_NO_ORIGIN;
  sink->limit = bytes;
  sink->bound = queue;
  sink->drops = RTEST(drops);
  RB_GC_GUARD(key);
  return object;
}

/* Returns {client_id => highest number}. A client may have several entries in the sink. */
static VALUE clients_of(const struct gyre_log_sink *sink) {
  VALUE clients = rb_hash_new();
  for (size_t i = 0; i < sink->clients_count; i++) {
    const struct gyre_log_client *const client = &sink->clients[i];
    VALUE id = rb_utf8_str_new(client->id, GYRE_LOG_CLIENT_ID), before = rb_hash_lookup(clients, id);
    if (NIL_P(before) || NUM2ULL(before) < client->last) rb_hash_aset(clients, id, ULL2NUM(client->last));
  }
  return clients;
}

/* Copies the bytes into the String, whose memory is reused if possible. */
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
  struct gyre_log_sink *const sink = sink_of(self);
  VALUE taken = Qnil;
  rb_check_arity(count, 0, 1);
  VALUE bytes = count > 0 ? rb_str_to_str(arguments[0]) : rb_str_new(NULL, 0);
  check(gyre_log_sink_finish(sink));
  put_into(bytes, &sink->bytes);
  if (sink->bytes.length > 0 || sink->clients_count > 0) taken = rb_assoc_new(bytes, clients_of(sink));
  gyre_log_sink_clear(sink);
  return taken;
}

static VALUE sink_bytesize(VALUE self) { return SIZET2NUM(sink_of(self)->bytes.length); }

static VALUE sink_lines(VALUE self) { return ULL2NUM(sink_of(self)->lines); }

static VALUE sink_dropped(VALUE self) { return ULL2NUM(sink_of(self)->dropped); }

static VALUE sink_is_full(VALUE self) { return boolean(gyre_log_sink_exceeds(sink_of(self), 1)); }

/* True if connections that send to this sink must wait. */
static VALUE sink_is_blocked(VALUE self) {
  const struct gyre_log_sink *const sink = sink_of(self);
  return boolean(!sink->drops && gyre_log_sink_exceeds(sink, 1));
}

static VALUE sink_has_room(VALUE self) { return boolean(!gyre_log_sink_exceeds(sink_of(self), 2)); }

/* True if, since the last call, a decoder's message has come while the sink was full. */
static VALUE sink_was_hit(VALUE self) {
  struct gyre_log_sink *const sink = sink_of(self);
  const bool hit = sink->hit;
  sink->hit = false;
  return boolean(hit);
}

static VALUE sink_written(VALUE self) {
  sink_of(self)->pending = 0;
  return Qnil;
}

/* --- sessions --- */

static void session_free(void *pointer) { gyre_log_session_release(pointer); }

static size_t session_size(const void *pointer) {
  const struct gyre_log_session *const session = pointer;
  return session ? sizeof(*session) + session->marks_count * sizeof(*session->marks) : 0;
}

GYRE_TYPE(session_type, "Gyre::Log::Ingest::Session", NULL, session_free, session_size, RUBY_TYPED_FREE_IMMEDIATELY);

static struct gyre_log_session *session_of(VALUE session) {
  return NIL_P(session) ? NULL : rb_check_typeddata(session, &session_type);
}

static int open_mark(VALUE sink, VALUE sequence, VALUE object) {
  struct gyre_log_session *const session = session_of(object);
  const uint64_t last = NIL_P(sequence) ? 0 : NUM2ULL(sequence), number = sink_of(sink)->number;
  struct gyre_log_mark *const mark = gyre_log_session_mark(session, number);
  if (!mark) check(-ENOMEM);
  mark->last = mark->stored = last;
  mark->unknown = NIL_P(sequence);
  session->unknown += mark->unknown;
  return ST_CONTINUE;
}

static VALUE session_was_refused(VALUE self) { return boolean(session_of(self)->refused); }

static VALUE ingest_open_session(VALUE self, VALUE client_id, VALUE last) {
  StringValue(client_id);
  Check_Type(last, T_HASH);
  if (RSTRING_LEN(client_id) != GYRE_LOG_CLIENT_ID)
    rb_raise(rb_eArgError, "a client's id has 32 characters: %+" PRIsVALUE, client_id);
  VALUE object = TypedData_Wrap_Struct(class_session, &session_type, NULL);
  struct gyre_log_session *const session = gyre_log_session_open(RSTRING_PTR(client_id));
  if (!session) check(-ENOMEM);
  RTYPEDDATA_DATA(object) = session;
  rb_hash_foreach(last, open_mark, object);
  RB_GC_GUARD(client_id);
  return object;
}

static VALUE session_client_id(VALUE self) { return rb_utf8_str_new(session_of(self)->client_id, GYRE_LOG_CLIENT_ID); }

static VALUE session_received(VALUE self) { return ULL2NUM(session_of(self)->received); }

static VALUE session_stored(VALUE self, VALUE sink, VALUE sequence) {
  const uint64_t stored = NUM2ULL(sequence), number = sink_of(sink)->number;
  struct gyre_log_mark *const mark = gyre_log_session_mark(session_of(self), number);
  if (!mark) check(-ENOMEM);
  if (mark->stored < stored) mark->stored = stored;
  return Qnil;
}

static VALUE session_durable(VALUE self) { return ULL2NUM(gyre_log_session_durable(session_of(self))); }

/* --- decoders --- */

static void decoder_free(void *pointer) {
  gyre_log_decoder_close(pointer);
  ruby_xfree(pointer);
}

static size_t decoder_size(const void *pointer) {
  const struct gyre_log_decoder *const decoder = pointer;
  return sizeof(*decoder) + decoder->rest.capacity + decoder->lines.capacity + gyre_log_origin_size(&decoder->origin);
}

GYRE_TYPE(decoder_type, "Gyre::Log::Ingest::Decoder", NULL, decoder_free, decoder_size, RUBY_TYPED_FREE_IMMEDIATELY);

static struct gyre_log_decoder *decoder_of(VALUE decoder) { return rb_check_typeddata(decoder, &decoder_type); }

static VALUE ingest_open_decoder(VALUE self, VALUE kind, VALUE framing, VALUE session, VALUE limit, VALUE host,
                                 VALUE pid) {
  static const char *const kinds[] = {"analogger", "records", "syslog", "json"};
  static const char *const framings[] = {"auto", "octet_counting", "lines", "zero"};
  static const size_t limits[] = {8192, 1 << 20, 1 << 16, 1 << 20};
  struct gyre_log_hub *const hub = hub_of(self);
  struct gyre_log_decoder *decoder;
  const enum gyre_log_kind chosen = (enum gyre_log_kind)choose("kind of a decoder", kind, kinds, 4);
  const enum gyre_log_framing framed = (enum gyre_log_framing)choose("framing", framing, framings, 4);
  const unsigned long long process = NIL_P(pid) ? 0 : NUM2ULL(pid);
  const size_t bytes = NIL_P(limit) ? limits[chosen] : NUM2SIZET(limit);
  if (!NIL_P(host)) StringValue(host);
  struct gyre_log_session *const of = chosen == GYRE_LOG_RECORDS ? session_of(session) : NULL;
  VALUE object = TypedData_Make_Struct(class_decoder, struct gyre_log_decoder, &decoder_type, decoder);
  gyre_log_decoder_open(decoder, hub, of, chosen, framed, bytes);
  if (!NIL_P(host)) check(gyre_log_origin_set(&decoder->origin, text_of(&host), process));
  RB_GC_GUARD(host);
  RB_GC_GUARD(session);
  return object;
}

/* Returns nil, or the fault's text. */
static VALUE verdict(int result) {
  check(result);
  return result == 0 ? Qnil : rb_utf8_str_new_cstr(gyre_log_wrong_text(result));
}

static VALUE decoder_feed(VALUE self, VALUE bytes, VALUE time_ns) {
  struct gyre_log_decoder *const decoder = decoder_of(self);
  const int64_t time = NUM2LL(time_ns);
  StringValue(bytes);
  const int result = gyre_log_decoder_feed(decoder, RSTRING_PTR(bytes), (size_t)RSTRING_LEN(bytes), time);
  RB_GC_GUARD(bytes);
  return verdict(result);
}

static VALUE decoder_finish(VALUE self, VALUE time_ns) {
  return verdict(gyre_log_decoder_finish(decoder_of(self), NUM2LL(time_ns)));
}

static VALUE decoder_bytesize(VALUE self) { return SIZET2NUM(decoder_of(self)->rest.length); }

/* Removes and returns the whole JSON lines; nil if there are none. */
static VALUE decoder_take_lines(VALUE self) {
  struct gyre_log_decoder *const decoder = decoder_of(self);
  if (decoder->lines.length == 0) return Qnil;
  VALUE lines = rb_str_new(decoder->lines.bytes, (long)decoder->lines.length);
  if (gyre_log_is_waste(decoder->lines.capacity, decoder->lines.length)) gyre_log_buffer_free(&decoder->lines);
  decoder->lines.length = 0;
  return lines;
}

/* Returns how many messages were longer than the limit and therefore cut. */
static VALUE decoder_overlong(VALUE self) { return ULL2NUM(decoder_of(self)->cutter.overlong); }

static VALUE decoder_messages(VALUE self) { return ULL2NUM(decoder_of(self)->messages); }

/* --- routes --- */

/* Raises ArgumentError for another hub's sink: a route could outlive the hub that the sink uses. */
static struct gyre_log_sink *own_sink(const struct gyre_log_hub *hub, VALUE object) {
  const struct sink *const sink = rb_check_typeddata(object, &sink_type);
  if (sink->hub != hub) rb_raise(rb_eArgError, "a sink of another ingest");
  return sink->sink;
}

/* Returns a checked copy of an Array of Strings or, unless `of_sinks` is NULL, of its sinks. */
static VALUE checked_array(VALUE array, const struct gyre_log_hub *of_sinks) {
  VALUE copy = rb_ary_dup(rb_convert_type(array, T_ARRAY, "Array", "to_ary"));
  for (long i = 0; i < RARRAY_LEN(copy); i++) {
    VALUE item = RARRAY_AREF(copy, i);
    if (of_sinks)
      own_sink(of_sinks, item);
    else
      rb_ary_store(copy, i, rb_str_to_str(item));
  }
  return copy;
}

static int fill_route(struct gyre_log_route *route, VALUE service, VALUE severities, VALUE sinks) {
  const size_t wanted = NIL_P(severities) ? 0 : (size_t)RARRAY_LEN(severities), given = (size_t)RARRAY_LEN(sinks);
  route->for_all = NIL_P(service);
  route->every_severity = NIL_P(severities);
  route->severities = calloc(wanted + 1, sizeof(*route->severities));
  route->sinks = calloc(given + 1, sizeof(struct gyre_log_sink *));
  if (!route->severities || !route->sinks) return -ENOMEM;
  if (!NIL_P(service) &&
      gyre_log_buffer_append(&route->service, RSTRING_PTR(service), (size_t)RSTRING_LEN(service)) < 0)
    return -ENOMEM;
  for (size_t i = 0; i < wanted; i++) {
    VALUE severity = RARRAY_AREF(severities, (long)i);
    struct gyre_log_buffer *const buffer = &route->severities[route->severities_count++];
    if (gyre_log_buffer_append(buffer, RSTRING_PTR(severity), (size_t)RSTRING_LEN(severity)) < 0) return -ENOMEM;
  }
  for (size_t i = 0; i < given; i++) {
    struct gyre_log_sink *const sink = sink_of(RARRAY_AREF(sinks, (long)i));
    sink->references++;
    route->sinks[route->sinks_count++] = sink;
  }
  return 0;
}

static VALUE ingest_route(VALUE self, VALUE service, VALUE severities, VALUE sinks) {
  struct gyre_log_hub *const hub = hub_of(self);
  struct gyre_log_route route;
  if (!NIL_P(service)) StringValue(service);
  if (!NIL_P(severities)) severities = checked_array(severities, NULL);
  sinks = checked_array(sinks, hub);
  memset(&route, 0, sizeof(route));
  if (fill_route(&route, service, severities, sinks) < 0) {
    gyre_log_route_free(&route);
    check(-ENOMEM);
  }
  check(gyre_log_hub_route(hub, &route));
  RB_GC_GUARD(service);
  RB_GC_GUARD(severities);
  RB_GC_GUARD(sinks);
  return self;
}

static VALUE ingest_tap(int count, VALUE *arguments, VALUE self) {
  struct gyre_log_hub *const hub = hub_of(self);
  struct gyre_log_text service = {NULL, 0};
  rb_check_arity(count, 1, 2);
  struct gyre_log_sink *const sink = own_sink(hub, arguments[0]);
  const bool one = count > 1 && !NIL_P(arguments[1]);
  if (one) service = text_of(&arguments[1]);
  check(gyre_log_hub_tap(hub, sink, one ? &service : NULL));
  return self;
}

static VALUE ingest_untap(VALUE self, VALUE sink) {
  gyre_log_hub_untap(hub_of(self), sink_of(sink));
  return self;
}

/* --- messages parsed in Ruby, and messages that come without a decoder --- */

/* Delivers a message whose sender, of the address `host`, cannot pause. */
static void deliver_without_decoder(struct gyre_log_hub *hub, const struct gyre_log_message *message, VALUE host) {
  const struct gyre_log_text none = {NULL, 0}, peer = NIL_P(host) ? none : text_of(&host);
  hub->datagram.peer = (struct gyre_log_names){peer, none};
  gyre_log_origin_state(&hub->datagram, (struct gyre_log_names){message->host, message->process}, message->facility);
  hub->origin = &hub->datagram;
  hub->unstoppable = true;
  const int result = gyre_log_hub_deliver(hub, message, NULL);
  hub->unstoppable = false;
  hub->origin = NULL;
  RB_GC_GUARD(host);
  check(result);
}

/* Arguments: service, severity, message, time_ns; time_us when it was logged, or nil; host, or nil.
 * `decoder` may be NULL. */
static VALUE deliver_texts(struct gyre_log_hub *hub, struct gyre_log_decoder *decoder, int count, VALUE *arguments) {
  struct gyre_log_message message = {.present = true};
  rb_check_arity(count, 4, 6);
  for (int i = 0; i < 3; i++) StringValue(arguments[i]);
  VALUE logged = count > 4 ? arguments[4] : Qnil, host = count > 5 ? arguments[5] : Qnil;
  if (!NIL_P(host)) StringValue(host);
  const int64_t time = NUM2LL(arguments[3]);
  if ((message.has_time = !NIL_P(logged))) message.time_us = NUM2ULL(logged);
  message.service = text_of(&arguments[0]);
  message.severity = text_of(&arguments[1]);
  message.text = text_of(&arguments[2]);
  gyre_log_time_at(&hub->time, time);
  if (decoder)
    check(gyre_log_decoder_deliver(decoder, &message));
  else
    deliver_without_decoder(hub, &message, host);
  return Qnil;
}

static VALUE decoder_deliver(int count, VALUE *arguments, VALUE self) {
  struct gyre_log_decoder *const decoder = decoder_of(self);
  return deliver_texts(decoder->hub, decoder, count, arguments);
}

static VALUE ingest_log(int count, VALUE *arguments, VALUE self) {
  return deliver_texts(hub_of(self), NULL, count, arguments);
}

/* `host`: the sender's address, or nil. */
static VALUE ingest_syslog_datagram(VALUE self, VALUE bytes, VALUE time_ns, VALUE host) {
  struct gyre_log_hub *const hub = hub_of(self);
  const int64_t time = NUM2LL(time_ns);
  struct gyre_log_message message = {.present = false};
  if (!NIL_P(host)) StringValue(host);
  const struct gyre_log_text text = text_of(&bytes);
  gyre_log_time_at(&hub->time, time);
  if (gyre_log_syslog_parse(text.bytes, text.length, &hub->scratch, &message) < 0) check(-ENOMEM);
  if (message.present) deliver_without_decoder(hub, &message, host);
  RB_GC_GUARD(bytes);
  return Qnil;
}

/* --- counts --- */

static VALUE ingest_bytesize(VALUE self) { return SIZET2NUM(hub_of(self)->bytes); }

static VALUE ingest_incomplete(VALUE self) { return SIZET2NUM(hub_of(self)->incomplete); }

static VALUE ingest_messages(VALUE self) { return ULL2NUM(hub_of(self)->messages); }

static VALUE ingest_filtered(VALUE self) { return ULL2NUM(hub_of(self)->filtered); }

/* True if, since the last call, a decoder's message has come while a sink was full. */
static VALUE ingest_is_crowded(VALUE self) {
  struct gyre_log_hub *const hub = hub_of(self);
  const bool crowded = hub->crowded;
  hub->crowded = false;
  return boolean(crowded);
}

static VALUE ingest_services(VALUE self) {
  const struct gyre_log_hub *const hub = hub_of(self);
  VALUE services = rb_hash_new();
  for (size_t i = 0; i < hub->counters_count; i++) {
    const struct gyre_log_counter *const counter = &hub->counters[i];
    if (counter->count == 0) continue;
    VALUE name = rb_utf8_str_new(counter->service.bytes, (long)counter->service.length);
    rb_hash_aset(services, name, ULL2NUM(counter->count));
  }
  return services;
}

/* Used for entries of journals and spills (lib/gyre/log/output/file.rb, spill.rb). */
static VALUE ingest_crc32(VALUE self, VALUE bytes) {
  const struct gyre_log_text text = text_of(&bytes);
  const uint32_t crc = gyre_log_crc32(0, text.bytes, text.length);
  RB_GC_GUARD(bytes);
  return UINT2NUM(crc);
}

void gyre_init_log_ingest(void) {
  VALUE log = rb_define_module_under(gyre_mGyre, "Log");
  VALUE class = gyre_class(log, "Ingest", ingest_allocate);
  gyre_log_crc32_setup();
  rb_define_singleton_method(class, "crc32", ingest_crc32, 1);
  rb_define_private_method(class, "setup", ingest_setup, 1);
  rb_define_private_method(class, "open_sink", ingest_open_sink, 8);
  rb_define_private_method(class, "open_session", ingest_open_session, 2);
  rb_define_private_method(class, "open_decoder", ingest_open_decoder, 6);
  rb_define_private_method(class, "syslog_datagram", ingest_syslog_datagram, 3);
  rb_define_method(class, "route", ingest_route, 3);
  rb_define_method(class, "tap", ingest_tap, -1);
  rb_define_method(class, "untap", ingest_untap, 1);
  rb_define_method(class, "log", ingest_log, -1);
  rb_define_method(class, "crowded?", ingest_is_crowded, 0);
  rb_define_method(class, "bytesize", ingest_bytesize, 0);
  rb_define_method(class, "incomplete", ingest_incomplete, 0);
  rb_define_method(class, "messages", ingest_messages, 0);
  rb_define_method(class, "filtered", ingest_filtered, 0);
  rb_define_method(class, "services", ingest_services, 0);
  class_sink = gyre_class(class, "Sink", NULL);
  rb_define_method(class_sink, "take", sink_take, -1);
  rb_define_method(class_sink, "bytesize", sink_bytesize, 0);
  rb_define_method(class_sink, "lines", sink_lines, 0);
  rb_define_method(class_sink, "dropped", sink_dropped, 0);
  rb_define_method(class_sink, "full?", sink_is_full, 0);
  rb_define_method(class_sink, "blocked?", sink_is_blocked, 0);
  rb_define_method(class_sink, "room?", sink_has_room, 0);
  rb_define_method(class_sink, "hit?", sink_was_hit, 0);
  rb_define_method(class_sink, "written", sink_written, 0);
  class_session = gyre_class(class, "Session", NULL);
  rb_define_method(class_session, "client_id", session_client_id, 0);
  rb_define_method(class_session, "received", session_received, 0);
  rb_define_method(class_session, "stored", session_stored, 2);
  rb_define_method(class_session, "durable", session_durable, 0);
  rb_define_method(class_session, "refused?", session_was_refused, 0);
  class_decoder = gyre_class(class, "Decoder", NULL);
  rb_define_method(class_decoder, "feed", decoder_feed, 2);
  rb_define_method(class_decoder, "finish", decoder_finish, 1);
  rb_define_method(class_decoder, "deliver", decoder_deliver, -1);
  rb_define_method(class_decoder, "bytesize", decoder_bytesize, 0);
  rb_define_method(class_decoder, "take_lines", decoder_take_lines, 0);
  rb_define_method(class_decoder, "messages", decoder_messages, 0);
  rb_define_method(class_decoder, "overlong", decoder_overlong, 0);
}
