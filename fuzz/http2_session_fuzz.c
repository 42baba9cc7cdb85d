/*
 * The fuzzer of HTTP/2's frames and streams (ext/gyre/http/h2/session.h): any bytes of a client,
 * in pieces of any size, and apps that do what they like meanwhile. What must hold: what is sent
 * are whole frames with the apps' bodies in order, a head that is accepted is one, and nothing is
 * left behind. libFuzzer calls it where clang has it, else fuzz/mutate.c does. A finding aborts.
 *
 * The first byte of an input chooses its kind, the second one is the seed of what the apps do. Then
 * follow bytes as they are, or frames that stay whole when a fuzzer changes them: type, flags,
 * stream, length, and so many bytes.
 */
#include "feature.h"

#include "http/h2/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BARE 1     /* bytes as they are, not frames */
#define NO_HELLO 2 /* the input begins with its own preface */
#define SMALL 4    /* limits that are met soon */
#define STREAMS 1024
#define PIECE_MOST 700

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct gyre_http2_limits limits_of_kind[] = {
    {.head = {8192, 65536, 64},
     .trailers = {8192, 8192, 64},
     .streams = 100,
     .stream_resets = 200,
     .control_frames = 500,
     .stream_window_bytes = 65535,
     .connection_window_bytes = 65535,
     .output = 65536},
    {.head = {24, 100, 3},
     .trailers = {24, 20, 3},
     .streams = 2,
     .stream_resets = 3,
     .control_frames = 10,
     .stream_window_bytes = 10,
     .connection_window_bytes = 65535,
     .output = 100},
};

struct app {
  struct gyre_http2_stream *stream; /* NULL: it was released */
  uint32_t written, received;       /* by the app; by the client */
  bool responded, finished;
};

static struct gyre_http2_session session;
static struct app apps[STREAMS];
static int newest; /* of the apps that were begun */
static uint32_t random_state;
static int64_t now_ns;
static struct gyre_http_capacity capacity;
static struct gyre_http_statistics statistics;
static char in[1 << 17]; /* what the client gets */
static size_t in_length;
static bool greeted;

static void expect(bool condition, const char *what) {
  if (condition) return;
  fprintf(stderr, "does not hold: %s\n", what);
  abort();
}

static uint32_t draw(uint32_t below) {
  random_state = random_state * 1664525u + 1013904223u;
  return (random_state >> 8) % below;
}

static char pattern(int32_t id, uint32_t at) { return (char)(id * 31 + (int32_t)at * 7); }

/* --- a head that was accepted --- */

static bool holds_control_byte(const char *bytes, uint32_t length) {
  for (uint32_t i = 0; i < length; i++) {
    if (((unsigned char)bytes[i] < 0x20 && bytes[i] != '\t') || bytes[i] == 0x7f) return true;
  }
  return false;
}

static void check_head(const struct gyre_http2_stream *stream) {
  const struct gyre_http_head *head = &stream->head;
  const char *bytes = stream->block.text->bytes;
  uint32_t length = stream->block.text->length;
  const struct gyre_http_slice slices[] = {head->method, head->target, head->path,     head->query,
                                           head->host,   head->port,   stream->scheme, stream->protocol};
  for (size_t i = 0; i < sizeof(slices) / sizeof(slices[0]); i++) {
    expect(slices[i].length == 0 || slices[i].offset + slices[i].length <= length, "a part within the head");
    expect(!holds_control_byte(bytes + slices[i].offset, slices[i].length), "a part is visible");
  }
  expect(head->method.length > 0 && !memchr(bytes + head->method.offset, ' ', head->method.length), "a method");
  expect(head->path.length > 0, "a path");
  expect(head->target_form >= GYRE_HTTP_TARGET_AUTHORITY || bytes[head->path.offset] == '/', "a path with a slash");
  expect(!memchr(bytes + head->path.offset, '?', head->path.length), "no query in a path");
  expect(head->field_count <= limits_of_kind[0].head.header_count + 1, "a bounded number of fields");
  for (unsigned i = 0; i < head->field_count; i++) {
    const struct gyre_http_field *field = &head->fields[i];
    expect(field->name_length > 0 && field->value + field->value_length <= length, "a field within the head");
    for (unsigned at = 0; at < field->name_length; at++) {
      char byte = bytes[field->name + at];
      expect(byte > ' ' && byte != ':' && byte < 0x7f && (byte < 'A' || byte > 'Z'), "a name is a token in lower case");
    }
    expect(!holds_control_byte(bytes + field->value, field->value_length), "a value holds no control byte");
  }
}

