/*
 * See log_exercise.h. Each way of arriving is a run: `first` bytes at once, then `step` more each
 * time. What a run gives is written down as text and compared with the run of the whole.
 */
#define _GNU_SOURCE
#include "log_exercise.h"
#include "arriving.h"

#define EVERY_SPLIT_MAX 120 /* of longer input only some splits are tried */
#define TIME_NS INT64_C(1795288800123456789)
#define SINKS 6

static const struct {
  const char *name;
  enum gyre_log_format format;
  bool cull, raw, origin;
  size_t limit;
} sink_kinds[SINKS] = {
    {"text", GYRE_LOG_TEXT, false, false, false, SIZE_MAX},  {"json", GYRE_LOG_JSON, false, false, true, SIZE_MAX},
    {"redis", GYRE_LOG_REDIS, false, false, true, SIZE_MAX}, {"culled", GYRE_LOG_TEXT, true, false, true, SIZE_MAX},
    {"raw", GYRE_LOG_TEXT, false, true, true, 300},          {"tap", GYRE_LOG_JSON, true, false, true, SIZE_MAX}};
/* As in test/log/verdicts.rb: nothing that a client may send, so that all of it has to be
 * escaped. */
static const struct gyre_log_text host = {"w\"b|\n\x9b", 6};

struct setting {
  struct gyre_log_hub *hub;
  struct gyre_log_sink *sinks[SINKS];
  struct gyre_log_session *session;
  struct gyre_log_decoder decoder;
};

static void *need(void *pointer) {
  if (pointer == NULL) abort();
  return pointer;
}

static void add_route(struct setting *setting, const char *service, const char *severity, size_t from, size_t count) {
  struct gyre_log_route route = {.for_all = service == NULL, .every_severity = severity == NULL};
  route.severities = need(calloc(1, sizeof(*route.severities)));
  route.sinks = need(calloc(SINKS, sizeof(struct gyre_log_sink *)));
  if (service && gyre_log_buffer_append_text(&route.service, service) < 0) abort();
  if (severity && gyre_log_buffer_append_text(&route.severities[route.severities_count++], severity) < 0) abort();
  for (size_t i = from; i < from + count; i++) {
    setting->sinks[i]->references++;
    route.sinks[route.sinks_count++] = setting->sinks[i];
  }
  if (gyre_log_hub_route(setting->hub, &route) < 0) abort();
}

static void open_setting(struct setting *setting, const struct log_exercise_input *input) {
  const struct gyre_log_text key = {"k", 1}, web = {"web", 3};
  setting->hub = need(gyre_log_hub_open(2));
  for (size_t i = 0; i < SINKS; i++) {
    struct gyre_log_sink *const sink = need(gyre_log_hub_open_sink(setting->hub, sink_kinds[i].format, key));
    sink->cull = sink_kinds[i].cull;
    sink->raw = sink_kinds[i].raw;
    sink->origin = !sink_kinds[i].origin ? sink->origin : (unsigned)sink_kinds[i].format;
    sink->limit = sink_kinds[i].limit;
    setting->sinks[i] = sink;
  }
  add_route(setting, NULL, NULL, 0, 5);
  add_route(setting, "quiet", "warn", 3, 2);
  if (gyre_log_hub_tap(setting->hub, setting->sinks[5], &web) < 0) abort();
  setting->session = NULL;
  if (input->kind == GYRE_LOG_RECORDS) {
    setting->session = need(gyre_log_session_open("0123456789abcdef0123456789abcdef"));
    gyre_log_session_mark(setting->session, setting->sinks[1]->number)->last = 2;
  }
  gyre_log_decoder_open(&setting->decoder, setting->hub, setting->session, input->kind, input->framing, input->limit);
  if (input->kind == GYRE_LOG_SYSLOG) return;
  if (gyre_log_origin_set(&setting->decoder.origin, host, input->kind == GYRE_LOG_RECORDS ? 4711 : 0) < 0) abort();
}

