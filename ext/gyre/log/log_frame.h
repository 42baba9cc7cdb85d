/* Cuts a connection's bytes into messages and their parts: frames of the old wire, records, syslog.
 * Cuts JSON only into lines. Copies only syslog messages that get a prefix. No ruby.h. */
#pragma once

#include "log/log_buffer.h"

enum gyre_log_kind { GYRE_LOG_FRAMES, GYRE_LOG_RECORDS, GYRE_LOG_SYSLOG, GYRE_LOG_JSON_LINES };

/* Framing of syslog (RFC 6587, section 3.4). AUTO: each message's first bytes decide. ZERO: only
 * a zero byte ends a message, so that it may have line ends. */
enum gyre_log_framing { GYRE_LOG_AUTO, GYRE_LOG_OCTET_COUNTING, GYRE_LOG_LINES, GYRE_LOG_ZERO };

/* Faults of received bytes. The server replies "error: " and the fault's text. */
enum gyre_log_wrong {
  GYRE_LOG_CHECKSUM_FAILED = 1,
  GYRE_LOG_TOO_LONG,
  GYRE_LOG_MALFORMED_FRAME,
  GYRE_LOG_MALFORMED_RECORD,
  GYRE_LOG_WRONG_SEQUENCE,
  GYRE_LOG_SEQUENCE_JUMP,
  GYRE_LOG_CUT_OFF,
  GYRE_LOG_NO_ROOM /* an output is full, or it is unknown which records the output has */
};

struct gyre_log_message {
  struct gyre_log_text service, severity, text;
  struct gyre_log_text host, process, facility; /* of syslog; empty: unknown */
  uint64_t sequence;                            /* 0: not a record */
  uint64_t time_us;                             /* time of logging, µs since 1970; valid if has_time */
  bool present;                                 /* false for an empty line */
  bool has_time;
};

struct gyre_log_cutter {
  enum gyre_log_kind kind;
  enum gyre_log_framing framing;
  size_t limit;                    /* maximum bytes of a message; a frame must have fewer */
  size_t scanned;                  /* bytes of an incomplete line already searched for its end */
  bool skip_line;                  /* the line's start was taken; its rest is skipped */
  size_t skip_count;               /* bytes that are skipped, as part of a counted message */
  uint64_t overlong;               /* messages beyond the limit, which were cut */
  size_t wanted;                   /* the next call needs at least these bytes; 0: a line's end */
  struct gyre_log_buffer *scratch; /* holds a syslog message with its prefix, until the next call */
};

#define GYRE_LOG_FRAME_HEADER 8

const char *gyre_log_wrong_text(int wrong);

/* Cuts one message off. Returns the number of its bytes; 0 if it is incomplete (call again with
 * more bytes); a negative enum gyre_log_wrong; or GYRE_LOG_NO_MEMORY. */
#define GYRE_LOG_NO_MEMORY (-1000)
long gyre_log_cut(struct gyre_log_cutter *cutter, const char *bytes, size_t length, struct gyre_log_message *message);
/* At the input's end, takes the rest as a message. Returns 0, or an error as gyre_log_cut. */
long gyre_log_cut_last(struct gyre_log_cutter *cutter, const char *bytes, size_t length,
                       struct gyre_log_message *message);

/* Parts of gyre_log_cut. The functions for syslog also cut JSON, because both have lines. */
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
