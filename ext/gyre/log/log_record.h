/*
 * Records of the versioned wire (lib/gyre/log/wire/records.rb draws one). Writes, counts, finds and
 * converts records for the client's outbox; cuts them off for the ingest (gyre_log_record_cut in
 * log_frame.h). No ruby.h; nothing is allocated.
 */
#ifndef GYRE_LOG_RECORD_H
#define GYRE_LOG_RECORD_H

#include "log/log_buffer.h"

/* Length and checksum cover only the bytes behind them. */
#define GYRE_LOG_RECORD_PREFIX 8
/* Bytes before the service: the prefix, sequence number, time, two lengths. */
#define GYRE_LOG_RECORD_HEAD 26
/* Bytes of a frame besides service, severity and message; and the limit of its length. */
#define GYRE_LOG_BATCH_FRAME_HEAD 11
#define GYRE_LOG_BATCH_FRAME_LIMIT 8191

struct gyre_log_measure {
  size_t bytes;           /* of the whole, undamaged records at the beginning */
  size_t count;           /* number of these records */
  uint64_t last_sequence; /* of the last record; 0 without records */
};

/* Returns the length of the record. Service and severity have at most 255 bytes. */
static inline size_t gyre_log_record_length(size_t service, size_t severity, size_t message) {
  return GYRE_LOG_RECORD_HEAD + service + severity + message;
}

/* Writes a record of that length. */
void gyre_log_record_write(char *at, uint64_t sequence, uint64_t time_us, struct gyre_log_text service,
                           struct gyre_log_text severity, struct gyre_log_text message);

/* Reads records from the beginning until one is incomplete, longer than `limit`, or has a wrong
 * checksum. */
struct gyre_log_measure gyre_log_batch_measure(const char *bytes, size_t length, size_t limit);

/* Returns the offset of the first record with a greater sequence number; the records are whole. */
size_t gyre_log_batch_after(const char *bytes, size_t length, uint64_t sequence);

/* Writes the frames of these whole records; frames are shorter than records. Returns their length;
 * `dropped` counts records that a frame cannot carry. */
size_t gyre_log_batch_frames(char *to, const char *bytes, size_t length, size_t *dropped);
/* Returns the offset of the first record whose frame ends after that many bytes of the frames. */
size_t gyre_log_batch_framed(const char *bytes, size_t length, size_t frames);

#endif
