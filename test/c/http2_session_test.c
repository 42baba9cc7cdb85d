/*
 * Frames and streams of HTTP/2 (ext/gyre/http/h2/session.h) on a random walk: a client that
 * sends frames of all kinds, whole, cut and wrong, and apps that do whatever an app may do at any
 * time. Bodies have to arrive in order in both directions, what is sent has to be frames, and
 * nothing may be left behind or used after its end (with sanitizers). Arguments: how many walks,
 * and the number of the first.
 */
#define _GNU_SOURCE /* RTLD_NEXT */
#include "feature.h"

#include "check.h"

#ifdef GYRE_HAVE_NGHTTP2

#include "http/h2/session.h"

#include <dlfcn.h>
#include <errno.h>
#include <nghttp2/nghttp2.h>
#include <stdlib.h>
#include <string.h>

#define STREAMS 256
#define STEPS 300

static const struct gyre_http2_limits limits = {
    .head = {.request_line_bytes = 1000, .header_bytes = 4000, .header_count = 20},
    .trailers = {.header_bytes = 500, .header_count = 20},
    .streams = 10,
    .stream_resets = 200,
    .control_frames = 400,
    .stream_window_bytes = 5000,
    .connection_window_bytes = 20000,
    .output = 4000,
};

/* What one side knows of a stream. */
struct app {
  struct gyre_http2_stream *stream; /* NULL: it was released */
  uint32_t written, taken;
  bool responded, finished;
};

static struct gyre_http2_session session;
static struct gyre_http_capacity capacity;
static struct app apps[STREAMS];
static uint32_t sent[STREAMS], received[STREAMS]; /* bytes of bodies, by the client */
static bool sending[STREAMS];                     /* the client has not ended its request */
static int64_t room[STREAMS], room_of_all;        /* what the server has allowed */
static bool sound;                                /* the client keeps to the protocol */
static int32_t next_id;
static int64_t now_ns;
static uint64_t random_state;

static uint32_t draw(uint32_t below) {
  random_state = random_state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(random_state >> 33) % below;
}

static char pattern(int32_t id, uint32_t at) { return (char)(id * 31 + at * 7); }

/* --- the client --- */

static char out[1 << 17];
static size_t out_length;

static void put(const void *bytes, size_t length) {
  if (out_length + length > sizeof(out)) return;
  memcpy(out + out_length, bytes, length);
  out_length += length;
}

static void put_frame(unsigned type, unsigned flags, int32_t id, const void *payload, uint32_t length) {
  const unsigned char head[9] = {(unsigned char)(length >> 16), (unsigned char)(length >> 8), (unsigned char)length,
                                 (unsigned char)type,           (unsigned char)flags,         (unsigned char)(id >> 24),
                                 (unsigned char)(id >> 16),     (unsigned char)(id >> 8),     (unsigned char)id};
  put(head, sizeof(head));
  put(payload, length);
}

static void put_number(unsigned type, unsigned flags, int32_t id, uint32_t number) {
  const unsigned char payload[4] = {(unsigned char)(number >> 24), (unsigned char)(number >> 16),
                                    (unsigned char)(number >> 8), (unsigned char)number};
  put_frame(type, flags, id, payload, sizeof(payload));
}

static size_t literal(char *block, const char *name, const char *value, size_t length) {
  size_t name_length = strlen(name);
  block[0] = 0;
  block[1] = (char)name_length;
  memcpy(block + 2, name, name_length);
  block[2 + name_length] = (char)length; /* below 127 */
  memcpy(block + 3 + name_length, value, length);
  return 3 + name_length + length;
}

static size_t request(char *block) {
  static const char *const odd[][2] = {{"connection", "close"}, {"X", "y"},  {":path", "/"},        {"te", "gzip"},
                                       {"content-length", "5"}, {"x", "\n"}, {"host", "other.test"}};
  static const char text[120] = "a long value";
  const char *method = draw(3) ? "POST" : draw(2) ? "HEAD" : "GET";
  size_t length = literal(block, ":method", method, strlen(method));
  length += literal(block + length, ":scheme", "http", 4);
  length += literal(block + length, ":path", "/a?b", 4);
  length += literal(block + length, ":authority", "gyre.test", 9);
  for (uint32_t more = draw(8) ? draw(5) : draw(30); more > 0; more--)
    length += literal(block + length, "x-more", text, draw(120));
  if (!sound && draw(20) == 0) {
    uint32_t one = draw(sizeof(odd) / sizeof(odd[0]));
    length += literal(block + length, odd[one][0], odd[one][1], strlen(odd[one][1]));
  }
  return length;
}