/* --- the apps --- */

static void begin(struct gyre_http2_stream *stream) {
  struct app *app = &apps[stream->id / 2 % STREAMS];
  stream->started = true;
  if (!stream->head.status) check_head(stream);
  if (app->stream || stream->id / 2 >= STREAMS || draw(20) == 0) {
    stream->in.discards = true;
    gyre_http2_stream_refuse(stream);
    return;
  }
  *app = (struct app){.stream = stream};
  stream->owner = app;
  if (stream->id / 2 > newest) newest = stream->id / 2;
  (void)gyre_http2_stream_count_head(stream);
  if (draw(2)) gyre_http2_stream_drop_head(stream);
}

static void look_at_changes(void) {
  struct gyre_http2_stream *stream, *partial = gyre_http2_session_partial(&session);
  if (partial) (void)gyre_http2_stream_count_head(partial);
  while ((stream = gyre_http2_session_changed(&session, true))) {
    expect(stream->id > 0 && stream->id % 2 == 1, "a stream of the client's");
    if (!stream->started && !stream->closed) begin(stream);
  }
}

static void write_some(struct app *app) {
  char body[600];
  uint32_t length = draw(sizeof(body));
  for (uint32_t i = 0; i < length; i++) body[i] = pattern(app->stream->id, app->written + i);
  if (gyre_http2_stream_write(app->stream, body, length) == 0) app->written += length;
}

static void act(struct app *app) {
  static const char head[] = "content-type: text/plain\r\nconnection: close\r\nx-empty:\r\n";
  struct gyre_http2_stream *stream = app->stream;
  expect(stream->owner == app, "an owner as long as it was not released");
  uint32_t held = gyre_bytes_held(stream->in.bytes);
  switch (draw(10)) {
  case 0:
  case 1:
    if (held) gyre_http2_stream_taken(stream, 1 + draw(held));
    break;
  case 2:
    if (!app->responded) (void)gyre_http2_stream_respond(stream, 103, "link: <a>\r\n", 11, false);
    break;
  case 3:
    if (app->responded) break;
    app->responded = true;
    app->finished = draw(6) == 0;
    (void)gyre_http2_stream_respond(stream, 200, head, sizeof(head) - 1, app->finished);
    break;
  case 4:
  case 5:
    if (app->responded && !app->finished) write_some(app);
    break;
  case 6:
    if (!app->responded || app->finished) break;
    app->finished = true;
    (void)gyre_http2_stream_finish(stream, "x-sum: 1\r\n", draw(2) ? 10 : 0);
    break;
  case 7:
    if (draw(4) == 0) gyre_http2_stream_cut(stream);
    break;
  case 8:
    if (draw(8) == 0) gyre_http2_stream_reset(stream, GYRE_HTTP2_CANCEL);
    break;
  default:
    if (!app->finished && !stream->closed && draw(4)) break;
    app->stream = NULL;
    gyre_http2_stream_release(stream);
  }
}

static void act_all(void) {
  for (int i = 0; i <= newest; i++)
    if (apps[i].stream && draw(4)) act(&apps[i]);
}

/* --- what the client gets --- */

