/* See dns_exercise.h. */
#define _GNU_SOURCE
#include "dns_exercise.h"
#include "arriving.h"
#include "dns/wire.h"

#include <stdbool.h>

#define EVERY_ROOM_MAX 600 /* of longer messages only some rooms are tried */

/* The message's parts, the names uncompressed. */
static void describe(struct text *text, const uint8_t *bytes, size_t length) {
  struct gyre_dns_query query;
  enum gyre_dns_verdict verdict = gyre_dns_query_read(&query, bytes, length);
  if (verdict != GYRE_DNS_WELL_FORMED) {
    appendf(text, verdict == GYRE_DNS_NO_HEADER ? "no-header" : "malformed");
    return;
  }
  appendf(text, "well-formed %u %u", query.id, query.flags);
  size_t at = GYRE_DNS_HEADER_BYTES;
  for (unsigned i = 0; i < query.counts[0]; i++) {
    uint8_t name[GYRE_DNS_NAME_BYTES];
    size_t bytes_of_name = gyre_dns_name_read(bytes, length, &at, name);
    if (bytes_of_name == 0 || bytes_of_name != gyre_dns_name_length(name)) appendf(text, " inconsistent-name");
    appendf(text, " ?");
    append_hex(text, (const char *)name, bytes_of_name);
    appendf(text, ":%u:%u", gyre_dns_16(bytes + at), gyre_dns_16(bytes + at + 2));
    at += 4;
  }
  for (int section = 1; section < 4; section++) {
    appendf(text, " /");
    for (unsigned i = 0; i < query.counts[section]; i++) {
      struct gyre_dns_record record;
      uint8_t *data;
      if (!gyre_dns_record_read(bytes, length, &at, &record)) {
        appendf(text, " inconsistent-record");
        return;
      }
      data = malloc(record.data_length + GYRE_DNS_EXPANDED_BYTES);
      ssize_t expanded = gyre_dns_data_expand(bytes, &record, data);
      if (expanded > (ssize_t)(record.data_length + GYRE_DNS_EXPANDED_BYTES)) appendf(text, " inconsistent-length");
      if (expanded >= 0 && !gyre_dns_data_valid(record.type, record.class, data, (size_t)expanded))
        appendf(text, " inconsistent-data");
      appendf(text, " ");
      append_hex(text, (const char *)record.name, record.name_length);
      appendf(text, ":%u:%u:%u:", record.type, record.class, record.ttl);
      if (expanded < 0) appendf(text, "bad");
      if (expanded > 0) append_hex(text, (const char *)data, (size_t)expanded);
      free(data);
    }
  }
}

/* Writes the message again. Returns its length; 0 if the room was too small. */
static size_t rewrite(const uint8_t *bytes, size_t length, uint8_t *to, size_t room, bool *unwritable) {
  struct gyre_dns_query query;
  struct gyre_dns_writer writer;
  if (gyre_dns_query_read(&query, bytes, length) != GYRE_DNS_WELL_FORMED) return 0;
  gyre_dns_writer_init(&writer, to, room);
  size_t at = GYRE_DNS_HEADER_BYTES;
  for (unsigned i = 0; i < query.counts[0]; i++) {
    uint8_t name[GYRE_DNS_NAME_BYTES];
    (void)gyre_dns_name_read(bytes, length, &at, name);
    if (!gyre_dns_put_question(&writer, name, gyre_dns_16(bytes + at), gyre_dns_16(bytes + at + 2))) return 0;
    at += 4;
  }
  for (unsigned i = 0; i < (unsigned)query.counts[1] + query.counts[2] + query.counts[3]; i++) {
    struct gyre_dns_record record;
    (void)gyre_dns_record_read(bytes, length, &at, &record);
    uint8_t *data = malloc(record.data_length + GYRE_DNS_EXPANDED_BYTES);
    ssize_t expanded = gyre_dns_data_expand(bytes, &record, data);
    bool put = expanded >= 0 &&
               gyre_dns_put_record(&writer, record.name, record.type, record.class, record.ttl, data, (size_t)expanded);
    free(data);
    if (expanded < 0) *unwritable = true;
    if (!put) return 0;
  }
  gyre_dns_put_header(&writer, query.id, query.flags, query.counts);
  return writer.length;
}

static void check_names(struct text *text, const uint8_t *bytes, size_t length) {
  uint8_t name[GYRE_DNS_NAME_BYTES], again[GYRE_DNS_NAME_BYTES];
  char line[GYRE_DNS_TEXT_BYTES];
  size_t size = gyre_dns_name_parse((const char *)bytes, length, name);
  if (size == 0) return;
  if (size != gyre_dns_name_length(name)) appendf(text, " inconsistent-parse");
  size_t written = gyre_dns_name_text(name, line);
  if (written > sizeof(line)) abort();
  if (gyre_dns_name_parse(line, written, again) != size || memcmp(name, again, size) != 0)
    appendf(text, " inconsistent-text");
}

char *exercise_message(const char *bytes, size_t length) {
  struct places places = {{guarded_open(length), guarded_open(length)}, 0, 0};
  struct text text = {NULL, 0, 0};
  describe(&text, (const uint8_t *)place(&places, bytes, length), length);
  check_names(&text, (const uint8_t *)place(&places, bytes, length), length);

  size_t step = length > EVERY_ROOM_MAX ? length / 37 : 1;
  for (size_t cut = 0; cut < length; cut += step) {
    struct text part = {NULL, 0, 0};
    describe(&part, (const uint8_t *)place(&places, bytes, cut), cut);
    if (strstr(part.bytes, "inconsistent")) appendf(&text, " inconsistent-cut-%zu", cut);
    free(part.bytes);
  }

  const uint8_t *message = (const uint8_t *)place(&places, bytes, length);
  struct guarded room = guarded_open(GYRE_DNS_MESSAGE_BYTES);
  bool unwritable = false;
  size_t written =
      rewrite(message, length, (uint8_t *)room.end - GYRE_DNS_MESSAGE_BYTES, GYRE_DNS_MESSAGE_BYTES, &unwritable);
  if (written > 0) {
    struct text again = {NULL, 0, 0};
    describe(&again, (uint8_t *)room.end - GYRE_DNS_MESSAGE_BYTES, written);
    if (strcmp(again.bytes, text.bytes) != 0) appendf(&text, " inconsistent-rewritten %s", again.bytes);
    free(again.bytes);
    step = written > EVERY_ROOM_MAX ? written / 37 : 1;
    for (size_t less = GYRE_DNS_HEADER_BYTES; less < written; less += step)
      if (rewrite(message, length, (uint8_t *)room.end - less, less, &unwritable)) appendf(&text, " inconsistent-room");
  }
  guarded_close(&room);
  guarded_close(&places.memory[0]);
  guarded_close(&places.memory[1]);
  return text.bytes;
}