/* A stream, if the client is sound one whose request goes on; 0: there is none. */
static int32_t any_id(void) {
  if (sound) {
    int32_t id = next_id > 1 ? (int32_t)(1 + 2 * draw((uint32_t)next_id / 2)) : 0;
    return id && sending[id / 2] ? id : 0;
  }
  if (next_id == 1 || draw(40) == 0) return (int32_t)draw(STREAMS * 2);
  return (int32_t)(next_id - 2 - 2 * (int32_t)draw((uint32_t)(next_id / 2 < 12 ? next_id / 2 : 12)));
}

static void put_data(int32_t id) {
  char body[3000];
  uint32_t length = draw(4) ? draw(100) : draw(sizeof(body));
  int index = id / 2;
  bool ends = draw(5) == 0;
  if (sound && (!id || room[index] < length || room_of_all < length)) return;
  room[index] -= length;
  room_of_all -= length;
  if (ends) sending[index] = false;
  for (uint32_t i = 0; i < length; i++) body[i] = pattern(id, sent[index] + i);
  sent[index] += length;
  put_frame(0, ends, id, body, length);
}

static void put_headers(void) {
  char block[8000];
  size_t length = request(block);
  bool again = next_id / 2 >= STREAMS - 1 || (!sound && draw(20) == 0);
  int32_t id = again ? any_id() : next_id;
  unsigned ends = draw(2);
  if (sound && again) return;
  if (!again) next_id += 2;
  sending[id / 2] = !ends;
  room[id / 2] = limits.stream_window_bytes;
  if (draw(5)) {
    put_frame(1, 4 | ends, id, block, (uint32_t)length);
  } else {
    put_frame(1, ends, id, block, 20);
    put_frame(9, sound || draw(30) ? 4 : 0, id, block + 20, (uint32_t)length - 20);
  }
}

static void put_settings(void) {
  const unsigned char window[6] = {0, 4, 0, 0, (unsigned char)draw(256), (unsigned char)draw(256)};
  put_frame(4, 0, 0, window, sound || draw(40) ? 6 : 5);
}

static void put_trailers(int32_t id) {
  char block[200];
  size_t length = literal(block, sound || draw(10) ? "x-sum" : ":path", "value", 5);
  if (!id) return;
  sending[id / 2] = false;
  put_frame(1, 4 | (sound || draw(10)), id, block, (uint32_t)length);
}

static void put_reset(int32_t id) {
  if (sound && (!id || draw(4))) return;
  sending[id / 2] = false;
  put_number(3, 0, id, draw(14));
}

static void client_step(void) {
  char junk[64];
  switch (draw(24)) {
  case 0:
  case 1:
  case 2: put_headers(); break;
  case 3:
  case 4:
  case 5:
  case 6:
  case 7:
  case 8:
  case 9:
  case 10:
  case 11: put_data(any_id()); break;
  case 12: put_trailers(any_id()); break;
  case 13: put_reset(any_id()); break;
  case 14: put_settings(); break;
  case 15:
  case 16:
  case 17: put_number(8, 0, 0, 1 + draw(20000)); break;
  case 18:
  case 19: put_number(8, 0, any_id(), sound || draw(60) ? 1 + draw(20000) : draw(2) ? 0 : 0x7fffffff); break;
  case 20: put_frame(6, draw(2), 0, "12345678", 8); break;
  case 21: put_frame(2, 0, sound ? 1 : any_id(), "\0\0\0\0\7", 5); break;
  case 22: put_frame(10 + draw(200), draw(256), any_id(), junk, memset(junk, 'x', 64) ? draw(64) : 0); break;
  default:
    if (sound || draw(20)) break;
    for (size_t i = 0; i < sizeof(junk); i++) junk[i] = (char)draw(256);
    put(junk, draw(sizeof(junk)));
  }
}

/* --- the apps --- */

static void release(struct app *app) {
  struct gyre_http2_stream *stream = app->stream;
  app->stream = NULL;
  gyre_http2_stream_release(stream);
}

static void take(struct app *app) {
  struct gyre_http2_stream *stream = app->stream;
  uint32_t held = gyre_bytes_held(stream->in.bytes), some = held ? 1 + draw(held) : 0;
  for (uint32_t i = 0; i < some; i++)
    CHECK(stream->in.bytes->bytes[stream->in.bytes->offset + i] == pattern(stream->id, app->taken + i));
  app->taken += some;
  if (some) gyre_http2_stream_taken(stream, some);
}

