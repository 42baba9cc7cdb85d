/*
 * Records of the versioned wire (see log_frame.h; lib/gyre/log/wire/records.rb draws the layout).
 */
#include "log/log_crc32.h"
#include "log/log_frame.h"

#define BODY_LEAST 18

static uint32_t big_endian_32(const char *bytes) {
  const unsigned char *at = (const unsigned char *)bytes;
  return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | (uint32_t)at[3];
}

static uint64_t big_endian_64(const char *bytes) {
  return (uint64_t)big_endian_32(bytes) << 32 | big_endian_32(bytes + 4);
}

long gyre_log_record_cut(struct gyre_log_cutter *cutter, const char *bytes, size_t length,
                         struct gyre_log_message *message) {
  cutter->wanted = GYRE_LOG_RECORD_HEADER;
  if (length < GYRE_LOG_RECORD_HEADER) return 0;
  const size_t size = big_endian_32(bytes);
  if (size < BODY_LEAST) return -GYRE_LOG_MALFORMED_RECORD;
  if (size > cutter->limit) return -GYRE_LOG_TOO_LONG;
  cutter->wanted = GYRE_LOG_RECORD_HEADER + size;
  if (length - GYRE_LOG_RECORD_HEADER < size) return 0;

  const char *const body = bytes + GYRE_LOG_RECORD_HEADER;
  if (gyre_log_crc32(0, body, size) != big_endian_32(bytes + 4)) return -GYRE_LOG_CHECKSUM_FAILED;
  message->sequence = big_endian_64(body);
  if (message->sequence == 0) return -GYRE_LOG_WRONG_SEQUENCE;
  const size_t service = (unsigned char)body[16], severity = (unsigned char)body[17];
  if (BODY_LEAST + service + severity > size) return -GYRE_LOG_MALFORMED_RECORD;

  const char *const names = body + BODY_LEAST;
  message->time_us = big_endian_64(body + 8);
  message->has_time = true;
  message->service = (struct gyre_log_text){names, service};
  message->severity = (struct gyre_log_text){names + service, severity};
  message->text = (struct gyre_log_text){names + service + severity, size - BODY_LEAST - service - severity};
  message->present = true;
  return (long)(GYRE_LOG_RECORD_HEADER + size);
}