/* In another order than they were opened in. */
static void close_setting(struct setting *setting) {
  gyre_log_session_release(setting->session);
  for (size_t i = 0; i < SINKS; i++) gyre_log_sink_release(setting->sinks[i]);
  setting->hub->references++;
  gyre_log_decoder_close(&setting->decoder);
  gyre_log_hub_release(setting->hub);
  gyre_log_hub_release(setting->hub);
}

static void append_wrong(struct text *text, const char *name, int wrong) {
  appendf(text, " %s=", name);
  if (wrong < 0) abort();
  if (wrong > 0) append_hex(text, gyre_log_wrong_text(wrong), strlen(gyre_log_wrong_text(wrong)));
}

static void append_sink(struct text *text, const char *name, struct gyre_log_sink *sink) {
  if (gyre_log_sink_finish(sink) < 0) abort();
  appendf(text, " %s=%llu:", name, (unsigned long long)sink->dropped);
  for (size_t i = 0; i < sink->clients_count; i++) appendf(text, "%llu", (unsigned long long)sink->clients[i].last);
  appendf(text, ":");
  append_hex(text, sink->bytes.bytes, sink->bytes.length);
  gyre_log_sink_clear(sink);
}

static void append_services(struct text *text, const struct gyre_log_hub *hub) {
  appendf(text, " services=");
  for (size_t i = 0; i < hub->counters_count; i++) {
    const struct gyre_log_counter *const counter = &hub->counters[i];
    if (counter->count == 0) continue;
    append_hex(text, counter->service.bytes, counter->service.length);
    appendf(text, ":%llu,", (unsigned long long)counter->count);
  }
}

/* The text is to be freed. */
static struct text run(const struct log_exercise_input *input, struct places *places, size_t first, size_t step) {
  struct setting setting;
  struct text text = {NULL, 0, 0};
  size_t from = 0, to = first;
  int wrong = 0;
  open_setting(&setting, input);
  for (;;) {
    wrong = gyre_log_decoder_feed(&setting.decoder, place(places, input->bytes + from, to - from), to - from, TIME_NS);
    if (wrong != 0 || to == input->length) break;
    from = to;
    to = input->length - to > step ? to + step : input->length;
  }
  appendf(&text, "rest=%zu", setting.decoder.rest.length);
  append_wrong(&text, "wrong", wrong);
  append_wrong(&text, "end", gyre_log_decoder_finish(&setting.decoder, TIME_NS));
  appendf(&text, " messages=%llu:%llu filtered=%llu received=%llu", (unsigned long long)setting.decoder.messages,
          (unsigned long long)setting.hub->messages, (unsigned long long)setting.hub->filtered,
          (unsigned long long)(setting.session ? setting.session->received : 0));
  append_services(&text, setting.hub);
  for (size_t i = 0; i < SINKS; i++) append_sink(&text, sink_kinds[i].name, setting.sinks[i]);
  appendf(&text, " left=%zu", setting.hub->bytes);
  close_setting(&setting);
  return text;
}

/* The two runs give the same, or the difference is appended to the whole's text. */
static bool agrees(struct text *whole, struct text other, size_t first) {
  const bool same = strcmp(whole->bytes, other.bytes) == 0;
  if (!same) {
    appendf(whole, " inconsistent=%zu other=[", first);
    append(whole, other.bytes, other.length);
    append(whole, "]", 1);
  }
  free(other.bytes);
  return same;
}

char *log_exercise(const struct log_exercise_input *input) {
  struct places places = {{guarded_open(input->length), guarded_open(input->length)}, 0, 0};
  const size_t length = input->length, stride = length <= EVERY_SPLIT_MAX ? 1 : length / 20;
  struct text whole = run(input, &places, length, 1);
  if (agrees(&whole, run(input, &places, 0, 1), 0)) {
    for (size_t at = 1; at < length && agrees(&whole, run(input, &places, at, length), at);) at += stride;
  }
  guarded_close(&places.memory[0]);
  guarded_close(&places.memory[1]);
  return whole.bytes;
}