static void write_some(struct app *app) {
  char body[2000];
  uint32_t length = draw(sizeof(body));
  for (uint32_t i = 0; i < length; i++) body[i] = pattern(app->stream->id, app->written + i);
  int error = gyre_http2_stream_write(app->stream, body, length);
  CHECK(error == 0 || error == -EPIPE);
  if (error == 0) app->written += length;
}

static void respond(struct app *app) {
  static const char lines[] = "content-type: text/plain\r\nconnection: close\r\nx-empty:\r\n";
  bool ends = draw(6) == 0;
  int error = gyre_http2_stream_respond(app->stream, 200, lines, sizeof(lines) - 1, ends);
  CHECK(error == 0 || error == -EPIPE);
  app->responded = true;
  app->finished = ends;
}

static void app_step(struct app *app) {
  struct gyre_http2_stream *stream = app->stream;
  if (!stream) return;
  CHECK(stream->owner == app);
  switch (draw(12)) {
  case 0:
  case 1: take(app); break;
  case 2:
    if (!app->responded) (void)gyre_http2_stream_respond(stream, 103, "link: <a>\r\n", 11, false);
    break;
  case 3:
  case 4:
    if (!app->responded) respond(app);
    break;
  case 5:
  case 6:
  case 7:
    if (app->responded && !app->finished) write_some(app);
    break;
  case 8:
    if (app->responded && !app->finished) {
      int error =
          draw(3) ? gyre_http2_stream_finish(stream, NULL, 0) : gyre_http2_stream_finish(stream, "x-sum: 1\r\n", 10);
      CHECK(error == 0 || error == -EPIPE);
      app->finished = true;
    }
    break;
  case 9:
    if (draw(4) == 0) gyre_http2_stream_cut(stream);
    break;
  case 10:
    if (draw(8) == 0) gyre_http2_stream_reset(stream, GYRE_HTTP2_CANCEL);
    break;
  default:
    if (app->finished || stream->closed || draw(8) == 0) release(app);
  }
}

static void changes(void) {
  struct gyre_http2_stream *stream;
  while ((stream = gyre_http2_session_changed(&session, true))) {
    struct app *app = &apps[stream->id / 2];
    CHECK(stream->id > 0 && stream->id / 2 < STREAMS);
    if (stream->started || !stream->headed || stream->closed) continue;
    stream->started = true;
    if (draw(30) == 0) {
      gyre_http2_stream_refuse(stream);
      continue;
    }
    stream->owner = app;
    *app = (struct app){.stream = stream};
    if (draw(4) == 0) gyre_http2_stream_drop_head(stream);
  }
}

/* --- between them --- */

/* What the client gets: whole frames, and each body in order. */
static char in[1 << 17];
static size_t in_length;

static void client_receive(void) {
  size_t at = 0;
  while (in_length - at >= 9) {
    const unsigned char *head = (unsigned char *)in + at;
    size_t length = (size_t)head[0] << 16 | (size_t)head[1] << 8 | head[2];
    int32_t id = head[5] << 24 | head[6] << 16 | head[7] << 8 | head[8];
    CHECK(length <= 16384 && head[3] <= 9);
    if (in_length - at < 9 + length) break;
    if (head[3] == 0 && id / 2 < STREAMS) {
      for (size_t i = 0; i < length; i++) CHECK(in[at + 9 + i] == pattern(id, received[id / 2] + (uint32_t)i));
      received[id / 2] += (uint32_t)length;
    }
    if (head[3] == 8) {
      uint32_t more = (uint32_t)head[9] << 24 | (uint32_t)head[10] << 16 | (uint32_t)head[11] << 8 | head[12];
      *(id ? &room[id / 2 % STREAMS] : &room_of_all) += more;
    }
    at += 9 + length;
  }
  memmove(in, in + at, in_length - at);
  in_length -= at;
}

static void deliver(void) {
  size_t room = draw(3) ? sizeof(in) - in_length : GYRE_HTTP2_SEND_ROOM + draw(100), length;
  if (room > sizeof(in) - in_length) return;
  while ((length = gyre_http2_session_send(&session, in + in_length, room, now_ns)) > 0) {
    CHECK(length <= room);
    in_length += length;
    client_receive();
    if (draw(3) == 0 || sizeof(in) - in_length < room) break;
  }
}

static bool receive_some(void) {
  size_t some = out_length ? 1 + draw(draw(2) ? (uint32_t)out_length : out_length < 30 ? (uint32_t)out_length : 30) : 0;
  char *apart = malloc(some ? some : 1); /* so that reading beyond it shows */
  memcpy(apart, out, some);
  bool goes_on = gyre_http2_session_receive(&session, apart, some, now_ns);
  free(apart);
  memmove(out, out + some, out_length - some);
  out_length -= some;
  return goes_on;
}

