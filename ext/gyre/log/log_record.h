/* Records of the versioned wire (drawn in lib/gyre/log/wire/records.rb). Writes, counts, finds and
 * converts records for the client's outbox. The ingest cuts them by gyre_log_record_cut
 * (log_frame.h). No ruby.h, no allocation. */
#pragma once

#include "log/log_buffer.h"

/* Bytes of length and checksum; both are computed from the bytes behind them. */
#define GYRE_LOG_RECORD_PREFIX 8
/* Bytes of prefix, sequence number, time and two lengths. */
#define GYRE_LOG_RECORD_HEAD 26
#define GYRE_LOG_BATCH_FRAME_HEAD 11    /* bytes of a frame besides service, severity and message */
#define GYRE_LOG_BATCH_FRAME_LIMIT 8191 /* maximum bytes of a frame */

struct gyre_log_measure {
  size_t bytes;           /* bytes of whole, undamaged records at the beginning */
  size_t count;           /* number of these records */
  uint64_t last_sequence; /* number of the last of these records, or 0 */
};

/* Service and severity must have at most 255 bytes each. */
void gyre_log_record_write(char *at, uint64_t sequence, uint64_t time_us, struct gyre_log_text service,
                           struct gyre_log_text severity, struct gyre_log_text message);

/* Reads records until one is incomplete, longer than `limit`, or has a wrong checksum. */
struct gyre_log_measure gyre_log_batch_measure(const char *bytes, size_t length, size_t limit);

/* Returns the length of the leading whole records whose numbers are at most `sequence`. */
size_t gyre_log_batch_after(const char *bytes, size_t length, uint64_t sequence);

/* Converts whole records to frames, which are shorter. Returns the frames' length. `*dropped`
 * becomes the number of records that no frame can carry. */
size_t gyre_log_batch_frames(char *to, const char *bytes, size_t length, size_t *dropped);
/* Returns the offset of the first record whose frame is not wholly in the first `frames` bytes of
 * the frames. */
size_t gyre_log_batch_framed(const char *bytes, size_t length, size_t frames);