static void client_receive(void) {
  size_t at = 0;
  while (in_length - at >= 9) {
    const unsigned char *head = (unsigned char *)in + at;
    uint32_t length = (uint32_t)head[0] << 16 | (uint32_t)head[1] << 8 | head[2];
    int32_t id = (int32_t)((uint32_t)head[5] << 24 | (uint32_t)head[6] << 16 | (uint32_t)head[7] << 8 | head[8]);
    expect(length <= 16384 && head[3] <= 9 && id >= 0, "a frame of HTTP/2");
    expect(greeted || head[3] == 4, "SETTINGS come first");
    if (in_length - at < 9 + length) break;
    greeted = true;
    if (head[3] == 0) {
      struct app *app = &apps[id / 2 % STREAMS];
      for (uint32_t i = 0; i < length; i++) expect(in[at + 9 + i] == pattern(id, app->received + i), "a body in order");
      app->received += length;
    }
    at += 9 + length;
  }
  memmove(in, in + at, in_length - at);
  in_length -= at;
}

static void send_some(void) {
  for (int rounds = 0; rounds < 4; rounds++) {
    size_t room = draw(2) ? sizeof(in) - in_length : GYRE_HTTP2_SEND_ROOM + draw(100);
    size_t length = gyre_http2_session_send(&session, in + in_length, room, now_ns);
    expect(length <= room, "no more than there is room for");
    if (length == 0) break;
    in_length += length;
    client_receive();
  }
}

static void receive(const char *bytes, size_t length) {
  while (length) {
    size_t piece = draw(3) ? 1 + draw(PIECE_MOST) : 1 + draw(20);
    if (piece > length) piece = length;
    char *apart = malloc(piece); /* so that reading beyond it shows */
    if (!apart) abort();
    memcpy(apart, bytes, piece);
    bool failed = session.failed, goes_on = gyre_http2_session_receive(&session, apart, piece, now_ns);
    expect(!failed || !goes_on, "what has failed receives no more");
    free(apart);
    bytes += piece;
    length -= piece;
    now_ns += draw(1000000);
    if (draw(2)) send_some();
    look_at_changes();
    act_all();
    if (draw(200) == 0) gyre_http2_session_warn(&session);
    if (draw(400) == 0) gyre_http2_session_go(&session);
    uint32_t streams = 0;
    for (struct gyre_list *node = session.streams.next; node != &session.streams; node = node->next) streams++;
    expect(streams == session.stream_count, "streams that are counted");
  }
}

static void receive_frames(const uint8_t *bytes, size_t length) {
  char frame[9 + 255];
  while (length >= 4) {
    size_t payload = bytes[3] < length - 4 ? bytes[3] : length - 4;
    memcpy(frame, (char[]){0, 0, (char)payload, (char)bytes[0], (char)bytes[1], 0, 0, 0, (char)bytes[2]}, 9);
    memcpy(frame + 9, bytes + 4, payload);
    receive(frame, 9 + payload);
    bytes += 4 + payload;
    length -= 4 + payload;
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const char hello[] = GYRE_HTTP2_PREFACE "\0\0\0\4\0\0\0\0\0";
  if (size < 2) return 0;
  memset(apps, 0, sizeof(apps));
  newest = 0;
  in_length = 0;
  greeted = false;
  capacity = (struct gyre_http_capacity){0};
  gyre_admission_init(&capacity.admission, &statistics);
  now_ns = 1000;
  random_state = data[1];
  if (gyre_http2_session_init(&session, &limits_of_kind[data[0] & SMALL ? 1 : 0], &capacity, false, now_ns) < 0)
    abort();
  if (!(data[0] & NO_HELLO)) receive(hello, sizeof(hello) - 1);
  if (data[0] & BARE) {
    receive((const char *)data + 2, size - 2);
  } else {
    receive_frames(data + 2, size - 2);
  }
  for (uint32_t rounds = draw(20); rounds > 0; rounds--) {
    act_all();
    if (draw(2)) send_some();
    if (draw(20) == 0) gyre_http2_session_end_input(&session);
    look_at_changes();
  }
  gyre_http2_session_free(&session);
  expect(session.stream_count == 0, "no stream is left");
  expect(capacity.heads.used == 0, "no memory of heads is left counted");
  expect(capacity.input.used == 0 && capacity.output.used == 0, "nor of bodies and responses");
  return 0;
}
