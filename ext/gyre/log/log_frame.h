/* Cuts a connection's bytes into messages and parts: frames of the old wire, records, syslog; JSON
 * only into lines. No ruby.h; copies nothing but a prefix of syslog's messages. */
#pragma once

#include "log/log_buffer.h"

#include <stdbool.h>

enum gyre_log_kind { GYRE_LOG_FRAMES, GYRE_LOG_RECORDS, GYRE_LOG_SYSLOG, GYRE_LOG_JSON_LINES };

/* RFC 6587, section 3.4; AUTO: by each message's first bytes. */
enum gyre_log_framing { GYRE_LOG_AUTO, GYRE_LOG_OCTET_COUNTING, GYRE_LOG_LINES };

/* A fault; its text follows "error: " in the reply. */
enum gyre_log_wrong {
  GYRE_LOG_CHECKSUM_FAILED = 1,
  GYRE_LOG_TOO_LONG,
  GYRE_LOG_MALFORMED_FRAME,
  GYRE_LOG_MALFORMED_RECORD,
  GYRE_LOG_WRONG_SEQUENCE,
  GYRE_LOG_SEQUENCE_JUMP,
  GYRE_LOG_CUT_OFF,
  GYRE_LOG_NO_ROOM /* an output is full, or its stored records are unknown */
};

struct gyre_log_message {
  struct gyre_log_text service, severity, text;
  uint64_t sequence; /* 0: not a record */
  uint64_t time_us;  /* of logging, since 1970 */
  bool present;      /* an empty line has no message */
  bool has_time;
};

struct gyre_log_cutter {
  enum gyre_log_kind kind;
  enum gyre_log_framing framing;
  size_t limit;                    /* of a message; frames must be shorter */
  size_t scanned;                  /* an incomplete line's bytes without an end */
  size_t wanted;                   /* least bytes for the next call; 0: up to a line's end */
  struct gyre_log_buffer *scratch; /* for syslog's message, until the next call */
};

#define GYRE_LOG_FRAME_HEADER 8

const char *gyre_log_wrong_text(int wrong);

/* Cuts off one message. Returns its bytes, 0 if incomplete (call again with more), minus an enum
 * gyre_log_wrong, or GYRE_LOG_NO_MEMORY. */
#define GYRE_LOG_NO_MEMORY (-1000)
long gyre_log_cut(struct gyre_log_cutter *cutter, const char *bytes, size_t length, struct gyre_log_message *message);
/* Takes the rest: returns 0 and maybe a message, or minus an enum gyre_log_wrong. */
long gyre_log_cut_last(struct gyre_log_cutter *cutter, const char *bytes, size_t length,
                       struct gyre_log_message *message);

/* Parts of gyre_log_cut; syslog's are for JSON, too: both are lines. */
long gyre_log_record_cut(struct gyre_log_cutter *cutter, const char *bytes, size_t length,
                         struct gyre_log_message *message);
long gyre_log_syslog_cut(struct gyre_log_cutter *cutter, const char *bytes, size_t length,
                         struct gyre_log_message *message);
long gyre_log_syslog_cut_last(struct gyre_log_cutter *cutter, const char *bytes, size_t length,
                              struct gyre_log_message *message);

/* Returns the byte that ends a line, or NULL. */
const char *gyre_log_line_end(const struct gyre_log_cutter *cutter, const char *at, size_t length);

/* Parses a message by RFC 5424 or RFC 3164. Returns 0 or GYRE_LOG_NO_MEMORY. */
long gyre_log_syslog_parse(const char *bytes, size_t length, struct gyre_log_buffer *scratch,
                           struct gyre_log_message *message);
