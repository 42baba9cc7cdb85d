/*
 * Finished lines for one output, until they are taken (see log_hub.h).
 */
#include "log/log_hub.h"

#include <stdio.h>

struct gyre_log_sink *gyre_log_sink_open(struct gyre_log_hub *hub, enum gyre_log_format format,
                                         struct gyre_log_text key) {
  struct gyre_log_sink *const sink = calloc(1, sizeof(*sink));
  if (!sink) return NULL;
  if (format == GYRE_LOG_REDIS && gyre_log_line_command(&sink->command, key) < 0) {
    gyre_log_buffer_free(&sink->command);
    free(sink);
    return NULL;
  }
  sink->references = 1;
  sink->hub = hub;
  sink->number = ++hub->sinks_opened;
  sink->format = format;
  sink->origin = format != GYRE_LOG_TEXT;
  sink->limit = sink->bound = SIZE_MAX;
  return sink;
}

void gyre_log_sink_retain(struct gyre_log_sink *sink) { sink->references++; }

static void count(struct gyre_log_sink *sink, size_t before, size_t after) {
  if (sink->limit == SIZE_MAX) sink->hub->bytes += after - before;
}

void gyre_log_sink_release(struct gyre_log_sink *sink) {
  if (!sink || --sink->references > 0) return;
  count(sink, sink->bytes.length, 0);
  gyre_log_buffer_free(&sink->command);
  gyre_log_buffer_free(&sink->bytes);
  gyre_log_buffer_free(&sink->last);
  free(sink->clients);
  free(sink);
}

/* A line that does not go in leaves nothing behind. */
static int write_line(struct gyre_log_sink *sink, const struct gyre_log_line *line) {
  struct gyre_log_buffer *const bytes = &sink->bytes;
  const size_t before = bytes->length;
  int result;
  switch (sink->format) {
  case GYRE_LOG_TEXT: result = gyre_log_line_text(bytes, line, sink->raw); break;
  case GYRE_LOG_JSON: result = gyre_log_line_json(bytes, line); break;
  default: result = gyre_log_line_redis(bytes, line, gyre_log_text_of(&sink->command)); break;
  }
  if (result < 0 || bytes->length > sink->limit) {
    bytes->length = before;
    sink->dropped += result == 0;
    return result;
  }
  sink->lines++;
  count(sink, before, bytes->length);
  return 0;
}

static struct gyre_log_text last_service(const struct gyre_log_sink *sink) {
  return (struct gyre_log_text){sink->last.bytes, sink->last_service};
}

static struct gyre_log_text last_severity(const struct gyre_log_sink *sink) {
  return (struct gyre_log_text){sink->last.bytes + sink->last_service, sink->last_severity};
}

static struct gyre_log_origin_text last_origin(const struct gyre_log_sink *sink) {
  const struct gyre_log_text text = {sink->last.bytes + sink->last.length - sink->last_origin, sink->last_origin};
  return (struct gyre_log_origin_text){text, sink->last_fields};
}

static bool is_last(const struct gyre_log_sink *sink, const struct gyre_log_channel *channel, struct gyre_log_text text,
                    const struct gyre_log_origin_text *from) {
  const struct gyre_log_text origin = from ? from->text : (struct gyre_log_text){NULL, 0};
  const size_t names = sink->last_service + sink->last_severity;
  return sink->has_last && sink->last_service == channel->service_length &&
         sink->last_severity == channel->severity_length && sink->last_origin == origin.length &&
         sink->last.length - names == text.length + origin.length &&
         memcmp(sink->last.bytes, channel->names, names) == 0 &&
         (text.length == 0 || memcmp(sink->last.bytes + names, text.bytes, text.length) == 0) &&
         (origin.length == 0 || memcmp(sink->last.bytes + names + text.length, origin.bytes, origin.length) == 0);
}

static int remember(struct gyre_log_sink *sink, const struct gyre_log_channel *channel, struct gyre_log_text text,
                    const struct gyre_log_origin_text *from) {
  const struct gyre_log_origin_text origin = from ? *from : (struct gyre_log_origin_text){{NULL, 0}, 0};
  const size_t names = channel->service_length + channel->severity_length;
  sink->has_last = false;
  sink->last.length = 0;
  if (gyre_log_buffer_reserve(&sink->last, names + text.length + origin.text.length + 1) < 0) return -ENOMEM;
  gyre_log_buffer_put(&sink->last, channel->names, names);
  gyre_log_buffer_put(&sink->last, text.bytes, text.length);
  gyre_log_buffer_put(&sink->last, origin.text.bytes, origin.text.length);
  sink->last_service = channel->service_length;
  sink->last_severity = channel->severity_length;
  sink->last_origin = origin.text.length;
  sink->last_fields = origin.fields;
  sink->has_last = true;
  return 0;
}

