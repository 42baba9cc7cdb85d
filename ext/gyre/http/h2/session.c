/* HTTP/2's frames and streams by libnghttp2 (see h2/session.h). */
#include "http/h2/session.h"
#include "http/h2/lines.h"

#define FIRST_STREAMS 100    /* a client's maximum until SETTINGS come (RFC 9113, section 6.5.2) */
#define BYTES_FOR_TOKEN 1024 /* body bytes that earn one more control frame */
#define SECOND_NS INT64_C(1000000000)

/* --- allowances --- */

/* Spends a token. If no token is left, ends the connection. */
static void spend(struct gyre_http2_session *session, struct gyre_http2_allowance *allowance, int64_t most,
                  int64_t a_second) {
  int64_t passed_ns = session->now_ns - allowance->refilled_ns;
  int64_t regained = passed_ns > 10 * SECOND_NS ? most : passed_ns * a_second / SECOND_NS;
  if (regained > 0) {
    allowance->refilled_ns = session->now_ns;
    allowance->tokens = allowance->tokens + regained > most ? most : allowance->tokens + regained;
  }
  if (allowance->tokens > 0) {
    allowance->tokens--;
  } else {
    gyre_http2_session_terminate(session, NGHTTP2_ENHANCE_YOUR_CALM);
  }
}

static void earn(struct gyre_http2_session *session, size_t bytes) {
  session->control_frames.tokens += 1 + (int64_t)(bytes / BYTES_FOR_TOKEN);
  if (session->control_frames.tokens > session->limits->control_frames)
    session->control_frames.tokens = session->limits->control_frames;
}

static void count_reset(struct gyre_http2_session *session) {
  uint32_t most = session->limits->stream_resets;
  spend(session, &session->resets, most, most / 10 + 1);
}

/* Counts frames other than requests and bodies. */
static void count_control_frame(struct gyre_http2_session *session) {
  spend(session, &session->control_frames, session->limits->control_frames, session->limits->control_frames);
}

/* --- streams --- */

void gyre_http2_stream_note(struct gyre_http2_stream *stream) {
  if (gyre_list_empty(&stream->changed)) gyre_list_append(&stream->session->changed, &stream->changed);
}

static struct gyre_http2_stream *find(struct gyre_http2_session *session, int32_t id) {
  return id ? nghttp2_session_get_stream_user_data(session->nghttp2, id) : NULL;
}

static struct gyre_http2_stream *new_stream(struct gyre_http2_session *session) {
  struct gyre_http2_stream *stream = calloc(1, sizeof(*stream));
  if (!stream) return NULL;
  stream->session = session;
  stream->out.progress_ns = session->now_ns;
  gyre_list_init(&stream->changed);
  gyre_list_init(&stream->waiter.node);
  gyre_list_append(&session->streams, &stream->node);
  session->stream_count++;
  session->open_count++;
  return stream;
}

static size_t block_bytes(const struct gyre_http2_block *block) {
  return (block->text ? block->text->capacity : 0) + block->capacity * sizeof(struct gyre_http_field);
}

/* Updates the budgets of input and output. */
static void count_bytes(struct gyre_http2_stream *stream) {
  struct gyre_http_capacity *capacity = stream->session->capacity;
  size_t input = (stream->in.bytes ? stream->in.bytes->capacity : 0) + block_bytes(&stream->trailers);
  gyre_http_budget_hold(&capacity->input, &stream->in.counted, input);
  gyre_http_budget_hold(&capacity->output, &stream->out.counted, stream->out.bytes ? stream->out.bytes->capacity : 0);
}

static void free_stream(struct gyre_http2_stream *stream) {
  gyre_list_remove(&stream->node);
  gyre_list_remove(&stream->changed);
  gyre_admission_withdraw(&stream->session->capacity->admission, &stream->waiter);
  gyre_http2_stream_uncount_head(stream);
  gyre_http2_stream_await(stream, false);
  stream->session->stream_count--;
  gyre_http2_block_free(&stream->block);
  gyre_http2_block_free(&stream->trailers);
  gyre_bytes_free(&stream->in.bytes);
  gyre_bytes_free(&stream->out.bytes);
  count_bytes(stream);
  gyre_bytes_free(&stream->out.trailers);
  free(stream);
}

void gyre_http2_stream_await(struct gyre_http2_stream *stream, bool awaited) {
  if (awaited != stream->awaited) stream->session->awaited_count += awaited ? 1u : -1u;
  stream->awaited = awaited;
}

