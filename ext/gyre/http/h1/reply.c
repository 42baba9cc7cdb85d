/* Parses a response's head (h1/reply.h): status line and framing.
 *
 *   START ─► FIELD … (h1/fields.c) */
#include "http/h1/reply.h"
#include "http/h1/fields.h"
#include "http/scan.h"

#define LINE_BYTES_MIN 14 /* of "HTTP/1.1 200" CRLF */

/* HTTP-version SP 3DIGIT [ SP reason ]; `end` is the CR. Servers often omit the space before an
 * empty reason. */
static int read_line(struct gyre_http_head *head, const char *line, const char *end) {
  if (end - line < LINE_BYTES_MIN - 2 || memcmp(line, "HTTP/", 5) != 0 || !is(line[5], CLASS_DIGIT) || line[6] != '.' ||
      !is(line[7], CLASS_DIGIT) || line[8] != ' ')
    return gyre_http1_refuse(head, 502, "a first line that is not an HTTP status line");
  if (line[5] != '1') return gyre_http1_refuse(head, 502, "an HTTP version other than 1.0 and 1.1");
  const char *code = line + 9;
  for (int i = 0; i < 3; i++) {
    if (!is(code[i], CLASS_DIGIT)) return gyre_http1_refuse(head, 502, "a status that is not a number of three digits");
  }
  if (code[0] == '0') return gyre_http1_refuse(head, 502, "a status below 100");
  if (code + 3 < end && code[3] != ' ')
    return gyre_http1_refuse(head, 502, "a status that is not a number of three digits");
  if (skip_value(code + 3, end) < end) return gyre_http1_refuse(head, 502, "a control byte in the status line");
  head->minor_version = line[7] != '0';
  head->status = (uint16_t)((code[0] - '0') * 100 + (code[1] - '0') * 10 + (code[2] - '0'));
  return 1;
}

static int parse_line(struct gyre_http_head *head, const char *bytes, size_t length,
                      const struct gyre_http_head_limits *limits) {
  if (length == 0) return 0;
  const size_t most = limits->request_line_bytes;
  const size_t begun = length < 5 ? length : 5;
  if (memcmp(bytes, "HTTP/", begun) != 0)
    return gyre_http1_refuse(head, 502, "a first line that is not an HTTP status line");
  const char *feed = memchr(bytes + head->position, '\n', (length < most ? length : most) - head->position);
  if (!feed) {
    if (length >= most) return gyre_http1_refuse(head, 502, "a status line that is too long");
    head->position = (uint32_t)length;
    return 0;
  }
  if (feed == bytes || feed[-1] != '\r')
    return gyre_http1_refuse(head, 502, "a line feed without a carriage return before it");
  if (read_line(head, bytes, feed - 1) < 0) return -1;
  head->position = head->section = (uint32_t)(feed + 1 - bytes);
  head->phase = PHASE_FIELD;
  return 1;
}

static int reply_meaning(struct gyre_http_head *head, const char *bytes, const struct gyre_http_field *field) {
  const char *const value = bytes + field->value;
  const size_t length = field->value_length;
  switch (field->flags & GYRE_HTTP_FIELD_NAME_MASK) {
  case GYRE_HTTP_FIELD_CONTENT_LENGTH: return gyre_http1_read_content_length(head, value, length);
  case GYRE_HTTP_FIELD_TRANSFER_ENCODING: return gyre_http1_read_transfer_encoding(head, value, length);
  case GYRE_HTTP_FIELD_CONNECTION: gyre_http1_read_connection(head, value, length); return 0;
  default: return 0;
  }
}

int gyre_http1_reply_parse(struct gyre_http_head *head, const char *bytes, size_t length,
                           const struct gyre_http_head_limits *limits) {
  int result = 1;
  if (head->phase < PHASE_FIELD && length >= head->position) result = parse_line(head, bytes, length, limits);
  if (result <= 0) return result;
  result = gyre_http1_fields_parse(head, bytes, length, limits, reply_meaning, GYRE_HTTP1_RESPONSE);
  if (result <= 0) return result;
  bool persists = head->minor_version > 0 || (head->seen & SEEN_KEEP_ALIVE);
  if (persists && !(head->seen & SEEN_CLOSE)) head->flags |= GYRE_HTTP_HEAD_KEEP_ALIVE;
  return (int)head->position;
}

enum gyre_http1_reply_body gyre_http1_reply_body(const struct gyre_http_head *head, uint8_t method) {
  const uint16_t status = head->status;
  if (method == GYRE_HTTP_METHOD_HEAD || status < 200 || status == 204 || status == 304) return GYRE_REPLY_NONE;
  if (method == GYRE_HTTP_METHOD_CONNECT && status < 300) return GYRE_REPLY_NONE;
  if (head->flags & GYRE_HTTP_HEAD_CHUNKED) return GYRE_REPLY_CHUNKED;
  if (head->flags & GYRE_HTTP_HEAD_CONTENT_LENGTH) return head->content_length ? GYRE_REPLY_LENGTH : GYRE_REPLY_NONE;
  return GYRE_REPLY_UNTIL_CLOSE;
}
