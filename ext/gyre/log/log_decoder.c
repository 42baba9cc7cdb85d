/* Decodes a connection's bytes (log_hub.h). Cuts whole messages in place; copies only incomplete
 * messages and JSON lines. */
#include "log/log_hub.h"

void gyre_log_decoder_open(struct gyre_log_decoder *decoder, struct gyre_log_hub *hub, struct gyre_log_session *session,
                           enum gyre_log_kind kind, enum gyre_log_framing framing, size_t limit) {
  memset(decoder, 0, sizeof(*decoder));
  decoder->hub = hub;
  decoder->session = session;
  decoder->cutter.kind = kind;
  decoder->cutter.framing = kind == GYRE_LOG_JSON_LINES ? GYRE_LOG_LINES : framing;
  decoder->cutter.limit = limit;
  decoder->cutter.scratch = &hub->scratch;
  hub->references++;
  if (session) session->references++;
}

/* Until `leave`, delivered messages have the decoder's origin. */
static struct gyre_log_hub *enter(struct gyre_log_decoder *decoder) {
  if (decoder->origin.names.length > 0 || decoder->cutter.kind == GYRE_LOG_SYSLOG)
    decoder->hub->origin = &decoder->origin;
  return decoder->hub;
}

static int leave(struct gyre_log_decoder *decoder, int result) {
  decoder->hub->origin = NULL;
  return result;
}

/* Drops the first `length` bytes. */
static void drop_rest(struct gyre_log_decoder *decoder, size_t length) {
  struct gyre_log_buffer *const rest = &decoder->rest;
  decoder->hub->bytes -= length;
  decoder->hub->incomplete -= length;
  if (length == rest->length) return gyre_log_buffer_free(rest);
  rest->length -= length;
  memmove(rest->bytes, rest->bytes + length, rest->length);
}

void gyre_log_decoder_close(struct gyre_log_decoder *decoder) {
  if (!decoder->hub) return;
  drop_rest(decoder, decoder->rest.length);
  gyre_log_buffer_free(&decoder->lines);
  gyre_log_origin_free(&decoder->origin);
  gyre_log_session_release(decoder->session);
  gyre_log_hub_release(decoder->hub);
  decoder->hub = NULL;
}

static int keep(struct gyre_log_decoder *decoder, const char *bytes, size_t length) {
  if (gyre_log_buffer_append(&decoder->rest, bytes, length) < 0) return -ENOMEM;
  decoder->hub->bytes += length;
  decoder->hub->incomplete += length;
  return 0;
}

static int fail(struct gyre_log_decoder *decoder, long wrong) {
  if (wrong == GYRE_LOG_NO_MEMORY) return -ENOMEM;
  drop_rest(decoder, decoder->rest.length);
  return decoder->wrong = (int)-wrong;
}

static int collect(struct gyre_log_decoder *decoder, struct gyre_log_text line) {
  if (gyre_log_buffer_reserve(&decoder->lines, line.length + 1) < 0) return -ENOMEM;
  gyre_log_buffer_put(&decoder->lines, line.bytes, line.length);
  gyre_log_buffer_put(&decoder->lines, "\n", 1);
  return 0;
}

int gyre_log_decoder_deliver(struct gyre_log_decoder *decoder, const struct gyre_log_message *message) {
  return leave(decoder, gyre_log_hub_deliver(enter(decoder), message, decoder->session));
}

static int deliver(struct gyre_log_decoder *decoder, const struct gyre_log_message *message) {
  if (!message->present) return 0;
  if (decoder->session && !gyre_log_session_may(decoder->session, message->sequence))
    return fail(decoder, -GYRE_LOG_SEQUENCE_JUMP);
  decoder->messages++;
  if (decoder->cutter.kind == GYRE_LOG_JSON_LINES) return collect(decoder, message->text);
  if (decoder->cutter.kind == GYRE_LOG_SYSLOG)
    gyre_log_origin_state(&decoder->origin, (struct gyre_log_names){message->host, message->process},
                          message->facility);
  const int result = gyre_log_hub_deliver(decoder->hub, message, decoder->session);
  return result == -EAGAIN ? fail(decoder, -GYRE_LOG_NO_ROOM) : result;
}

/* Returns how many new bytes belong to the incomplete message. */
static size_t missing(const struct gyre_log_decoder *decoder, const char *bytes, size_t length) {
  if (decoder->cutter.wanted == 0) {
    const char *const end = gyre_log_line_end(&decoder->cutter, bytes, length);
    return end ? (size_t)(end - bytes) + 1 : length;
  }
  const size_t more = decoder->cutter.wanted - decoder->rest.length;
  return more < length ? more : length;
}

/* Completes and delivers the incomplete message; moves `*bytes` behind it. Keeps bytes behind the
 * message's end for the next message. Returns as feed. */
static int complete(struct gyre_log_decoder *decoder, const char **bytes, size_t *length) {
  struct gyre_log_message message;
  while (decoder->rest.length > 0) {
    const long taken = gyre_log_cut(&decoder->cutter, decoder->rest.bytes, decoder->rest.length, &message);
    if (taken < 0) return fail(decoder, taken);
    if (taken == 0) {
      if (*length == 0) return 0;
      const size_t more = missing(decoder, *bytes, *length);
      if (keep(decoder, *bytes, more) < 0) return -ENOMEM;
      *bytes += more;
      *length -= more;
      continue;
    }
    const int result = deliver(decoder, &message);
    drop_rest(decoder, result == 0 ? (size_t)taken : decoder->rest.length);
    if (result != 0) return result;
  }
  return 0;
}

static int feed(struct gyre_log_decoder *decoder, const char *bytes, size_t length) {
  struct gyre_log_message message;
  const int result = complete(decoder, &bytes, &length);
  if (result != 0) return result;
  while (length > 0) {
    const long taken = gyre_log_cut(&decoder->cutter, bytes, length, &message);
    if (taken < 0) return fail(decoder, taken);
    if (taken == 0) return keep(decoder, bytes, length);
    const int delivered = deliver(decoder, &message);
    if (delivered != 0) return delivered;
    bytes += taken;
    length -= (size_t)taken;
  }
  return 0;
}

int gyre_log_decoder_feed(struct gyre_log_decoder *decoder, const char *bytes, size_t length, int64_t time_ns) {
  if (decoder->wrong) return decoder->wrong;
  gyre_log_time_at(&enter(decoder)->time, time_ns);
  return leave(decoder, feed(decoder, bytes, length));
}

int gyre_log_decoder_finish(struct gyre_log_decoder *decoder, int64_t time_ns) {
  struct gyre_log_message message;
  if (decoder->wrong || decoder->rest.length == 0) return decoder->wrong;
  gyre_log_time_at(&decoder->hub->time, time_ns);
  const long wrong = gyre_log_cut_last(&decoder->cutter, decoder->rest.bytes, decoder->rest.length, &message);
  if (wrong < 0) return fail(decoder, wrong);
  enter(decoder);
  const int result = leave(decoder, deliver(decoder, &message));
  drop_rest(decoder, decoder->rest.length);
  return result;
}