static void consume(struct gyre_http2_stream *stream, size_t length) {
  size_t granted = stream->in.granted < length ? stream->in.granted : length;
  stream->in.granted -= (uint32_t)granted;
  if (!stream->closed) (void)nghttp2_session_consume_stream(stream->session->nghttp2, stream->id, length);
  if (length > granted) (void)nghttp2_session_consume_connection(stream->session->nghttp2, length - granted);
}

/* Returns bytes to the connection's window at once, so that a slow reader does not stop other
 * streams. A server does so for streams without a handler and for tunnels; a client does so within
 * its input budget. The stream's window and the budget still limit these bytes. */
static void grant(struct gyre_http2_stream *stream, size_t length) {
  const struct gyre_http2_session *session = stream->session;
  if (session->client ? gyre_http_budget_is_over(&session->capacity->input) : stream->owner && !stream->tunnel) return;
  (void)nghttp2_session_consume_connection(stream->session->nghttp2, length);
  stream->in.granted += (uint32_t)length;
}

static void drop_input(struct gyre_http2_stream *stream) {
  size_t held = gyre_bytes_held(stream->in.bytes);
  gyre_bytes_free(&stream->in.bytes);
  gyre_http2_block_free(&stream->trailers);
  count_bytes(stream);
  if (held) consume(stream, held);
}

void gyre_http2_stream_uncount_head(struct gyre_http2_stream *stream) {
  gyre_http_budget_hold(&stream->session->capacity->heads, &stream->counted, 0);
}

size_t gyre_http2_stream_head_bytes(const struct gyre_http2_stream *stream) {
  size_t bytes = block_bytes(&stream->block);
  return bytes ? sizeof(*stream) + bytes : 0;
}

bool gyre_http2_stream_count_head(struct gyre_http2_stream *stream) {
  struct gyre_http_capacity *capacity = stream->session->capacity;
  size_t bytes = gyre_http2_stream_head_bytes(stream);
  gyre_http_budget_hold(&capacity->heads, &stream->counted, bytes);
  return !bytes || !gyre_http_budget_is_over(&capacity->heads);
}

struct gyre_http2_stream *gyre_http2_session_partial(const struct gyre_http2_session *session) {
  if (!session->head_since_ns || gyre_list_empty(&session->streams)) return NULL;
  struct gyre_http2_stream *stream = GYRE_CONTAINER(session->streams.previous, struct gyre_http2_stream, node);
  return stream->headed || stream->closed ? NULL : stream;
}

void gyre_http2_stream_drop_head(struct gyre_http2_stream *stream) {
  gyre_http2_stream_uncount_head(stream);
  gyre_http2_block_free(&stream->block);
}

void gyre_http2_stream_taken(struct gyre_http2_stream *stream, size_t length) {
  gyre_bytes_consume(&stream->in.bytes, length);
  count_bytes(stream);
  consume(stream, length);
}

/* --- what libnghttp2 reports --- */

/* Measures the windows before SETTINGS, for check_windows. A window above 2^31-1 must end the
 * connection (RFC 9113, section 6.9.2), but libnghttp2 only resets the stream. */
static void measure_windows(struct gyre_http2_session *session) {
  int64_t initial = nghttp2_session_get_remote_settings(session->nghttp2, NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE);
  session->widest = 0;
  GYRE_EACH(const struct gyre_http2_stream, stream, &session->streams, node) {
    int64_t window = nghttp2_session_get_stream_remote_window_size(session->nghttp2, stream->id);
    if (window - initial > session->widest) session->widest = window - initial;
  }
}

static void check_windows(struct gyre_http2_session *session) {
  int64_t initial = nghttp2_session_get_remote_settings(session->nghttp2, NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE);
  if (session->widest + initial > INT32_MAX) gyre_http2_session_terminate(session, NGHTTP2_FLOW_CONTROL_ERROR);
}

/* Ends the connection for a frame of a closed or skipped stream (RFC 9113, section 5.1). libnghttp2
 * could only check this if it kept closed streams, 20 KB a connection. */
static void check_closed(struct gyre_http2_session *session, int32_t id) {
  if (id % 2 == 0 || id > session->ids.last || find(session, id)) return;
  /* Allows frames that may have been sent before a reset or GOAWAY arrived. */
  if (id <= session->ids.reset || id == session->ids.unopened) return;
  bool skipped = session->ids.last != (int64_t)session->ids.begun_count * 2 - 1;
  gyre_http2_session_terminate(session, skipped ? NGHTTP2_PROTOCOL_ERROR : NGHTTP2_STREAM_CLOSED);
}

