/*
 * The plain C test of the log's ingest. Without arguments it checks what only C has: the checksum's
 * table, what holds what, buffers. With "frames" it reads inputs from stdin and prints a line for
 * each (log_exercise.h); test/log/ compares those lines with what the oracle in Ruby gives.
 *
 * A frame: kind (f, r, s), framing (0 to 3), limit and length (four bytes each, little endian),
 * bytes.
 */
#include "check.h"
#include "frames.h"
#include "log/log_crc32.h"
#include "log_exercise.h"

#include <stdlib.h>
#include <string.h>

#define TIME INT64_C(1795288800000000000)

static const struct gyre_log_text none = {"", 0};

static struct gyre_log_sink *open_sink(struct gyre_log_hub *hub) {
  struct gyre_log_sink *const sink = gyre_log_hub_open_sink(hub, GYRE_LOG_TEXT, none);
  struct gyre_log_route route = {.for_all = true, .every_severity = true, .sinks_count = 1};
  route.sinks = calloc(1, sizeof(struct gyre_log_sink *));
  route.sinks[0] = sink;
  sink->references++;
  CHECK(gyre_log_hub_route(hub, &route) == 0);
  return sink;
}

static int log_text(struct gyre_log_hub *hub, const char *service, const char *text, size_t length) {
  const struct gyre_log_message message = {
      .service = {service, strlen(service)}, .severity = {"info", 4}, .text = {text, length}, .present = true};
  gyre_log_time_at(&hub->time, TIME);
  return gyre_log_hub_deliver(hub, &message, NULL);
}

/* ISO 3309, bit by bit. */
static uint32_t checksum_by_bits(const char *bytes, size_t length) {
  uint32_t crc = UINT32_MAX;
  for (size_t i = 0; i < length; i++) {
    crc ^= (unsigned char)bytes[i];
    for (int bit = 0; bit < 8; bit++) crc = crc & 1 ? crc >> 1 ^ UINT32_C(0xedb88320) : crc >> 1;
  }
  return ~crc;
}

static void the_checksum_is_the_standards_for_each_length_and_place(void) {
  char bytes[320];
  uint32_t random = 1;
  for (size_t i = 0; i < sizeof(bytes); i++) {
    random = random * 1664525 + 1013904223;
    bytes[i] = (char)(random >> 24);
  }
  for (size_t from = 0; from < 17; from++) {
    for (size_t length = 0; from + length <= sizeof(bytes); length++)
      CHECK(gyre_log_crc32(0, bytes + from, length) == checksum_by_bits(bytes + from, length));
  }
}

static void the_checksum_is_zlibs(void) {
  static const char text[] = "123456789";
  char bytes[300];
  CHECK(gyre_log_crc32(0, text, 9) == 0xcbf43926);
  CHECK(gyre_log_crc32(0, "", 0) == 0);
  CHECK(gyre_log_crc32(gyre_log_crc32(0, text, 4), text + 4, 5) == 0xcbf43926);
  memset(bytes, 0xff, sizeof(bytes));
  for (size_t cut = 0; cut <= sizeof(bytes); cut++) {
    CHECK(gyre_log_crc32(gyre_log_crc32(0, bytes, cut), bytes + cut, sizeof(bytes) - cut) ==
          gyre_log_crc32(0, bytes, sizeof(bytes)));
  }
}

static void they_may_be_released_in_any_order(void) {
  for (int order = 0; order < 24; order++) {
    struct gyre_log_hub *hub = gyre_log_hub_open(10);
    struct gyre_log_sink *sink = open_sink(hub);
    struct gyre_log_session *session = gyre_log_session_open("00000000000000000000000000000000");
    struct gyre_log_decoder decoder;
    int left[4] = {0, 1, 2, 3}, rest = order;
    hub->references++; /* the sink's */
    gyre_log_decoder_open(&decoder, hub, session, GYRE_LOG_RECORDS, GYRE_LOG_AUTO, 1000);
    CHECK(gyre_log_decoder_feed(&decoder, "\0\0\0\x12xx", 6, TIME) == 0);
    CHECK(log_text(hub, "a", "b", 1) == 0);
    for (int count = 4; count > 0; count--) {
      const int turn = rest % count, which = left[turn];
      rest /= count;
      left[turn] = left[count - 1];
      if (which == 0) gyre_log_hub_release(hub);
      if (which == 1) gyre_log_session_release(session);
      if (which == 2) gyre_log_decoder_close(&decoder);
      if (which == 3) {
        gyre_log_sink_release(sink);
        gyre_log_hub_release(hub);
      }
    }
  }
}

