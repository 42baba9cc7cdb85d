/* Collects finished lines for one output (log_hub.h). */
#include "log/log_hub.h"

#include <stdio.h>

struct gyre_log_sink *gyre_log_hub_open_sink(struct gyre_log_hub *hub, enum gyre_log_format format,
                                             struct gyre_log_text key) {
  struct gyre_log_sink *const sink = calloc(1, sizeof(*sink));
  if (!sink) return NULL;
  if (format == GYRE_LOG_REDIS && gyre_log_line_command(&sink->command, key) < 0) {
    gyre_log_buffer_free(&sink->command);
    free(sink);
    return NULL;
  }
  sink->references = 1;
  sink->total = &hub->bytes;
  sink->number = ++hub->sinks_opened;
  sink->format = format;
  sink->origin = format == GYRE_LOG_TEXT ? GYRE_LOG_STATED : (unsigned)format;
  sink->limit = sink->bound = SIZE_MAX;
  return sink;
}

static void count(struct gyre_log_sink *sink, size_t before, size_t after) {
  if (sink->limit == SIZE_MAX) *sink->total += after - before;
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

/* Writes a line; removes it again if the sink's bytes then exceed its limit. */
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

static bool is_last(const struct gyre_log_sink *sink, const struct gyre_log_text parts[GYRE_LOG_LAST_PARTS]) {
  const char *at = sink->last.bytes;
  if (!sink->has_last) return false;
  for (int i = 0; i < GYRE_LOG_LAST_PARTS; at += sink->last_lengths[i++]) {
    if (!gyre_log_same((struct gyre_log_text){at, sink->last_lengths[i]}, parts[i])) return false;
  }
  return true;
}

static int remember(struct gyre_log_sink *sink, const struct gyre_log_text parts[GYRE_LOG_LAST_PARTS],
                    unsigned fields) {
  sink->has_last = false;
  sink->last.length = 0;
  if (gyre_log_buffer_reserve(&sink->last, 1) < 0) return -ENOMEM; /* empty parts need `bytes` */
  for (int i = 0; i < GYRE_LOG_LAST_PARTS; i++) {
    if (gyre_log_buffer_append(&sink->last, parts[i].bytes, parts[i].length) < 0) return -ENOMEM;
    sink->last_lengths[i] = parts[i].length;
  }
  sink->last_fields = fields;
  sink->has_last = true;
  return 0;
}

int gyre_log_sink_finish(struct gyre_log_sink *sink) {
  char text[64];
  struct gyre_log_buffer middle = {NULL, 0, 0};
  if (sink->repeats == 0) return 0;
  const size_t *const lengths = sink->last_lengths;
  const char *const last = sink->last.bytes, *const end = last + sink->last.length;
  const int length =
      snprintf(text, sizeof(text), "Last message repeated %llu times", (unsigned long long)sink->repeats);
  int result = gyre_log_line_middle(&middle, sink->format, (struct gyre_log_text){last, lengths[0]},
                                    (struct gyre_log_text){last + lengths[0], lengths[1]});
  if (result == 0) {
    const struct gyre_log_origin_text origin = {{end - lengths[3], lengths[3]}, sink->last_fields};
    const struct gyre_log_line line = {gyre_log_text_of(&middle),
                                       {text, (size_t)length},
                                       &sink->repeat_time,
                                       sink->repeat_logged_at.known ? &sink->repeat_logged_at : NULL,
                                       origin.fields > 0 ? &origin : NULL};
    result = write_line(sink, &line);
  }
  if (result == 0) sink->repeats = 0;
  gyre_log_buffer_free(&middle);
  return result;
}

int gyre_log_sink_add(struct gyre_log_sink *sink, struct gyre_log_channel *channel,
                      const struct gyre_log_arrival *arrival) {
  struct gyre_log_buffer *const middle = &channel->middles[sink->format];
  struct gyre_log_origin_text from = {{NULL, 0}, 0};
  if (arrival->origin && sink->origin != GYRE_LOG_NO_ORIGIN &&
      gyre_log_origin_text(arrival->origin, sink->origin, &from) < 0)
    return -ENOMEM;
  const struct gyre_log_origin_text *const origin = from.fields > 0 ? &from : NULL;
  if (sink->cull) {
    const struct gyre_log_text parts[GYRE_LOG_LAST_PARTS] = {gyre_log_channel_service(channel),
                                                             gyre_log_channel_severity(channel), arrival->text,
                                                             origin ? origin->text : (struct gyre_log_text){NULL, 0}};
    if (is_last(sink, parts)) {
      sink->repeats++;
      sink->repeat_time = *arrival->time;
      sink->repeat_logged_at.known = false;
      if (arrival->logged_at) sink->repeat_logged_at = *arrival->logged_at;
      return 0;
    }
    if (gyre_log_sink_finish(sink) < 0 || remember(sink, parts, origin ? origin->fields : 0) < 0) return -ENOMEM;
  }
  if (middle->length == 0 && gyre_log_line_middle(middle, sink->format, gyre_log_channel_service(channel),
                                                  gyre_log_channel_severity(channel)) < 0) {
    middle->length = 0;
    return -ENOMEM;
  }
  const struct gyre_log_text between = gyre_log_text_of(middle);
  return write_line(sink, &(struct gyre_log_line){between, arrival->text, arrival->time, arrival->logged_at, origin});
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