static int on_begin_frame(nghttp2_session *nghttp2, const nghttp2_frame_hd *header, void *opaque) {
  struct gyre_http2_session *session = opaque;
  bool ends = header->flags & NGHTTP2_FLAG_END_STREAM;
  if (header->type == NGHTTP2_HEADERS) check_closed(session, header->stream_id);
  if (header->type == NGHTTP2_PRIORITY && header->stream_id == 0)
    gyre_http2_session_terminate(session, NGHTTP2_PROTOCOL_ERROR); /* RFC 9113, section 6.3 */
  if (header->type == NGHTTP2_HEADERS && header->stream_id > session->ids.last && !session->client) {
    if (session->ids.unopened > session->ids.reset) session->ids.reset = session->ids.unopened;
    session->ids.last = session->ids.unopened = header->stream_id;
    session->ids.begun_count++;
  }
  switch (header->type) {
  case NGHTTP2_HEADERS:
  case NGHTTP2_CONTINUATION: return 0; /* limited by the number of streams, and by libnghttp2 */
  case NGHTTP2_RST_STREAM: return 0;   /* counted once its stream is found */
  case NGHTTP2_DATA:
    if (header->length > 0 || ends) return 0;
    break;
  case NGHTTP2_SETTINGS: measure_windows(session); break;
  default: break;
  }
  count_control_frame(session);
  return 0;
}

static int on_begin_headers(nghttp2_session *nghttp2, const nghttp2_frame *frame, void *opaque) {
  struct gyre_http2_session *session = opaque;
  session->block_bytes = 0;
  if (frame->headers.cat != NGHTTP2_HCAT_REQUEST) return 0;
  struct gyre_http2_stream *stream = new_stream(session);
  if (!stream) return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
  if (session->ids.unopened == frame->hd.stream_id) session->ids.unopened = 0;
  stream->id = frame->hd.stream_id;
  (void)nghttp2_session_set_stream_user_data(nghttp2, stream->id, stream);
  return 0;
}

static int on_header(nghttp2_session *nghttp2, const nghttp2_frame *frame, const uint8_t *name, size_t length,
                     const uint8_t *value, size_t value_length, uint8_t flags, void *opaque) {
  struct gyre_http2_stream *stream = find(opaque, frame->hd.stream_id);
  if (!stream) return 0;
  /* Stops if the block is far above the limits (CVE-2016-6581). */
  size_t most = stream->session->limits->head.header_bytes + (size_t)stream->session->limits->head.request_line_bytes;
  stream->session->block_bytes += length + value_length;
  if (stream->session->block_bytes > 2 * most) return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
  gyre_http2_head_field(stream, name, length, value, value_length);
  return 0;
}

static int on_frame(nghttp2_session *nghttp2, const nghttp2_frame *frame, void *opaque) {
  struct gyre_http2_session *session = opaque;
  struct gyre_http2_stream *stream = find(session, frame->hd.stream_id);
  bool ends = frame->hd.flags & NGHTTP2_FLAG_END_STREAM;
  switch (frame->hd.type) {
  case NGHTTP2_SETTINGS:
    session->settled = true;
    check_windows(session);
    break;
  case NGHTTP2_HEADERS:
    if (!stream) break;
    if (stream->headed) {
      stream->in.ended |= ends;
      count_bytes(stream);
    } else if (session->client) {
      gyre_http2_head_conclude_response(stream, ends);
      if (stream->head.status) gyre_http2_stream_reset(stream, NGHTTP2_CANCEL);
    } else {
      gyre_http2_head_conclude(stream, ends);
    }
    gyre_http2_stream_note(stream);
    break;
  case NGHTTP2_DATA:
    if (!ends && frame->hd.length > 0 && frame->hd.length == frame->data.padlen) count_control_frame(session);
    if (!stream || !ends) break;
    stream->in.ended = true;
    gyre_http2_stream_note(stream);
    break;
  case NGHTTP2_RST_STREAM:
    if (stream) stream->departed = stream->peer_reset = true;
    if (!stream || !session->client) count_reset(session);
    break;
  case NGHTTP2_GOAWAY:
    session->left = true;
    session->left_error = frame->goaway.error_code;
    break;
  default: break;
  }
  return 0;
}

