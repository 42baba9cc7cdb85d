/* Records of the versioned wire (lib/gyre/log/wire/records.rb draws one): writes, counts, finds and
 * converts them for the client's outbox; cuts them for the ingest (gyre_log_record_cut in
 * log_frame.h). No ruby.h, no allocation. */
#pragma once

#include "log/log_buffer.h"

/* Length and checksum, which cover later bytes. */
#define GYRE_LOG_RECORD_PREFIX 8
/* Prefix, sequence number, time, two lengths. */
#define GYRE_LOG_RECORD_HEAD 26
/* A frame without service, severity and message; its limit. */
#define GYRE_LOG_BATCH_FRAME_HEAD 11
#define GYRE_LOG_BATCH_FRAME_LIMIT 8191

struct gyre_log_measure {
  size_t bytes;           /* of whole, undamaged records at the beginning */
  size_t count;           /* of these records */
  uint64_t last_sequence; /* the last record's, or 0 */
};

/* Service and severity have up to 255 bytes. */
void gyre_log_record_write(char *at, uint64_t sequence, uint64_t time_us, struct gyre_log_text service,
                           struct gyre_log_text severity, struct gyre_log_text message);

/* Reads records until one is incomplete, longer than `limit`, or has a wrong checksum. */
struct gyre_log_measure gyre_log_batch_measure(const char *bytes, size_t length, size_t limit);

/* Returns the first whole record with a greater number. */
size_t gyre_log_batch_after(const char *bytes, size_t length, uint64_t sequence);

/* Writes the frames of whole records, which are longer. Returns their length; `dropped`: records
 * that no frame can carry. */
size_t gyre_log_batch_frames(char *to, const char *bytes, size_t length, size_t *dropped);
/* Returns the first record whose frame ends after `frames` bytes. */
size_t gyre_log_batch_framed(const char *bytes, size_t length, size_t frames);