static void walk(void) {
  memset(apps, 0, sizeof(apps));
  memset(sent, 0, sizeof(sent));
  memset(received, 0, sizeof(received));
  memset(sending, 0, sizeof(sending));
  out_length = in_length = 0;
  next_id = 1;
  sound = draw(3) > 0;
  room_of_all = 65535; /* before the server's WINDOW_UPDATE */
  now_ns = 1000;
  CHECK(gyre_http2_session_init(&session, &limits, &capacity, false, now_ns) == 0);
  put(GYRE_HTTP2_PREFACE, GYRE_HTTP2_PREFACE_BYTES);
  put_frame(4, 0, 0, "", 0);
  for (int step = 0; step < STEPS; step++) {
    now_ns += draw(1000000);
    if (out_length < sizeof(out) / 2) client_step();
    if (draw(3) == 0) {
      while (out_length > 0 && receive_some() && draw(4)) changes();
      if (draw(3)) changes();
    }
    for (int i = 0; i < 8; i++) app_step(&apps[draw((uint32_t)next_id / 2 + 1)]);
    if (draw(3) == 0) deliver();
    if (draw(400) == 0) gyre_http2_session_warn(&session);
    if (draw(600) == 0) gyre_http2_session_go(&session);
    if (draw(900) == 0) gyre_http2_session_terminate(&session, GYRE_HTTP2_INTERNAL_ERROR);
    if (draw(400) == 0) sound = false;
    if (session.failed && draw(10) == 0) break;
  }
  for (int i = 0; i < STREAMS; i++)
    if (apps[i].stream && draw(2)) release(&apps[i]);
  if (draw(2)) deliver();
  if (draw(2)) changes();
  gyre_http2_session_free(&session); /* with and without streams that have owners */
  CHECK(capacity.heads.used == 0 && capacity.input.used == 0 && capacity.output.used == 0);
}

/* --- what no walk meets --- */

static bool out_of_memory;

/* In front of libnghttp2's own. */
ssize_t nghttp2_session_mem_send(nghttp2_session *nghttp2, const uint8_t **bytes) {
  static ssize_t (*send)(nghttp2_session *, const uint8_t **);
  if (!send) *(void **)&send = dlsym(RTLD_NEXT, "nghttp2_session_mem_send");
  return out_of_memory ? NGHTTP2_ERR_NOMEM : send(nghttp2, bytes);
}

static void test_sending_without_memory_breaks_the_session(void) {
  static char bytes[GYRE_HTTP2_SEND_ROOM];
  CHECK(gyre_http2_session_init(&session, &limits, &capacity, false, 0) == 0);
  out_of_memory = true;
  CHECK(gyre_http2_session_send(&session, bytes, sizeof(bytes), 0) == 0);
  out_of_memory = false;
  CHECK(session.broken && session.failed);
  gyre_http2_session_free(&session);
}

/* Newer versions of libnghttp2 refuse it before. */
static void test_a_method_that_is_no_token_is_not_passed_on(void) {
  struct gyre_http2_stream stream = {.session = &session};
  static const char *const fields[][2] = {{":method", "GET \x1b[2J\""}, {":scheme", "http"}, {":path", "/"}};
  session.limits = &limits;
  session.capacity = &capacity;
  for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
    gyre_http2_head_field(&stream, (const uint8_t *)fields[i][0], strlen(fields[i][0]), (const uint8_t *)fields[i][1],
                          strlen(fields[i][1]));
  gyre_http2_head_conclude(&stream, true);
  CHECK(stream.head.status == 400 && stream.head.method.length == 0);
  gyre_http2_block_free(&stream.block);
}

int main(int count, char **arguments) {
  test_sending_without_memory_breaks_the_session();
  test_a_method_that_is_no_token_is_not_passed_on();
  int walks = count > 1 ? atoi(arguments[1]) : 300, first = count > 2 ? atoi(arguments[2]) : 1;
  for (int i = 0; i < walks; i++) {
    random_state = (uint64_t)(first + i);
    unsigned failed = checks_failed;
    walk();
    if (checks_failed > failed) fprintf(stderr, "in walk %d\n", first + i);
    if (checks_failed > 20) break;
  }
  return check_summary();
}

#else

int main(void) {
  printf("this build has no HTTP/2\n");
  return 0;
}

#endif