static int on_data(nghttp2_session *nghttp2, uint8_t flags, int32_t id, const uint8_t *bytes, size_t length,
                   void *opaque) {
  struct gyre_http2_session *session = opaque;
  struct gyre_http2_stream *stream = find(session, id);
  earn(session, length);
  if (!stream || stream->in.discards) {
    (void)nghttp2_session_consume(nghttp2, id, length);
  } else if (gyre_bytes_append(&stream->in.bytes, bytes, length) < 0) {
    return NGHTTP2_ERR_CALLBACK_FAILURE;
  } else {
    stream->in.came_ns = session->now_ns;
    grant(stream, length);
    count_bytes(stream);
    gyre_http2_stream_note(stream);
  }
  return 0;
}

static int on_close(nghttp2_session *nghttp2, int32_t id, uint32_t error, void *opaque) {
  struct gyre_http2_session *session = opaque;
  struct gyre_http2_stream *stream = find(session, id);
  if (!stream) return 0;
  stream->closed = true;
  stream->error = error;
  stream->out.lent_length = 0;
  session->open_count--;
  stream->departed |= error != NGHTTP2_NO_ERROR;
  gyre_bytes_free(&stream->out.bytes);
  count_bytes(stream);
  gyre_http2_stream_note(stream);
  return 0;
}

static int on_sent(nghttp2_session *nghttp2, const nghttp2_frame *frame, void *opaque) {
  struct gyre_http2_session *session = opaque;
  struct gyre_http2_stream *stream = find(session, frame->hd.stream_id);
  if (frame->hd.type == NGHTTP2_GOAWAY) {
    session->going |= frame->goaway.last_stream_id != INT32_MAX;
    session->failed |= frame->goaway.error_code != NGHTTP2_NO_ERROR;
  }
  if (frame->hd.type == NGHTTP2_RST_STREAM && frame->hd.stream_id > session->ids.reset)
    session->ids.reset = frame->hd.stream_id;
  if (frame->hd.type == NGHTTP2_RST_STREAM && frame->rst_stream.error_code != NGHTTP2_NO_ERROR &&
      !(stream && stream->own_reset)) {
    session->malformed++;
    count_reset(session);
  }
  if (stream && session->client && frame->hd.type == NGHTTP2_HEADERS) stream->out.headed = true;
  if (!stream || !(frame->hd.flags & NGHTTP2_FLAG_END_STREAM)) return 0;
  if (frame->hd.type != NGHTTP2_DATA && frame->hd.type != NGHTTP2_HEADERS) return 0;
  stream->out.sent = true;
  stream->out.progress_ns = session->now_ns;
  if (session->client) gyre_http2_stream_note(stream);
  /* After a response, tells the client to stop sending its request (RFC 9113, section 8.1). */
  if (!stream->owner && stream->started && !stream->in.ended) gyre_http2_stream_reset(stream, NGHTTP2_NO_ERROR);
  return 0;
}

/* --- sent messages --- */

/* If a body is lent, nothing else is queued. */
static size_t held_output(const struct gyre_http2_stream *stream) {
  return stream->out.lent_length ? stream->out.lent_length : gyre_bytes_held(stream->out.bytes);
}

static ssize_t on_output(nghttp2_session *nghttp2, int32_t id, uint8_t *bytes, size_t room, uint32_t *flags,
                         nghttp2_data_source *source, void *opaque) {
  struct gyre_http2_stream *stream = source->ptr;
  size_t held = held_output(stream);
  if (stream->out.dropped) return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE; /* never ends a cut body */
  if (!held && !stream->out.over) {
    stream->out.deferred = true;
    return NGHTTP2_ERR_DEFERRED;
  }
  *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
  if (held > room) return (ssize_t)room;
  if (!stream->out.over) return (ssize_t)held;
  *flags |= NGHTTP2_DATA_FLAG_EOF;
  if (stream->out.trailers) {
    struct gyre_http2_lines lines;
    int error = gyre_http2_lines_read(&lines, 0, stream->out.trailers->bytes, stream->out.trailers->length);
    if (error == 0 && nghttp2_submit_trailer(nghttp2, id, lines.fields, lines.count) == 0)
      *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
    gyre_http2_lines_free(&lines);
  }
  return (ssize_t)held;
}