static void repeat(struct gyre_log_sink *sink, const struct gyre_log_time *logged_at) {
  sink->repeats++;
  sink->repeat_time = sink->hub->time;
  sink->repeat_has_logged_at = logged_at != NULL;
  if (logged_at) sink->repeat_logged_at = *logged_at;
}

static int write_repeated(struct gyre_log_sink *sink) {
  char text[64];
  struct gyre_log_buffer middle = {NULL, 0, 0};
  if (sink->repeats == 0) return 0;
  const int length =
      snprintf(text, sizeof(text), "Last message repeated %llu times", (unsigned long long)sink->repeats);
  int result = gyre_log_line_middle(&middle, sink->format, last_service(sink), last_severity(sink));
  if (result == 0) {
    const struct gyre_log_origin_text origin = last_origin(sink);
    const struct gyre_log_line line = {gyre_log_text_of(&middle),
                                       {text, (size_t)length},
                                       &sink->repeat_time,
                                       sink->repeat_has_logged_at ? &sink->repeat_logged_at : NULL,
                                       origin.fields > 0 ? &origin : NULL};
    result = write_line(sink, &line);
  }
  if (result == 0) sink->repeats = 0;
  gyre_log_buffer_free(&middle);
  return result;
}

int gyre_log_sink_add(struct gyre_log_sink *sink, struct gyre_log_channel *channel, struct gyre_log_text text,
                      const struct gyre_log_time *logged_at) {
  struct gyre_log_buffer *const middle = &channel->middles[sink->format];
  const struct gyre_log_origin *const from = sink->origin ? sink->hub->origin : NULL;
  const struct gyre_log_origin_text *const origin = from ? &from->texts[sink->format] : NULL;
  if (sink->cull) {
    if (is_last(sink, channel, text, origin)) {
      repeat(sink, logged_at);
      return 0;
    }
    if (write_repeated(sink) < 0 || remember(sink, channel, text, origin) < 0) return -ENOMEM;
  }
  if (middle->length == 0) {
    const struct gyre_log_text service = {channel->names, channel->service_length};
    const struct gyre_log_text severity = {channel->names + channel->service_length, channel->severity_length};
    if (gyre_log_line_middle(middle, sink->format, service, severity) < 0) {
      middle->length = 0;
      return -ENOMEM;
    }
  }
  return write_line(sink, &(struct gyre_log_line){gyre_log_text_of(middle), text, &sink->hub->time, logged_at, origin});
}

int gyre_log_sink_note(struct gyre_log_sink *sink, const struct gyre_log_session *session, struct gyre_log_mark *mark) {
  if (mark->turn == sink->turn) {
    sink->clients[mark->client].last = mark->last;
    return 0;
  }
  if (sink->clients_count == sink->clients_capacity) {
    const size_t capacity = sink->clients_capacity ? sink->clients_capacity * 2 : 4;
    struct gyre_log_client *const clients = realloc(sink->clients, capacity * sizeof(*clients));
    if (!clients) return -ENOMEM;
    sink->clients = clients;
    sink->clients_capacity = capacity;
  }
  struct gyre_log_client *const client = &sink->clients[sink->clients_count];
  memcpy(client->id, session->client_id, GYRE_LOG_CLIENT_ID);
  client->last = mark->last;
  mark->turn = sink->turn;
  mark->client = sink->clients_count++;
  return 0;
}

int gyre_log_sink_finish(struct gyre_log_sink *sink) { return write_repeated(sink); }

void gyre_log_sink_clear(struct gyre_log_sink *sink) {
  count(sink, sink->bytes.length, 0);
  sink->pending += sink->bytes.length;
  if (gyre_log_is_waste(sink->bytes.capacity, sink->bytes.length)) gyre_log_buffer_free(&sink->bytes);
  sink->bytes.length = 0;
  sink->lines = sink->repeats = 0;
  sink->turn++;
  sink->clients_count = 0;
  sink->has_last = false;
  if (gyre_log_is_waste(sink->last.capacity, sink->last.length)) gyre_log_buffer_free(&sink->last);
}
