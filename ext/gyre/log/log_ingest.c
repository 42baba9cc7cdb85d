/*
 * Gyre::Log::NativeIngest: the log's ingest for Ruby (lib/gyre/log/ingest.rb has the contract, lib/gyre/log/ingest/native_ingest.rb the
 * keyword arguments). All work is done by the hub (log_hub.h), which knows no Ruby; the objects hold references to its structures
 * and no other Ruby objects, so the collector has nothing to mark, and may free them in any order.
 */
#include "log/log_ingest.h"
#include "gyre.h"
#include "log/log_crc32.h"

static void ingest_free(void *pointer) { gyre_log_hub_release(pointer); }

static size_t ingest_size(const void *pointer) {
  const struct gyre_log_hub *const hub = pointer;
  if (!hub) return 0;
  return sizeof(*hub) + hub->counters_count * sizeof(*hub->counters) +
         hub->counters_table_size * sizeof(*hub->counters_table) + hub->scratch.capacity;
}

const rb_data_type_t gyre_log_ingest_type = {
    "Gyre::Log::NativeIngest", {NULL, ingest_free, ingest_size}, NULL, NULL, RUBY_TYPED_FREE_IMMEDIATELY};

struct gyre_log_hub *gyre_log_hub_of(VALUE ingest) {
  struct gyre_log_hub *const hub = rb_check_typeddata(ingest, &gyre_log_ingest_type);
  if (!hub) rb_raise(rb_eRuntimeError, "this ingest was not initialized");
  return hub;
}

int gyre_log_check(int result) {
  if (result == -ENOMEM) rb_raise(rb_eNoMemError, "failed to allocate memory for log messages");
  return result;
}

struct gyre_log_text gyre_log_text_of_string(VALUE *string) {
  StringValue(*string);
  return (struct gyre_log_text){RSTRING_PTR(*string), (size_t)RSTRING_LEN(*string)};
}

static VALUE ingest_allocate(VALUE class) { return TypedData_Wrap_Struct(class, &gyre_log_ingest_type, NULL); }

static VALUE ingest_setup(VALUE self, VALUE services_limit) {
  const size_t limit = NUM2SIZET(services_limit);
  if (RTYPEDDATA_DATA(self)) rb_raise(rb_eRuntimeError, "this ingest was initialized already");
  struct gyre_log_hub *const hub = gyre_log_hub_open(limit);
  if (!hub) gyre_log_check(-ENOMEM);
  RTYPEDDATA_DATA(self) = hub;
  return self;
}

/* --- routes --- */

/* A sink's hub must be there as long as the sink is. */
static struct gyre_log_sink *own_sink(const struct gyre_log_hub *hub, VALUE object) {
  struct gyre_log_sink *const sink = gyre_log_sink_of(object);
  if (sink->hub != hub) rb_raise(rb_eArgError, "a sink of another ingest");
  return sink;
}

/* What is asked of Ruby may raise, so it is asked first: an Array of its own that nothing else changes. Of strings, or of sinks. */
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
    struct gyre_log_sink *const sink = gyre_log_sink_of(RARRAY_AREF(sinks, (long)i));
    gyre_log_sink_retain(sink);
    route->sinks[route->sinks_count++] = sink;
  }
  return 0;
}

static VALUE ingest_route(VALUE self, VALUE service, VALUE severities, VALUE sinks) {
  struct gyre_log_hub *const hub = gyre_log_hub_of(self);
  struct gyre_log_route route;
  if (!NIL_P(service)) StringValue(service);
  if (!NIL_P(severities)) severities = checked_array(severities, NULL);
  sinks = checked_array(sinks, hub);
  memset(&route, 0, sizeof(route));
  if (fill_route(&route, service, severities, sinks) < 0) {
    gyre_log_route_free(&route);
    gyre_log_check(-ENOMEM);
  }
  gyre_log_check(gyre_log_hub_route(hub, &route));
  RB_GC_GUARD(service);
  RB_GC_GUARD(severities);
  RB_GC_GUARD(sinks);
  return self;
}

static VALUE ingest_tap(int count, VALUE *arguments, VALUE self) {
  struct gyre_log_hub *const hub = gyre_log_hub_of(self);
  struct gyre_log_text service = {NULL, 0};
  rb_check_arity(count, 1, 2);
  struct gyre_log_sink *const sink = own_sink(hub, arguments[0]);
  const bool one = count > 1 && !NIL_P(arguments[1]);
  if (one) service = gyre_log_text_of_string(&arguments[1]);
  gyre_log_check(gyre_log_hub_tap(hub, sink, one ? &service : NULL));
  return self;
}

static VALUE ingest_untap(VALUE self, VALUE sink) {
  gyre_log_hub_untap(gyre_log_hub_of(self), gyre_log_sink_of(sink));
  return self;
}

/* --- messages without a stream --- */

/* For senders that cannot be held back. Returns what the hub says. */
static int deliver_held_by_none(void *to, const struct gyre_log_message *message) {
  struct gyre_log_hub *const hub = to;
  hub->held_by_none = true;
  const int result = gyre_log_hub_deliver(hub, message, NULL);
  hub->held_by_none = false;
  return result;
}