static int on_send_data(nghttp2_session *nghttp2, nghttp2_frame *frame, const uint8_t *head, size_t length,
                        nghttp2_data_source *source, void *opaque) {
  struct gyre_http2_session *session = opaque;
  struct gyre_http2_stream *stream = source->ptr;
  if (held_output(stream) < length) return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE; /* the body was dropped: resets */
  if (session->out.room - session->out.length < length + 9) {
    session->out.full = true;
    return NGHTTP2_ERR_WOULDBLOCK;
  }
  char *place = session->out.bytes + session->out.length;
  memcpy(place, head, 9);
  session->out.length += length + 9;
  if (length && stream->out.lent_length) {
    memcpy(place + 9, stream->out.lent, length);
    stream->out.lent += length;
    stream->out.lent_length -= length;
  } else if (length) {
    memcpy(place + 9, stream->out.bytes->bytes + stream->out.bytes->offset, length);
    gyre_bytes_consume(&stream->out.bytes, length);
    count_bytes(stream);
  }
  stream->out.sent_bytes += length;
  stream->out.progress_ns = session->now_ns;
  earn(session, length);
  gyre_http2_stream_note(stream);
  return 0;
}

static void resume(struct gyre_http2_stream *stream) {
  if (!stream->out.deferred || stream->closed) return;
  stream->out.deferred = false;
  (void)nghttp2_session_resume_data(stream->session->nghttp2, stream->id);
}

static int failure(int error) { return error >= 0 ? 0 : error == NGHTTP2_ERR_NOMEM ? -ENOMEM : -EPIPE; }

int gyre_http2_stream_respond(struct gyre_http2_stream *stream, int status, const char *text, size_t length,
                              bool ends) {
  if (stream->closed) return -EPIPE;
  if (length > GYRE_HTTP2_SENT_HEAD_BYTES) return -EMSGSIZE;
  nghttp2_session *nghttp2 = stream->session->nghttp2;
  nghttp2_data_provider provider = {.source.ptr = stream, .read_callback = on_output};
  struct gyre_http2_lines lines;
  int error = gyre_http2_lines_read(&lines, status, text, length);
  if (error == 0 && status < 200) {
    error =
        failure(nghttp2_submit_headers(nghttp2, NGHTTP2_FLAG_NONE, stream->id, NULL, lines.fields, lines.count, NULL));
  } else if (error == 0) {
    error = failure(nghttp2_submit_response(nghttp2, stream->id, lines.fields, lines.count, ends ? NULL : &provider));
    if (error == 0) stream->out.headed = true;
    if (error == 0 && ends) stream->out.over = true;
  }
  gyre_http2_lines_free(&lines);
  return error;
}

struct gyre_http2_stream *gyre_http2_session_request(struct gyre_http2_session *session,
                                                     const struct gyre_http2_lines *lines, bool ends) {
  struct gyre_http2_stream *stream = new_stream(session);
  if (!stream) return NULL;
  nghttp2_data_provider provider = {.source.ptr = stream, .read_callback = on_output};
  stream->id =
      nghttp2_submit_request(session->nghttp2, NULL, lines->fields, lines->count, ends ? NULL : &provider, stream);
  stream->started = true;
  stream->out.over = ends;
  if (stream->id > 0) return stream;
  session->open_count--;
  free_stream(stream);
  return NULL;
}

void gyre_http2_stream_lend(struct gyre_http2_stream *stream, const char *bytes, size_t length) {
  stream->out.lent = bytes;
  stream->out.lent_length = length;
  stream->out.over = true;
}

void gyre_http2_stream_wrote(struct gyre_http2_stream *stream) {
  count_bytes(stream);
  resume(stream);
}

int gyre_http2_stream_write(struct gyre_http2_stream *stream, const void *bytes, size_t length) {
  if (stream->closed || stream->out.over || stream->cut) return -EPIPE;
  if (gyre_bytes_append(&stream->out.bytes, bytes, length) < 0) return -ENOMEM;
  gyre_http2_stream_wrote(stream);
  return 0;
}

int gyre_http2_stream_finish(struct gyre_http2_stream *stream, const char *text, size_t length) {
  if (stream->out.over) return 0;
  if (stream->closed) return -EPIPE;
  if (length > GYRE_HTTP2_SENT_HEAD_BYTES) return -EMSGSIZE;
  if (length && gyre_bytes_append(&stream->out.trailers, text, length) < 0) return -ENOMEM;
  stream->out.over = true;
  resume(stream);
  return 0;
}

void gyre_http2_stream_reset(struct gyre_http2_stream *stream, uint32_t error) {
  if (stream->closed) return;
  stream->own_reset = true;
  (void)nghttp2_submit_rst_stream(stream->session->nghttp2, NGHTTP2_FLAG_NONE, stream->id, error);
}

void gyre_http2_stream_discard(struct gyre_http2_stream *stream) {
  stream->in.discards = true;
  drop_input(stream);
}

