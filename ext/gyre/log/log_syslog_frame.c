/*
 * Where syslog's messages begin and end on a stream: RFC 6587 (see log_frame.h). "11 <13>message" counts its bytes, everything else
 * ends with a line feed or a zero byte; one connection may mix them.
 */
#include "log/log_frame.h"

#define DIGITS_MAX 9
#define LINE_STEP 512

enum head { MORE, LINE, COUNTED, WRONG };

/* What kind of message begins here; for a counted one how long its head and its message are. */
static enum head read_head(const struct gyre_log_cutter *cutter, const char *bytes, size_t length, size_t *start,
                           size_t *count) {
  const bool strict = cutter->framing == GYRE_LOG_OCTET_COUNTING;
  const enum head other = strict ? WRONG : LINE;
  size_t at = 0;
  if (cutter->framing == GYRE_LOG_LINES) return LINE;
  if (length == 0) return MORE;
  if (bytes[0] == '0') return other;
  *count = 0;
  while (at < length && at <= DIGITS_MAX && bytes[at] >= '0' && bytes[at] <= '9')
    *count = *count * 10 + (size_t)(bytes[at++] - '0');
  if (at > DIGITS_MAX) return other;
  if (at == length) return MORE;
  if (at == 0 || bytes[at] != ' ') return other;
  *start = ++at;
  if (strict) return COUNTED;
  if (at == length) return MORE;
  return bytes[at] == '<' ? COUNTED : LINE; /* a line may begin with a number, too */
}

static long counted_cut(struct gyre_log_cutter *cutter, const char *bytes, size_t length, size_t start, size_t count,
                        struct gyre_log_message *message) {
  if (count > cutter->limit) return -GYRE_LOG_TOO_LONG;
  cutter->wanted = start + count;
  if (length - start < count) return 0;
  const long wrong = gyre_log_syslog_parse(bytes + start, count, cutter->scratch, message);
  return wrong < 0 ? wrong : (long)(start + count);
}

/* A zero byte ends a message as well (RFC 6587 section 3.4.2; Python's SysLogHandler). In steps, for one of the two may never come. */
const char *gyre_log_syslog_line_end(const char *at, size_t length) {
  while (length > 0) {
    const size_t step = length < LINE_STEP ? length : LINE_STEP;
    const char *const feed = memchr(at, '\n', step);
    const char *const zero = memchr(at, '\0', feed ? (size_t)(feed - at) : step);
    if (feed || zero) return zero ? zero : feed;
    at += step;
    length -= step;
  }
  return NULL;
}

static long line_cut(struct gyre_log_cutter *cutter, const char *bytes, size_t length,
                     struct gyre_log_message *message) {
  const char *const from = bytes + cutter->scanned;
  const char *const end = length > cutter->scanned ? gyre_log_syslog_line_end(from, length - cutter->scanned) : NULL;
  const size_t line = end ? (size_t)(end - bytes) : length;
  if (line > cutter->limit) return -GYRE_LOG_TOO_LONG;
  cutter->wanted = 0;
  cutter->scanned = end ? 0 : length;
  if (!end) return 0;
  const long wrong = gyre_log_syslog_parse(bytes, line, cutter->scratch, message);
  return wrong < 0 ? wrong : (long)line + 1;
}

long gyre_log_syslog_cut(struct gyre_log_cutter *cutter, const char *bytes, size_t length,
                         struct gyre_log_message *message) {
  size_t start = 0, count = 0;
  if (cutter->scanned > 0) return line_cut(cutter, bytes, length, message);
  switch (read_head(cutter, bytes, length, &start, &count)) {
  case MORE: cutter->wanted = length + 1; return 0;
  case WRONG: return -GYRE_LOG_MALFORMED_FRAME;
  case COUNTED: return counted_cut(cutter, bytes, length, start, count, message);
  default: return line_cut(cutter, bytes, length, message);
  }
}

/* A line need not have ended; whether "12" would have counted bytes is unknown then. */
long gyre_log_syslog_cut_last(struct gyre_log_cutter *cutter, const char *bytes, size_t length,
                              struct gyre_log_message *message) {
  size_t start, count;
  if (cutter->framing == GYRE_LOG_OCTET_COUNTING ||
      (cutter->scanned == 0 && read_head(cutter, bytes, length, &start, &count) == COUNTED))
    return -GYRE_LOG_CUT_OFF;
  return gyre_log_syslog_parse(bytes, length, cutter->scratch, message);
}