VALUE gyre_log_message(struct gyre_log_hub *hub, VALUE texts[3], VALUE time_ns,
                       int (*deliver)(void *, const struct gyre_log_message *), void *to) {
  const int64_t time = NUM2LL(time_ns);
  VALUE service = rb_str_to_str(texts[0]), severity = rb_str_to_str(texts[1]), text = rb_str_to_str(texts[2]);
  struct gyre_log_message message = {.present = true};
  message.service = gyre_log_text_of_string(&service);
  message.severity = gyre_log_text_of_string(&severity);
  message.text = gyre_log_text_of_string(&text);
  gyre_log_time_at(&hub->time, time);
  gyre_log_check(deliver(to, &message));
  RB_GC_GUARD(service);
  RB_GC_GUARD(severity);
  RB_GC_GUARD(text);
  return Qnil;
}

static VALUE ingest_log(VALUE self, VALUE service, VALUE severity, VALUE text, VALUE time_ns) {
  struct gyre_log_hub *const hub = gyre_log_hub_of(self);
  VALUE texts[3] = {service, severity, text};
  return gyre_log_message(hub, texts, time_ns, deliver_held_by_none, hub);
}

static VALUE ingest_syslog_datagram(VALUE self, VALUE bytes, VALUE time_ns) {
  struct gyre_log_hub *const hub = gyre_log_hub_of(self);
  const int64_t time = NUM2LL(time_ns);
  struct gyre_log_message message = {.present = false};
  const struct gyre_log_text text = gyre_log_text_of_string(&bytes);
  gyre_log_time_at(&hub->time, time);
  if (gyre_log_syslog_parse(text.bytes, text.length, &hub->scratch, &message) < 0) gyre_log_check(-ENOMEM);
  if (message.present) gyre_log_check(deliver_held_by_none(hub, &message));
  RB_GC_GUARD(bytes);
  return Qnil;
}

/* --- counts --- */

static VALUE ingest_bytesize(VALUE self) { return SIZET2NUM(gyre_log_hub_of(self)->bytes); }

static VALUE ingest_incomplete(VALUE self) { return SIZET2NUM(gyre_log_hub_of(self)->incomplete); }

static VALUE ingest_messages(VALUE self) { return ULL2NUM(gyre_log_hub_of(self)->messages); }

static VALUE ingest_filtered(VALUE self) { return ULL2NUM(gyre_log_hub_of(self)->filtered); }

/* Whether a stream's message came for a sink that is full; asked once. */
static VALUE ingest_is_crowded(VALUE self) {
  struct gyre_log_hub *const hub = gyre_log_hub_of(self);
  const bool crowded = hub->crowded;
  hub->crowded = false;
  return crowded ? Qtrue : Qfalse;
}

static VALUE ingest_services(VALUE self) {
  const struct gyre_log_hub *const hub = gyre_log_hub_of(self);
  VALUE services = rb_hash_new();
  for (size_t i = 0; i < hub->counters_count; i++) {
    const struct gyre_log_counter *const counter = &hub->counters[i];
    if (counter->count == 0) continue;
    VALUE name = rb_utf8_str_new(counter->service.bytes, (long)counter->service.length);
    rb_hash_aset(services, name, ULL2NUM(counter->count));
  }
  return services;
}

/* For streams that are Ruby: their incomplete messages have grown by so many bytes. */
static VALUE ingest_keep(VALUE self, VALUE bytes) {
  struct gyre_log_hub *const hub = gyre_log_hub_of(self);
  const size_t more = (size_t)NUM2SSIZET(bytes);
  hub->bytes += more;
  hub->incomplete += more;
  return Qnil;
}

/* Of a journal's batch; see lib/gyre/log/output/checksum.rb. */
static VALUE ingest_crc32(VALUE self, VALUE bytes) {
  const struct gyre_log_text text = gyre_log_text_of_string(&bytes);
  const uint32_t crc = gyre_log_crc32(0, text.bytes, text.length);
  RB_GC_GUARD(bytes);
  return UINT2NUM(crc);
}

void gyre_init_log_ingest(void) {
  VALUE log = rb_define_module_under(gyre_mGyre, "Log");
  VALUE class = rb_define_class_under(log, "NativeIngest", rb_cObject);
  gyre_log_crc32_setup();
  rb_define_alloc_func(class, ingest_allocate);
  rb_define_singleton_method(class, "crc32", ingest_crc32, 1);
  rb_define_private_method(class, "setup", ingest_setup, 1);
  rb_define_private_method(class, "open_sink", gyre_log_open_sink, 8);
  rb_define_private_method(class, "open_session", gyre_log_open_session, 2);
  rb_define_private_method(class, "open_stream", gyre_log_open_stream, 6);
  rb_define_private_method(class, "syslog_datagram", ingest_syslog_datagram, 2);
  rb_define_method(class, "route", ingest_route, 3);
  rb_define_method(class, "tap", ingest_tap, -1);
  rb_define_method(class, "untap", ingest_untap, 1);
  rb_define_method(class, "log", ingest_log, 4);
  rb_define_method(class, "crowded?", ingest_is_crowded, 0);
  rb_define_method(class, "bytesize", ingest_bytesize, 0);
  rb_define_method(class, "incomplete", ingest_incomplete, 0);
  rb_define_method(class, "messages", ingest_messages, 0);
  rb_define_method(class, "filtered", ingest_filtered, 0);
  rb_define_method(class, "services", ingest_services, 0);
  rb_define_method(class, "keep", ingest_keep, 1);
  gyre_init_log_sink(log);
  gyre_init_log_stream(log);
  gyre_init_log_signals(log);
}