static void what_a_burst_needed_is_given_back(void) {
  struct gyre_log_hub *const hub = gyre_log_hub_open(10);
  struct gyre_log_sink *const sink = open_sink(hub);
  static char text[1 << 20];
  memset(text, 'x', sizeof(text));
  for (int i = 0; i < 10; i++) CHECK(log_text(hub, "a", text, sizeof(text)) == 0);
  CHECK(sink->bytes.capacity >= 10 * sizeof(text) && hub->bytes == sink->bytes.length);
  gyre_log_sink_clear(sink);
  CHECK(sink->bytes.capacity >= 10 * sizeof(text) && hub->bytes == 0); /* the next burst has it */
  CHECK(log_text(hub, "a", text, 1000) == 0);
  gyre_log_sink_clear(sink);
  CHECK(sink->bytes.capacity == 0);
  CHECK(log_text(hub, "a", text, 1000) == 0);
  gyre_log_sink_clear(sink);
  CHECK(sink->bytes.capacity > 0 && sink->bytes.capacity < 8192);
  gyre_log_sink_release(sink);
  gyre_log_hub_release(hub);
}

/* More services than the table of channels has places, twice, and names that do not go into it. */
static void services_take_each_others_places(void) {
  struct gyre_log_hub *const hub = gyre_log_hub_open(100);
  struct gyre_log_sink *const sink = open_sink(hub);
  char service[1000];
  uint64_t counted = 0;
  for (int i = 0; i < 10000; i++) {
    const int length = snprintf(service, sizeof(service), i % 3 ? "service-%d" : "%0900d", i / 2);
    CHECK(length > 0 && log_text(hub, service, service, (size_t)length) == 0);
    CHECK(sink->bytes.length == 19 + 1 + (size_t)length + 6 + (size_t)length + 1);
    gyre_log_sink_clear(sink);
  }
  CHECK(hub->messages == 10000 && hub->counters_count == 101);
  for (size_t i = 0; i < hub->counters_count; i++) counted += hub->counters[i].count;
  CHECK(counted == 10000);
  gyre_log_sink_release(sink);
  gyre_log_hub_release(hub);
}

static void an_incomplete_message_needs_no_memory_once_it_is_whole(void) {
  struct gyre_log_hub *const hub = gyre_log_hub_open(10);
  struct gyre_log_decoder decoder;
  gyre_log_decoder_open(&decoder, hub, NULL, GYRE_LOG_SYSLOG, GYRE_LOG_AUTO, 100);
  CHECK(gyre_log_decoder_feed(&decoder, "<14>a", 5, TIME) == 0);
  CHECK(decoder.rest.capacity > 0 && hub->bytes == 5);
  CHECK(gyre_log_decoder_feed(&decoder, "\n", 1, TIME) == 0);
  CHECK(decoder.rest.capacity == 0 && hub->bytes == 0 && decoder.messages == 1);
  gyre_log_decoder_close(&decoder);
  gyre_log_hub_release(hub);
}

static char *answer(const unsigned char *header, const char *bytes, size_t length) {
  const struct log_exercise_input input = {.kind = header[0] == 'f'   ? GYRE_LOG_FRAMES
                                                   : header[0] == 'r' ? GYRE_LOG_RECORDS
                                                                      : GYRE_LOG_SYSLOG,
                                           .framing = (enum gyre_log_framing)header[1],
                                           .limit = little_endian(header + 2),
                                           .bytes = bytes,
                                           .length = length};
  return log_exercise(&input);
}

int main(int count, char **arguments) {
  gyre_log_crc32_setup();
  if (count > 1 && strcmp(arguments[1], "frames") == 0) return answer_frames(10, answer);
  the_checksum_is_zlibs();
  the_checksum_is_the_standards_for_each_length_and_place();
  they_may_be_released_in_any_order();
  what_a_burst_needed_is_given_back();
  services_take_each_others_places();
  an_incomplete_message_needs_no_memory_once_it_is_whole();
  return check_summary();
}
