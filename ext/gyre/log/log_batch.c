/*
 * Batches of records, byte by byte: see log_batch.h. Called by the client's outbox; knows no Ruby and no socket.
 */
#include "log/log_batch.h"
#include "log/log_crc32.h"

#include <stdbool.h>
#include <string.h>

/* --- a record --- */

static void put32(char *at, uint32_t value) {
  for (int i = 0; i < 4; i++) at[i] = (char)(value >> (24 - 8 * i));
}

static void put64(char *at, uint64_t value) {
  put32(at, (uint32_t)(value >> 32));
  put32(at + 4, (uint32_t)value);
}

static uint32_t get32(const char *at) {
  const uint8_t *byte = (const uint8_t *)at;
  return (uint32_t)byte[0] << 24 | (uint32_t)byte[1] << 16 | (uint32_t)byte[2] << 8 | byte[3];
}

static uint64_t get64(const char *at) { return (uint64_t)get32(at) << 32 | get32(at + 4); }

static char *put(char *at, struct gyre_log_text text) {
  if (text.length > 0) memcpy(at, text.bytes, text.length);
  return at + text.length;
}

void gyre_log_batch_write(char *at, uint64_t sequence, uint64_t time_us, struct gyre_log_text service,
                          struct gyre_log_text severity, struct gyre_log_text message) {
  put64(at + 8, sequence);
  put64(at + 16, time_us);
  at[24] = (char)service.length;
  at[25] = (char)severity.length;
  char *end = put(put(put(at + GYRE_LOG_BATCH_HEAD, service), severity), message);
  size_t length = (size_t)(end - at) - GYRE_LOG_BATCH_PREFIX;
  put32(at, (uint32_t)length);
  put32(at + 4, gyre_log_crc32(0, at + GYRE_LOG_BATCH_PREFIX, length));
}

static size_t record_length(const char *at) { return GYRE_LOG_BATCH_PREFIX + (size_t)get32(at); }

struct gyre_log_measure gyre_log_batch_measure(const char *bytes, size_t length, size_t limit) {
  struct gyre_log_measure measure = {0, 0, 0};
  while (length - measure.bytes >= GYRE_LOG_BATCH_HEAD) {
    const char *at = bytes + measure.bytes;
    size_t record = record_length(at), left = length - measure.bytes;
    if (record < GYRE_LOG_BATCH_HEAD || record > left || record > limit) break;
    size_t names = (size_t)(uint8_t)at[24] + (uint8_t)at[25];
    if (record < GYRE_LOG_BATCH_HEAD + names) break;
    if (gyre_log_crc32(0, at + GYRE_LOG_BATCH_PREFIX, record - GYRE_LOG_BATCH_PREFIX) != get32(at + 4)) break;
    measure.bytes += record;
    measure.count++;
    measure.last_sequence = get64(at + 8);
  }
  return measure;
}

/* The record at this offset, or false at the end and where no whole one is. */
static bool whole(const char *bytes, size_t length, size_t offset, size_t *record) {
  if (length - offset < GYRE_LOG_BATCH_HEAD) return false;
  *record = record_length(bytes + offset);
  return *record >= GYRE_LOG_BATCH_HEAD + (size_t)(uint8_t)bytes[offset + 24] + (uint8_t)bytes[offset + 25] &&
         *record <= length - offset;
}

size_t gyre_log_batch_after(const char *bytes, size_t length, uint64_t sequence) {
  size_t offset = 0, record;
  while (whole(bytes, length, offset, &record) && get64(bytes + offset + 8) <= sequence) offset += record;
  return offset;
}

/* --- the old wire: each record is longer than its frame by the same number --- */

static size_t frame_length(size_t record) { return record - GYRE_LOG_BATCH_HEAD + GYRE_LOG_BATCH_FRAME_HEAD; }

size_t gyre_log_batch_frames_length(const char *bytes, size_t length) {
  size_t offset = 0, frames = 0, record;
  for (; whole(bytes, length, offset, &record); offset += record) {
    size_t names = (size_t)(uint8_t)bytes[offset + 24] + (uint8_t)bytes[offset + 25];
    if (frame_length(record) > GYRE_LOG_BATCH_FRAME_LIMIT || memchr(bytes + offset + GYRE_LOG_BATCH_HEAD, ':', names))
      return SIZE_MAX;
    frames += frame_length(record);
  }
  return frames;
}

static char *digits(char *to, size_t number) {
  for (int i = 3; i >= 0; i--, number /= 10) to[i] = (char)('0' + number % 10);
  return to + 4;
}

void gyre_log_batch_frames(char *to, const char *bytes, size_t length) {
  size_t offset = 0, record;
  for (; whole(bytes, length, offset, &record); offset += record) {
    const char *from = bytes + offset + GYRE_LOG_BATCH_HEAD;
    size_t frame = frame_length(record), service = (uint8_t)bytes[offset + 24], severity = (uint8_t)bytes[offset + 25];
    to = digits(digits(to, frame), frame);
    *to++ = ':';
    to = put(to, (struct gyre_log_text){from, service});
    *to++ = ':';
    to = put(to, (struct gyre_log_text){from + service, severity});
    *to++ = ':';
    to = put(to, (struct gyre_log_text){from + service + severity, record - GYRE_LOG_BATCH_HEAD - service - severity});
  }
}

size_t gyre_log_batch_framed(const char *bytes, size_t length, size_t frames) {
  size_t offset = 0, record;
  while (whole(bytes, length, offset, &record) && frame_length(record) <= frames) {
    frames -= frame_length(record);
    offset += record;
  }
  return offset;
}
