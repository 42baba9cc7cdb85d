/*
 * The fuzzer of the log's ingest: any bytes, in every way in which they may arrive
 * (test/c/log_exercise.h), and what must hold for the lines that come out. libFuzzer calls it where
 * clang has it, else fuzz/mutate.c does. A finding aborts.
 *
 * The first byte of an input chooses what it is, how syslog is framed and a limit; the rest are its
 * bytes.
 */
#include "log/log_crc32.h"
#include "log/log_record.h"
#include "log_exercise.h"

#include <stdio.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect(int condition, const char *what) {
  if (condition) return;
  fprintf(stderr, "does not hold: %s\n", what);
  abort();
}

/* A record's checksum is made right, else hardly any would get past it. */
static void seal(char *bytes, size_t length) {
  size_t at = 0;
  while (length - at >= GYRE_LOG_RECORD_PREFIX) {
    const unsigned char *const head = (unsigned char *)bytes + at;
    const size_t body = (size_t)head[0] << 24 | (size_t)head[1] << 16 | (size_t)head[2] << 8 | head[3];
    if (body > length - at - GYRE_LOG_RECORD_PREFIX) return;
    const uint32_t crc = gyre_log_crc32(0, bytes + at + GYRE_LOG_RECORD_PREFIX, body);
    for (int i = 0; i < 4; i++) bytes[at + 4 + (size_t)i] = (char)(crc >> (24 - 8 * i));
    at += GYRE_LOG_RECORD_PREFIX + body;
  }
}

/* Nothing that came can begin a line, or be taken for the end of a field. */
static void check_lines(const struct gyre_log_sink *sink) {
  const char *at = sink->bytes.bytes, *const end = at + sink->bytes.length;
  uint64_t lines = 0;
  for (; at < end; lines++) {
    const char *const stop = memchr(at, '\n', (size_t)(end - at));
    expect(stop != NULL && stop - at >= 22, "a line is whole");
    expect(memcmp(at, "2026/11/21 19:20:00|", 20) == 0, "a line begins with its time");
    for (at += 20; at < stop; at++) {
      const unsigned char byte = (unsigned char)*at;
      expect((byte >= 0x20 || byte == '\t') && byte != 0x7f, "no control byte in a line");
    }
    at = stop + 1;
  }
  expect(lines == sink->lines, "as many lines as are counted");
}

static void check(const struct log_exercise_input *input) {
  static const struct gyre_log_text none = {"", 0};
  struct gyre_log_hub *const hub = gyre_log_hub_open(10);
  struct gyre_log_sink *const sink = gyre_log_hub_open_sink(hub, GYRE_LOG_TEXT, none);
  struct gyre_log_route route = {.for_all = true, .every_severity = true, .sinks_count = 1};
  struct gyre_log_decoder decoder;
  route.sinks = malloc(sizeof(struct gyre_log_sink *));
  route.sinks[0] = sink;
  if (gyre_log_hub_route(hub, &route) < 0) abort();
  gyre_log_decoder_open(&decoder, hub, NULL, input->kind, input->framing, input->limit);
  gyre_log_decoder_feed(&decoder, input->bytes, input->length, INT64_C(1795288800123456789));
  check_lines(sink);
  expect(sink->lines == decoder.messages && hub->messages == decoder.messages, "each message has its line");
  expect(hub->bytes == sink->bytes.length + decoder.rest.length, "bytes are counted");
  gyre_log_decoder_close(&decoder);
  gyre_log_hub_release(hub);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const size_t limits[] = {8192, 8192, 20, 100};
  struct log_exercise_input input;
  char *bytes, *verdict;

  if (size == 0) return 0;
  setenv("TZ", "UTC", 1);
  gyre_log_crc32_setup();
  bytes = malloc(size);
  memcpy(bytes, data + 1, size - 1);
  input.kind = (enum gyre_log_kind)((data[0] & 3) % 3);
  input.framing = (enum gyre_log_framing)(data[0] >> 2 & 3);
  input.limit = limits[data[0] >> 4 & 3];
  input.bytes = bytes;
  input.length = size - 1;
  if (input.kind == GYRE_LOG_RECORDS && !(data[0] & 0x80)) seal(bytes, size - 1);
  verdict = log_exercise(&input);
  if (strstr(verdict, "inconsistent") || !strstr(verdict, " left=0")) {
    fprintf(stderr, "%s\n", verdict);
    abort();
  }
  free(verdict);
  check(&input);
  free(bytes);
  return 0;
}
