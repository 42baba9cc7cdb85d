/*
 * Cuts messages out of a connection's bytes, and into parts: frames of the old wire, records,
 * syslog; for JSON only into lines. Called by log_decoder.c. No ruby.h; copies nothing but syslog's
 * prefix of a message.
 */
#ifndef GYRE_LOG_FRAME_H
#define GYRE_LOG_FRAME_H

#include "log/log_buffer.h"

#include <stdbool.h>

enum gyre_log_kind { GYRE_LOG_FRAMES, GYRE_LOG_RECORDS, GYRE_LOG_SYSLOG, GYRE_LOG_JSON_LINES };

/* RFC 6587, section 3.4; AUTO decides by each message's first bytes. */
enum gyre_log_framing { GYRE_LOG_AUTO, GYRE_LOG_OCTET_COUNTING, GYRE_LOG_LINES };

/* A fault in the bytes; its text follows "error: " in the reply. */
enum gyre_log_wrong {
  GYRE_LOG_CHECKSUM_FAILED = 1,
  GYRE_LOG_TOO_LONG,
  GYRE_LOG_MALFORMED_FRAME,
  GYRE_LOG_MALFORMED_RECORD,
  GYRE_LOG_WRONG_SEQUENCE,
  GYRE_LOG_SEQUENCE_JUMP,
  GYRE_LOG_CUT_OFF,
  GYRE_LOG_NO_ROOM /* not the peer's fault: a full output, or unknown stored records */
};

struct gyre_log_message {
  struct gyre_log_text service, severity, text;
  uint64_t sequence; /* 0: not a record */
  uint64_t time_us;  /* of logging, since 1970 */
  bool present;      /* an empty line has no message */
  bool has_time;
};

/* A cutter's state between calls. */
struct gyre_log_cutter {
  enum gyre_log_kind kind;
  enum gyre_log_framing framing;
  size_t limit;                    /* bytes of a message; frames must be shorter */
  size_t scanned;                  /* of an incomplete line: bytes searched in vain for its end */
  size_t wanted;                   /* minimum of bytes for the next call; 0: up to a line's end */
  struct gyre_log_buffer *scratch; /* memory for syslog's message, valid until the next call */
};

#define GYRE_LOG_FRAME_HEADER 8

/* Returns the text of an enum gyre_log_wrong. */
const char *gyre_log_wrong_text(int wrong);

/* Cuts one message off the beginning. Returns its bytes, 0 if it is incomplete (call again with
 * more bytes added), minus an enum gyre_log_wrong, or GYRE_LOG_NO_MEMORY. */
#define GYRE_LOG_NO_MEMORY (-1000)
long gyre_log_cut(struct gyre_log_cutter *cutter, const char *bytes, size_t length, struct gyre_log_message *message);
/* Takes the rest at the end: returns 0 and a message (or none), or minus an enum gyre_log_wrong. */
long gyre_log_cut_last(struct gyre_log_cutter *cutter, const char *bytes, size_t length,
                       struct gyre_log_message *message);

/* The parts of gyre_log_cut. */
long gyre_log_record_cut(struct gyre_log_cutter *cutter, const char *bytes, size_t length,
                         struct gyre_log_message *message);
long gyre_log_syslog_cut(struct gyre_log_cutter *cutter, const char *bytes, size_t length,
                         struct gyre_log_message *message);
long gyre_log_syslog_cut_last(struct gyre_log_cutter *cutter, const char *bytes, size_t length,
                              struct gyre_log_message *message);

/* Returns the first byte that ends a line, or NULL. */
const char *gyre_log_line_end(const struct gyre_log_cutter *cutter, const char *at, size_t length);
const char *gyre_log_syslog_line_end(const char *at, size_t length);

/* Works like gyre_log_cut, for a line that ends at `end`; NULL: incomplete. */
static inline long gyre_log_take_line(struct gyre_log_cutter *cutter, const char *bytes, size_t length,
                                      const char *end) {
  const size_t line = end ? (size_t)(end - bytes) : length;
  if (line > cutter->limit) return -GYRE_LOG_TOO_LONG;
  cutter->wanted = 0;
  cutter->scanned = end ? 0 : length;
  return end ? (long)line + 1 : 0;
}

/* Parses RFC 5424 and RFC 3164, from one message of any framing. Returns 0 or
 * GYRE_LOG_NO_MEMORY. */
long gyre_log_syslog_parse(const char *bytes, size_t length, struct gyre_log_buffer *scratch,
                           struct gyre_log_message *message);

#endif
