/*
 * A connection's bytes on their way through the ingest (see log_hub.h). Whole messages are cut
 * where they are; an incomplete one is kept, and of what comes next only its own rest is copied
 * behind it.
 */
#include "log/log_hub.h"

void gyre_log_stream_open(struct gyre_log_stream *stream, struct gyre_log_hub *hub, struct gyre_log_session *session,
                          enum gyre_log_kind kind, enum gyre_log_framing framing, size_t limit) {
  memset(stream, 0, sizeof(*stream));
  stream->hub = hub;
  stream->session = session;
  stream->cutter.kind = kind;
  stream->cutter.framing = framing;
  stream->cutter.limit = limit;
  stream->cutter.scratch = &hub->scratch;
  gyre_log_hub_retain(hub);
  if (session) session->references++;
}

int gyre_log_stream_set_origin(struct gyre_log_stream *stream, struct gyre_log_text host, uint64_t pid) {
  return gyre_log_origin_set(&stream->origin, host, pid);
}

/* What is delivered from here on comes from this stream. */
static struct gyre_log_hub *enter(struct gyre_log_stream *stream) {
  if (stream->origin.bytes.length > 0) stream->hub->origin = &stream->origin;
  return stream->hub;
}

static int leave(struct gyre_log_stream *stream, int result) {
  stream->hub->origin = NULL;
  return result;
}

static void drop_rest(struct gyre_log_stream *stream) {
  stream->hub->bytes -= stream->rest.length;
  stream->hub->incomplete -= stream->rest.length;
  gyre_log_buffer_free(&stream->rest);
}

void gyre_log_stream_close(struct gyre_log_stream *stream) {
  if (!stream->hub) return;
  drop_rest(stream);
  gyre_log_buffer_free(&stream->lines);
  gyre_log_buffer_free(&stream->origin.bytes);
  gyre_log_session_release(stream->session);
  gyre_log_hub_release(stream->hub);
  stream->hub = NULL;
}

static int keep(struct gyre_log_stream *stream, const char *bytes, size_t length) {
  if (gyre_log_buffer_append(&stream->rest, bytes, length) < 0) return -ENOMEM;
  stream->hub->bytes += length;
  stream->hub->incomplete += length;
  return 0;
}

static int fail(struct gyre_log_stream *stream, long wrong) {
  if (wrong == GYRE_LOG_NO_MEMORY) return -ENOMEM;
  drop_rest(stream);
  return stream->wrong = (int)-wrong;
}

static int refuse(struct gyre_log_stream *stream, int result) {
  return result == -EAGAIN ? fail(stream, -GYRE_LOG_NO_ROOM) : result;
}

/* A line of JSON is read in Ruby. */
static int collect(struct gyre_log_stream *stream, struct gyre_log_text line) {
  if (gyre_log_buffer_reserve(&stream->lines, line.length + 1) < 0) return -ENOMEM;
  gyre_log_buffer_put(&stream->lines, line.bytes, line.length);
  gyre_log_buffer_put(&stream->lines, "\n", 1);
  return 0;
}

int gyre_log_stream_deliver(struct gyre_log_stream *stream, const struct gyre_log_message *message) {
  return leave(stream, gyre_log_hub_deliver(enter(stream), message, stream->session));
}

static int deliver(struct gyre_log_stream *stream, const struct gyre_log_message *message) {
  if (!message->present) return 0;
  if (stream->session && !gyre_log_session_may(stream->session, message->sequence))
    return fail(stream, -GYRE_LOG_SEQUENCE_JUMP);
  stream->messages++;
  if (stream->cutter.kind == GYRE_LOG_JSON_LINES) return collect(stream, message->text);
  return gyre_log_hub_deliver(stream->hub, message, stream->session);
}

/* How many of the bytes that have come belong behind the rest. */
static size_t missing(const struct gyre_log_stream *stream, const char *bytes, size_t length) {
  if (stream->cutter.wanted == 0) {
    const char *const end = gyre_log_line_end(&stream->cutter, bytes, length);
    return end ? (size_t)(end - bytes) + 1 : length;
  }
  const size_t more = stream->cutter.wanted - stream->rest.length;
  return more < length ? more : length;
}

/* Completes the rest. Returns how many bytes that took, or what is wrong. */
static int complete(struct gyre_log_stream *stream, const char **bytes, size_t *length) {
  struct gyre_log_message message;
  while (stream->rest.length > 0 && *length > 0) {
    const size_t more = missing(stream, *bytes, *length);
    if (keep(stream, *bytes, more) < 0) return -ENOMEM;
    *bytes += more;
    *length -= more;
    const long taken = gyre_log_cut(&stream->cutter, stream->rest.bytes, stream->rest.length, &message);
    if (taken < 0) return fail(stream, taken);
    if (taken == 0) continue;
    const int result = deliver(stream, &message);
    drop_rest(stream);
    if (result != 0) return refuse(stream, result);
  }
  return 0;
}

static int feed(struct gyre_log_stream *stream, const char *bytes, size_t length) {
  struct gyre_log_message message;
  const int result = complete(stream, &bytes, &length);
  if (result != 0) return result;
  while (length > 0) {
    const long taken = gyre_log_cut(&stream->cutter, bytes, length, &message);
    if (taken < 0) return fail(stream, taken);
    if (taken == 0) return keep(stream, bytes, length);
    const int delivered = deliver(stream, &message);
    if (delivered != 0) return refuse(stream, delivered);
    bytes += taken;
    length -= (size_t)taken;
  }
  return 0;
}

int gyre_log_stream_feed(struct gyre_log_stream *stream, const char *bytes, size_t length, int64_t time_ns) {
  if (stream->wrong) return stream->wrong;
  gyre_log_time_at(&enter(stream)->time, time_ns);
  return leave(stream, feed(stream, bytes, length));
}

int gyre_log_stream_finish(struct gyre_log_stream *stream, int64_t time_ns) {
  struct gyre_log_message message;
  if (stream->wrong || stream->rest.length == 0) return stream->wrong;
  gyre_log_time_at(&stream->hub->time, time_ns);
  const long wrong = gyre_log_cut_last(&stream->cutter, stream->rest.bytes, stream->rest.length, &message);
  if (wrong < 0) return fail(stream, wrong);
  enter(stream);
  const int result = leave(stream, deliver(stream, &message));
  drop_rest(stream);
  return result != 0 ? refuse(stream, result) : 0;
}