void gyre_http2_stream_refuse(struct gyre_http2_stream *stream) {
  gyre_http2_stream_discard(stream);
  gyre_http2_stream_drop_head(stream);
  if (!stream->closed)
    (void)nghttp2_submit_rst_stream(stream->session->nghttp2, NGHTTP2_FLAG_NONE, stream->id, NGHTTP2_REFUSED_STREAM);
}

void gyre_http2_stream_cut(struct gyre_http2_stream *stream) {
  if (stream->closed || stream->out.over || stream->cut) return;
  stream->cut = stream->own_reset = true;
  if (stream->out.headed) {
    stream->session->cut_count++;
    resume(stream);
  } else {
    gyre_http2_stream_reset(stream, NGHTTP2_INTERNAL_ERROR);
  }
}

void gyre_http2_stream_release(struct gyre_http2_stream *stream) {
  stream->owner = NULL;
  gyre_http2_stream_discard(stream);
  gyre_http2_stream_drop_head(stream);
  if (stream->closed) {
    free_stream(stream);
    return;
  }
  if (stream->session->client) {
    stream->out.lent_length = 0;
    stream->out.dropped = true;
    gyre_http2_stream_reset(stream, NGHTTP2_CANCEL);
    return;
  }
  if (!stream->out.over) gyre_http2_stream_cut(stream);
  if (stream->out.sent && !stream->in.ended) gyre_http2_stream_reset(stream, NGHTTP2_NO_ERROR);
}

/* --- sessions --- */

static nghttp2_session_callbacks *make_callbacks(void) {
  nghttp2_session_callbacks *callbacks;
  if (nghttp2_session_callbacks_new(&callbacks)) return NULL;
  nghttp2_session_callbacks_set_on_begin_frame_callback(callbacks, on_begin_frame);
  nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
  nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
  nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
  nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
  nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
  nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_sent);
  nghttp2_session_callbacks_set_send_data_callback(callbacks, on_send_data);
  return callbacks;
}

static nghttp2_option *make_options(const struct gyre_http2_limits *limits) {
  nghttp2_option *options;
  if (nghttp2_option_new(&options)) return NULL;
  nghttp2_option_set_no_auto_window_update(options, 1);
  /* Otherwise libnghttp2 drops a head of more than 64 KB and leaves its stream open. */
  nghttp2_option_set_max_send_header_block_length(options, 2 * GYRE_HTTP2_SENT_HEAD_BYTES);
  nghttp2_option_set_no_closed_streams(options, 1); /* reduces a used session from 53 KB to 31 KB */
  nghttp2_option_set_builtin_recv_extension_type(options, NGHTTP2_PRIORITY_UPDATE);
#ifdef GYRE_HAVE_NGHTTP2_RESET_RATE
  /* `spend` acts earlier, with ENHANCE_YOUR_CALM. */
  nghttp2_option_set_stream_reset_rate_limit(options, limits->stream_resets * UINT64_C(2),
                                             limits->stream_resets + UINT64_C(1));
#endif
  return options;
}

static int submit_settings(struct gyre_http2_session *session) {
  const struct gyre_http2_limits *limits = session->limits;
  uint32_t shown = session->client ? NGHTTP2_SETTINGS_ENABLE_PUSH : NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS;
  uint32_t list = limits->head.header_bytes + limits->head.request_line_bytes + 32u * limits->head.header_count;
  nghttp2_settings_entry entries[] = {
      {shown, session->client ? 0 : limits->streams},
      {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, limits->stream_window_bytes},
      {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, list},
      {NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1}, /* RFC 9218 instead */
      {NGHTTP2_SETTINGS_ENABLE_CONNECT_PROTOCOL, 1},
  };
  size_t count = sizeof(entries) / sizeof(entries[0]) - !limits->extended_connect;
  int error = nghttp2_submit_settings(session->nghttp2, NGHTTP2_FLAG_NONE, entries, count);
  if (error == 0)
    error = nghttp2_session_set_local_window_size(session->nghttp2, NGHTTP2_FLAG_NONE, 0,
                                                  (int32_t)limits->connection_window_bytes);
  return error;
}

