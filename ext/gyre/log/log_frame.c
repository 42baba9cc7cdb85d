/* Cuts frames of the old wire (lib/gyre/log/wire.rb); chooses the cutter for other kinds. */
#include "log/log_frame.h"

#define LENGTH_LEAST (GYRE_LOG_FRAME_HEADER + 3)

const char *gyre_log_wrong_text(int wrong) {
  switch (wrong) {
  case GYRE_LOG_CHECKSUM_FAILED: return "checksum failed";
  case GYRE_LOG_TOO_LONG: return "max length exceeded";
  case GYRE_LOG_MALFORMED_FRAME: return "malformed frame";
  case GYRE_LOG_MALFORMED_RECORD: return "malformed record";
  case GYRE_LOG_NO_ROOM: return "an output cannot take it at present; send it again";
  case GYRE_LOG_WRONG_SEQUENCE: return "sequence number 0";
  case GYRE_LOG_SEQUENCE_JUMP: return "sequence number too far ahead";
  default: return "frame cut off";
  }
}

/* Parses the length, four digits that are sent twice. Returns 0 if it is invalid. */
static size_t frame_length(const char *bytes) {
  size_t length = 0;
  if (memcmp(bytes, bytes + 4, 4) != 0) return 0;
  for (int i = 0; i < 4; i++) {
    if (bytes[i] < '0' || bytes[i] > '9') return 0;
    length = length * 10 + (size_t)(bytes[i] - '0');
  }
  return length;
}

static long frame_cut(struct gyre_log_cutter *cutter, const char *bytes, size_t length,
                      struct gyre_log_message *message) {
  cutter->wanted = GYRE_LOG_FRAME_HEADER;
  if (length < GYRE_LOG_FRAME_HEADER) return 0;
  const size_t frame = frame_length(bytes);
  if (frame < LENGTH_LEAST) return -GYRE_LOG_CHECKSUM_FAILED;
  if (frame >= cutter->limit) return -GYRE_LOG_TOO_LONG;
  cutter->wanted = frame;
  if (length < frame) return 0;

  const char *const service = bytes + GYRE_LOG_FRAME_HEADER + 1, *const end = bytes + frame;
  if (service[-1] != ':') return -GYRE_LOG_MALFORMED_FRAME;
  const char *const service_end = memchr(service, ':', (size_t)(end - service));
  if (!service_end) return -GYRE_LOG_MALFORMED_FRAME;
  const char *const severity = service_end + 1, *const severity_end = memchr(severity, ':', (size_t)(end - severity));
  if (!severity_end) return -GYRE_LOG_MALFORMED_FRAME;

  message->service = (struct gyre_log_text){service, (size_t)(service_end - service)};
  message->severity = (struct gyre_log_text){severity, (size_t)(severity_end - severity)};
  message->text = (struct gyre_log_text){severity_end + 1, (size_t)(end - severity_end - 1)};
  message->present = true;
  return (long)frame;
}

long gyre_log_cut(struct gyre_log_cutter *cutter, const char *bytes, size_t length, struct gyre_log_message *message) {
  message->sequence = 0;
  message->present = message->has_time = false;
  switch (cutter->kind) {
  case GYRE_LOG_FRAMES: return frame_cut(cutter, bytes, length, message);
  case GYRE_LOG_RECORDS: return gyre_log_record_cut(cutter, bytes, length, message);
  default: return gyre_log_syslog_cut(cutter, bytes, length, message);
  }
}

long gyre_log_cut_last(struct gyre_log_cutter *cutter, const char *bytes, size_t length,
                       struct gyre_log_message *message) {
  message->sequence = 0;
  message->present = message->has_time = false;
  if (cutter->kind == GYRE_LOG_FRAMES || cutter->kind == GYRE_LOG_RECORDS) return -GYRE_LOG_CUT_OFF;
  return gyre_log_syslog_cut_last(cutter, bytes, length, message);
}
