/* Records of the versioned wire (log_record.h). */
#include "log/log_record.h"
#include "log/log_crc32.h"
#include "log/log_frame.h"

/* Bytes between the prefix and the service. */
#define BODY_HEAD (GYRE_LOG_RECORD_HEAD - GYRE_LOG_RECORD_PREFIX)

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

void gyre_log_record_write(char *at, uint64_t sequence, uint64_t time_us, struct gyre_log_text service,
                           struct gyre_log_text severity, struct gyre_log_text message) {
  put64(at + 8, sequence);
  put64(at + 16, time_us);
  at[24] = (char)service.length;
  at[25] = (char)severity.length;
  char *end = put(put(put(at + GYRE_LOG_RECORD_HEAD, service), severity), message);
  size_t length = (size_t)(end - at) - GYRE_LOG_RECORD_PREFIX;
  put32(at, (uint32_t)length);
  put32(at + 4, gyre_log_crc32(0, at + GYRE_LOG_RECORD_PREFIX, length));
}

long gyre_log_record_cut(struct gyre_log_cutter *cutter, const char *bytes, size_t length,
                         struct gyre_log_message *message) {
  cutter->wanted = GYRE_LOG_RECORD_PREFIX;
  if (length < GYRE_LOG_RECORD_PREFIX) return 0;
  const size_t size = get32(bytes);
  if (size < BODY_HEAD) return -GYRE_LOG_MALFORMED_RECORD;
  if (size > cutter->limit) return -GYRE_LOG_TOO_LONG;
  cutter->wanted = GYRE_LOG_RECORD_PREFIX + size;
  if (length - GYRE_LOG_RECORD_PREFIX < size) return 0;

  const char *const body = bytes + GYRE_LOG_RECORD_PREFIX;
  if (gyre_log_crc32(0, body, size) != get32(bytes + 4)) return -GYRE_LOG_CHECKSUM_FAILED;
  message->sequence = get64(body);
  if (message->sequence == 0) return -GYRE_LOG_WRONG_SEQUENCE;
  const size_t service = (unsigned char)body[16], severity = (unsigned char)body[17];
  if (BODY_HEAD + service + severity > size) return -GYRE_LOG_MALFORMED_RECORD;

  const char *const names = body + BODY_HEAD;
  message->time_us = get64(body + 8);
  message->has_time = true;
  message->service = (struct gyre_log_text){names, service};
  message->severity = (struct gyre_log_text){names + service, severity};
  message->text = (struct gyre_log_text){names + service + severity, size - BODY_HEAD - service - severity};
  message->present = true;
  return (long)(GYRE_LOG_RECORD_PREFIX + size);
}

/* Sets *record to the length of the record at `offset`. Returns false if it is incomplete. */
static bool whole(const char *bytes, size_t length, size_t offset, size_t *record) {
  if (length - offset < GYRE_LOG_RECORD_HEAD) return false;
  *record = GYRE_LOG_RECORD_PREFIX + (size_t)get32(bytes + offset);
  return *record >= GYRE_LOG_RECORD_HEAD + (size_t)(uint8_t)bytes[offset + 24] + (uint8_t)bytes[offset + 25] &&
         *record <= length - offset;
}

struct gyre_log_measure gyre_log_batch_measure(const char *bytes, size_t length, size_t limit) {
  struct gyre_log_measure measure = {0, 0, 0};
  size_t record;
  while (whole(bytes, length, measure.bytes, &record) && record <= limit) {
    const char *const at = bytes + measure.bytes;
    if (gyre_log_crc32(0, at + GYRE_LOG_RECORD_PREFIX, record - GYRE_LOG_RECORD_PREFIX) != get32(at + 4)) break;
    measure.bytes += record;
    measure.count++;
    measure.last_sequence = get64(at + 8);
  }
  return measure;
}

size_t gyre_log_batch_after(const char *bytes, size_t length, uint64_t sequence) {
  size_t offset = 0, record;
  while (whole(bytes, length, offset, &record) && get64(bytes + offset + 8) <= sequence) offset += record;
  return offset;
}

/* --- the old wire: a record is longer than its frame by a constant number of bytes --- */

/* Returns 0 if no frame can carry the record. */
static size_t frame_length(const char *record, size_t length) {
  const size_t frame = length - GYRE_LOG_RECORD_HEAD + GYRE_LOG_BATCH_FRAME_HEAD;
  const size_t names = (size_t)(uint8_t)record[24] + (uint8_t)record[25];
  return frame > GYRE_LOG_BATCH_FRAME_LIMIT || memchr(record + GYRE_LOG_RECORD_HEAD, ':', names) ? 0 : frame;
}

static char *digits(char *to, size_t number) {
  for (int i = 3; i >= 0; i--, number /= 10) to[i] = (char)('0' + number % 10);
  return to + 4;
}

size_t gyre_log_batch_frames(char *to, const char *bytes, size_t length, size_t *dropped) {
  const char *const start = to;
  size_t record;
  *dropped = 0;
  for (size_t offset = 0; whole(bytes, length, offset, &record); offset += record) {
    const char *const names = bytes + offset + GYRE_LOG_RECORD_HEAD;
    const size_t frame = frame_length(bytes + offset, record);
    const size_t service = (uint8_t)bytes[offset + 24], severity = (uint8_t)bytes[offset + 25];
    *dropped += frame == 0;
    if (frame == 0) continue;
    to = digits(digits(to, frame), frame);
    *to++ = ':';
    to = put(to, (struct gyre_log_text){names, service});
    *to++ = ':';
    to = put(to, (struct gyre_log_text){names + service, severity});
    *to++ = ':';
    to = put(
        to, (struct gyre_log_text){names + service + severity, frame - GYRE_LOG_BATCH_FRAME_HEAD - service - severity});
  }
  return (size_t)(to - start);
}

size_t gyre_log_batch_framed(const char *bytes, size_t length, size_t frames) {
  size_t offset = 0, record, frame;
  for (; whole(bytes, length, offset, &record); offset += record) {
    if ((frame = frame_length(bytes + offset, record)) > frames) break;
    frames -= frame;
  }
  return offset;
}