int gyre_http2_session_init(struct gyre_http2_session *session, const struct gyre_http2_limits *limits,
                            struct gyre_http_capacity *capacity, bool client, int64_t now_ns) {
  *session = (struct gyre_http2_session){.limits = limits,
                                         .capacity = capacity,
                                         .now_ns = now_ns,
                                         .client = client,
                                         .frame.left = client ? 0 : GYRE_HTTP2_PREFACE_BYTES,
                                         .ids.served = INT32_MAX};
  gyre_list_init(&session->streams);
  gyre_list_init(&session->changed);
  session->resets = (struct gyre_http2_allowance){limits->stream_resets, now_ns};
  session->control_frames = (struct gyre_http2_allowance){limits->control_frames, now_ns};
  nghttp2_session_callbacks *callbacks = make_callbacks();
  nghttp2_option *options = callbacks ? make_options(limits) : NULL;
  int error = !options ? -1
              : client ? nghttp2_session_client_new2(&session->nghttp2, callbacks, session, options)
                       : nghttp2_session_server_new2(&session->nghttp2, callbacks, session, options);
  if (options) nghttp2_option_del(options);
  if (callbacks) nghttp2_session_callbacks_del(callbacks);
  if (error) return -ENOMEM;
  if (submit_settings(session) == 0) return 0;
  nghttp2_session_del(session->nghttp2);
  return -ENOMEM;
}

uint32_t gyre_http2_session_streams_limit(const struct gyre_http2_session *session) {
  uint32_t limit = nghttp2_session_get_remote_settings(session->nghttp2, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);
  if (!session->settled && limit > FIRST_STREAMS) limit = FIRST_STREAMS;
  return limit < session->limits->streams ? limit : session->limits->streams;
}

bool gyre_http2_session_is_narrow(const struct gyre_http2_session *session) {
  return nghttp2_session_get_local_window_size(session->nghttp2) < (int32_t)session->limits->stream_window_bytes;
}

void gyre_http2_session_ping(struct gyre_http2_session *session) {
  (void)nghttp2_submit_ping(session->nghttp2, NGHTTP2_FLAG_NONE, NULL);
}

const char *gyre_http2_error_name(uint32_t error) { return nghttp2_http2_strerror(error); }

void gyre_http2_session_free(struct gyre_http2_session *session) {
  nghttp2_session_del(session->nghttp2);
  session->nghttp2 = NULL;
  while (!gyre_list_empty(&session->streams))
    free_stream(GYRE_CONTAINER(session->streams.next, struct gyre_http2_stream, node));
}

static void feed(struct gyre_http2_session *session, const uint8_t *bytes, size_t length) {
  ssize_t taken = session->failed ? 0 : nghttp2_session_mem_recv(session->nghttp2, bytes, length);
  if (taken >= 0) return;
  uint32_t error = taken == NGHTTP2_ERR_BAD_CLIENT_MAGIC                                 ? NGHTTP2_PROTOCOL_ERROR
                   : taken == NGHTTP2_ERR_NOMEM || taken == NGHTTP2_ERR_CALLBACK_FAILURE ? NGHTTP2_INTERNAL_ERROR
                                                                                         : NGHTTP2_ENHANCE_YOUR_CALM;
  gyre_http2_session_terminate(session, error);
}

/* Checks DATA here, because libnghttp2 does not report DATA for a closed stream. */
static void begin_frame(struct gyre_http2_session *session, const uint8_t *head) {
  session->frame.left = (uint32_t)head[0] << 16 | (uint32_t)head[1] << 8 | head[2];
  uint32_t id = ((uint32_t)head[5] << 24 | (uint32_t)head[6] << 16 | (uint32_t)head[7] << 8 | head[8]) & INT32_MAX;
  bool of_block = head[3] == NGHTTP2_HEADERS || head[3] == NGHTTP2_CONTINUATION;
  if (head[3] == NGHTTP2_DATA) check_closed(session, (int32_t)id);
  if (head[3] == NGHTTP2_HEADERS) session->head_since_ns = session->now_ns;
  session->frame.ends_block = of_block && head[4] & NGHTTP2_FLAG_END_HEADERS;
}

/* Notes a header block's end here: libnghttp2 does not report the end of a wrong block. */
static void end_frame(struct gyre_http2_session *session) {
  if (session->frame.ends_block) session->head_since_ns = 0;
  session->frame.ends_block = false;
}

/* Passes whole frame headers: libnghttp2 would count each part as a CONTINUATION frame. */
bool gyre_http2_session_receive(struct gyre_http2_session *session, const char *text, size_t length, int64_t now_ns) {
  const uint8_t *bytes = (const uint8_t *)text, *end = bytes + length;
  uint8_t *head = session->frame.head;
  session->now_ns = now_ns;
  while (bytes < end && !session->failed) {
    size_t piece = 0, more;
    if (!session->frame.left && (session->frame.head_length || (size_t)(end - bytes) < sizeof(session->frame.head))) {
      head[session->frame.head_length++] = *bytes++;
      if (session->frame.head_length < sizeof(session->frame.head)) continue;
      session->frame.head_length = 0;
      begin_frame(session, head);
      feed(session, head, sizeof(session->frame.head));
      if (!session->frame.left) end_frame(session);
      continue;
    }
    if (!session->frame.left) {
      begin_frame(session, bytes);
      piece = sizeof(session->frame.head);
    }
    more = (size_t)(end - bytes) - piece < session->frame.left ? (size_t)(end - bytes) - piece : session->frame.left;
    session->frame.left -= (uint32_t)more;
    feed(session, bytes, piece + more);
    bytes += piece + more;
    if (!session->frame.left) end_frame(session);
  }
  return !session->failed;
}

/* Called after all other output, because a reset drops the queued bytes of its stream. */
static bool reset_cut(struct gyre_http2_session *session) {
  if (!session->cut_count) return false;
  session->cut_count = 0;
  GYRE_EACH(struct gyre_http2_stream, stream, &session->streams, node) {
    if (stream->cut && !stream->closed) gyre_http2_stream_reset(stream, NGHTTP2_INTERNAL_ERROR);
  }
  return true;
}

size_t gyre_http2_session_send(struct gyre_http2_session *session, char *bytes, size_t room, int64_t now_ns) {
  session->now_ns = now_ns;
  session->out.bytes = bytes;
  session->out.length = 0;
  session->out.room = room;
  session->out.full = false;
  for (;;) {
    if (session->out.piece_length) {
      size_t length = room - session->out.length;
      if (length > session->out.piece_length) length = session->out.piece_length;
      memcpy(bytes + session->out.length, session->out.piece, length);
      session->out.length += length;
      session->out.piece += length;
      session->out.piece_length -= length;
    }
    if (session->out.full || session->out.length == room) break;
    const uint8_t *piece;
    ssize_t length = nghttp2_session_mem_send(session->nghttp2, &piece);
    if (length < 0) session->failed = session->broken = true;
    if (length == 0 && !session->out.full && reset_cut(session)) continue;
    if (length <= 0) break;
    session->out.piece = piece;
    session->out.piece_length = (size_t)length;
  }
  session->out.bytes = NULL;
  return session->out.length;
}

bool gyre_http2_session_is_over(const struct gyre_http2_session *session) {
  return !nghttp2_session_want_read(session->nghttp2) && !nghttp2_session_want_write(session->nghttp2);
}

bool gyre_http2_session_has_output(const struct gyre_http2_session *session) {
  return session->out.piece_length || nghttp2_session_want_write(session->nghttp2);
}

struct gyre_http2_stream *gyre_http2_session_changed(struct gyre_http2_session *session, bool heads) {
  GYRE_EACH(struct gyre_http2_stream, stream, &session->changed, changed) {
    if (!stream->owner && !stream->closed && stream->headed && !stream->started && !heads) continue;
    gyre_list_remove(&stream->changed);
    if (stream->owner || (stream->headed && !stream->started && !stream->closed)) return stream;
    if (!stream->closed) continue;
    drop_input(stream);
    free_stream(stream);
  }
  return NULL;
}

void gyre_http2_session_warn(struct gyre_http2_session *session) {
  (void)nghttp2_submit_shutdown_notice(session->nghttp2);
}

void gyre_http2_session_go(struct gyre_http2_session *session) {
  if (session->going) return;
  session->going = true;
  /* Notes the last stream: a full socket may delay GOAWAY, and more streams may come before it. */
  session->ids.served = nghttp2_session_get_last_proc_stream_id(session->nghttp2);
  (void)nghttp2_submit_goaway(session->nghttp2, NGHTTP2_FLAG_NONE, session->ids.served, NGHTTP2_NO_ERROR, NULL, 0);
}

void gyre_http2_session_end_input(struct gyre_http2_session *session) {
  if (session->input_over) return;
  session->input_over = true;
  session->head_since_ns = 0;
  gyre_http2_session_go(session);
  GYRE_EACH(struct gyre_http2_stream, stream, &session->streams, node) {
    if (!stream->headed) gyre_http2_stream_reset(stream, NGHTTP2_CANCEL);
    if (!stream->in.ended) gyre_http2_stream_note(stream);
  }
}

void gyre_http2_session_terminate(struct gyre_http2_session *session, uint32_t error) {
  if (session->failed) return;
  session->failed = session->going = true;
  (void)nghttp2_session_terminate_session(session->nghttp2, error);
}
