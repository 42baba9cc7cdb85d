/* Parses a request's head (h1/parser.h): the request line, and the fields that decide the framing.
 * Also parses trailers. h1/fields.c reads field lines; head.c parses authorities.
 *
 *   START ─► METHOD ─► TARGET ─► (QUERY ─►) VERSION ─► FIELD … (h1/fields.c)
 *     └─ CRLF, once ─┘ */
#include "http/h1/parser.h"
#include "http/h1/fields.h"
#include "http/scan.h"

static int refuse_target(struct gyre_http_head *head, char byte) {
  if (byte == '#') return gyre_http1_refuse(head, 400, "a fragment in the request target");
  if (byte == '\r' || byte == '\n') return gyre_http1_refuse(head, 400, "a request line without a version");
  return gyre_http1_refuse(head, 400, "a byte in the request target that is not allowed there");
}

/* Parses the rest of "HTTP/1.x" CRLF. Returns its end, or NULL and sets *result. */
static const char *parse_version(struct gyre_http_head *head, const char *bytes, const char *p, const char *stop,
                                 bool limited, int *result) {
  static const char expected[] = "HTTP/#.#\r\n";
  const char *const version = bytes + head->token;

  if (p == version && stop - p >= 10 && memcmp(p, "HTTP/1.1\r\n", 10) == 0) {
    head->minor_version = 1;
    return p + 10;
  }
  for (; p - version < 10; p++) {
    const size_t index = (size_t)(p - version);
    if (p == stop) {
      *result = gyre_http1_stop_at(head, bytes, p, limited, PHASE_VERSION);
      return NULL;
    }
    if (expected[index] == '#' ? !is(*p, CLASS_DIGIT) : *p != expected[index]) {
      *result = gyre_http1_refuse(head, 400,
                                  index < 8 ? "a malformed HTTP version" : "a request line that does not end in CRLF");
      return NULL;
    }
    if (index == 7 && version[5] != '1') {
      *result = gyre_http1_refuse(head, 505, "an HTTP version other than 1.0 and 1.1");
      return NULL;
    }
  }
  head->minor_version = version[7] != '0';
  return p;
}

/* Returns the length of a leading "http://" or "https://" (upper or lower case), or 0. */
static uint32_t scheme_length(const char *text, uint32_t length) {
  uint32_t n = 4;
  if (length < 7 || !SAME_WORD(text, 4, "http")) return 0;
  if ((text[4] | 0x20) == 's') n = 5;
  if (length < n + 3 || text[n] != ':' || text[n + 1] != '/' || text[n + 2] != '/') return 0;
  return n + 3;
}

static int parse_absolute(struct gyre_http_head *head, const char *bytes, uint32_t scheme) {
  const uint32_t start = head->target.offset + scheme;
  const uint32_t end = head->has_query ? head->query.offset - 1 : head->target.offset + head->target.length;
  struct gyre_http_authority authority;
  uint32_t slash = start;

  while (slash < end && bytes[slash] != '/') slash++;
  if (!gyre_http_authority_parse(&authority, bytes, start, slash - start)) {
    return gyre_http1_refuse(head, 400, "a request target that names no host");
  }
  gyre_http_authority_assign(head, &authority);
  head->target_form = GYRE_HTTP_TARGET_ABSOLUTE;
  head->path.offset = slash < end ? slash : start - 1; /* "http://host": points at a slash of "//" */
  head->path.length = slash < end ? end - slash : 1;
  return 0;
}

/* Sets path and authority from head->target (RFC 9112, section 3.2). Keeps percent-encoding.
 * Returns 0, or -1 for a refusal. */
static int parse_target(struct gyre_http_head *head, const char *bytes) {
  const char *const target = bytes + head->target.offset;
  struct gyre_http_authority authority;
  uint32_t scheme;

  head->path = head->target;
  if (head->method_number == GYRE_HTTP_METHOD_CONNECT) {
    if (!gyre_http_authority_parse(&authority, bytes, head->target.offset, head->target.length) ||
        authority.port.length == 0) {
      return gyre_http1_refuse(head, 400, "a CONNECT whose target is not host:port");
    }
    gyre_http_authority_assign(head, &authority);
    head->target_form = GYRE_HTTP_TARGET_AUTHORITY;
    return 0;
  }
  if (*target == '/') {
    if (head->has_query) head->path.length = head->query.offset - 1 - head->path.offset;
    return 0;
  }
  scheme = scheme_length(target, head->target.length);
  if (scheme > 0) return parse_absolute(head, bytes, scheme);
  if (*target == '*' && head->target.length == 1) {
    if (head->method_number != GYRE_HTTP_METHOD_OPTIONS) {
      return gyre_http1_refuse(head, 400, "the request target * with a method other than OPTIONS");
    }
    head->target_form = GYRE_HTTP_TARGET_ASTERISK;
    return 0;
  }
  return gyre_http1_refuse(head, 400, "a request target that is neither a path nor an http URI");
}

/* Returns 1 after the request line, 0 if it is incomplete, -1 if it is refused. */
static int parse_request_line(struct gyre_http_head *head, const char *bytes, size_t length,
                              const struct gyre_http_head_limits *limits) {
  const uint32_t bytes_max = limits->request_line_bytes < GYRE_HTTP1_SECTION_BYTES_MAX ? limits->request_line_bytes
                                                                                       : GYRE_HTTP1_SECTION_BYTES_MAX;
  const char *p = bytes + head->position, *stop = bytes + length, *method;
  bool limited = false;
  int result = 0;

  /* Skips one empty line before the request line (RFC 9112, section 2.2). */
  if (head->phase == PHASE_START) {
    if (p == stop) return 0;
    if (*p == '\r') {
      p++;
      head->phase = PHASE_START_LF;
      head->position = 1;
    } else {
      head->phase = PHASE_METHOD;
    }
  }
  if (head->phase == PHASE_START_LF) {
    if (p == stop) return 0;
    if (*p != '\n') return gyre_http1_refuse(head, 400, "a carriage return without a line feed after it");
    p++;
    head->phase = PHASE_METHOD;
    head->position = head->section = head->token = 2;
  }
  if (length - head->section >= bytes_max) {
    limited = true;
    stop = bytes + head->section + bytes_max;
  }

#define NEED(phase)                                                                                                    \
  if (p == stop) return gyre_http1_stop_at(head, bytes, p, limited, phase)

  if (p > stop) return gyre_http1_stop_at(head, bytes, p, limited, PHASE_METHOD); /* the limits are smaller by now */
  switch ((enum gyre_http1_phase)head->phase) {
  case PHASE_TARGET: goto target;
  case PHASE_QUERY: goto query;
  case PHASE_VERSION: goto version;
  default: break;
  }

  method = bytes + head->token;
  p = skip_class(p, stop - method > GYRE_HTTP_METHOD_BYTES_LIMIT ? method + GYRE_HTTP_METHOD_BYTES_LIMIT + 1 : stop,
                 CLASS_TOKEN);
  if (p - method > GYRE_HTTP_METHOD_BYTES_LIMIT) return gyre_http1_refuse(head, 501, "a method that is too long");
  NEED(PHASE_METHOD);
  if (*p != ' ' || p == method) return gyre_http1_refuse(head, 400, "a first line that is not an HTTP request line");
  head->method.offset = head->token;
  head->method.length = (uint32_t)(p - method);
  head->method_number = gyre_http_method_number(method, head->method.length);
  p++;
  head->token = (uint32_t)(p - bytes);
target:
  p = skip_target(p, stop);
  NEED(PHASE_TARGET);
  if (*p == '?') {
    p++;
    head->has_query = 1;
    head->query.offset = (uint32_t)(p - bytes);
  query:
    while ((p = skip_target(p, stop)) < stop && *p == '?') p++;
    NEED(PHASE_QUERY);
  }
  if (*p != ' ') return refuse_target(head, *p);
  head->target.offset = head->token;
  head->target.length = (uint32_t)(p - bytes) - head->token;
  if (head->target.length == 0) return gyre_http1_refuse(head, 400, "a request line without a target");
  if (head->has_query) head->query.length = (uint32_t)(p - bytes) - head->query.offset;
  p++;
  head->token = (uint32_t)(p - bytes);
version:
  if ((p = parse_version(head, bytes, p, stop, limited, &result)) == NULL) return result;
#undef NEED
  head->position = head->section = (uint32_t)(p - bytes);
  head->phase = PHASE_FIELD;
  return parse_target(head, bytes) == 0 ? 1 : -1;
}

/* Reads one 1*DIGIT (RFC 9112, section 6.3); refuses even a list of equal numbers. */
int gyre_http1_read_content_length(struct gyre_http_head *head, const char *value, size_t length) {
  uint64_t number = 0, digit;
  if (head->flags & GYRE_HTTP_HEAD_CONTENT_LENGTH) return gyre_http1_refuse(head, 400, "more than one Content-Length");
  if (head->seen & SEEN_TRANSFER_ENCODING)
    return gyre_http1_refuse(head, 400, "Content-Length together with Transfer-Encoding");
  if (length == 0) return gyre_http1_refuse(head, 400, "an empty Content-Length");
  for (size_t i = 0; i < length; i++) {
    if (!is(value[i], CLASS_DIGIT)) return gyre_http1_refuse(head, 400, "a Content-Length that is not a number");
    digit = (uint64_t)(value[i] - '0');
    if (number > (GYRE_HTTP_BODY_LENGTH_MAX - digit) / 10)
      return gyre_http1_refuse(head, 400, "a Content-Length that is too large");
    number = number * 10 + digit;
  }
  head->content_length = (int64_t)number;
  head->flags |= GYRE_HTTP_HEAD_CONTENT_LENGTH;
  return 0;
}

/* Accepts only "chunked". Refuses ambiguous framing with 400, other codings with 501. */
int gyre_http1_read_transfer_encoding(struct gyre_http_head *head, const char *value, size_t length) {
  const char *p = value, *const end = value + length, *coding, *name_end;
  size_t coding_length, others = 0;
  bool chunked = false;

  if (head->seen & SEEN_TRANSFER_ENCODING) return gyre_http1_refuse(head, 400, "more than one Transfer-Encoding");
  if (head->flags & GYRE_HTTP_HEAD_CONTENT_LENGTH)
    return gyre_http1_refuse(head, 400, "Content-Length together with Transfer-Encoding");
  if (head->minor_version == 0) return gyre_http1_refuse(head, 400, "Transfer-Encoding in HTTP/1.0");
  head->seen |= SEEN_TRANSFER_ENCODING;
  while (gyre_http_next_element(&p, end, &coding, &coding_length)) {
    if (chunked)
      return gyre_http1_refuse(head, 400, "a Transfer-Encoding in which chunked is not the last and only once");
    name_end = skip_class(coding, coding + coding_length, CLASS_TOKEN);
    if (name_end == coding || (name_end < coding + coding_length && *name_end != ';' && !is_blank(*name_end))) {
      return gyre_http1_refuse(head, 400, "a malformed Transfer-Encoding");
    }
    if (SAME_WORD(coding, (size_t)(name_end - coding), "chunked")) {
      if (name_end < coding + coding_length) return gyre_http1_refuse(head, 400, "a malformed Transfer-Encoding");
      chunked = true;
    } else {
      others++;
    }
  }
  if (others > 0) return gyre_http1_refuse(head, 501, "a transfer coding other than chunked");
  if (!chunked) return gyre_http1_refuse(head, 400, "a malformed Transfer-Encoding");
  head->flags |= GYRE_HTTP_HEAD_CHUNKED;
  return 0;
}

/* Ignores unknown options. */
void gyre_http1_read_connection(struct gyre_http_head *head, const char *value, size_t length) {
  const char *p = value, *option;
  size_t option_length;
  while (gyre_http_next_element(&p, value + length, &option, &option_length)) {
    if (skip_class(option, option + option_length, CLASS_TOKEN) < option + option_length) continue;
    if (SAME_WORD(option, option_length, "close"))
      head->seen |= SEEN_CLOSE;
    else if (SAME_WORD(option, option_length, "keep-alive"))
      head->seen |= SEEN_KEEP_ALIVE;
    else if (SAME_WORD(option, option_length, "upgrade"))
      head->seen |= SEEN_CONNECTION_UPGRADE;
  }
}

/* Ignores Expect in HTTP/1.0 (RFC 9110, section 10.1.1). */
static int read_expect(struct gyre_http_head *head, const char *value, size_t length) {
  if (head->minor_version == 0) return 0;
  if (skip_class(value, value + length, CLASS_TOKEN) < value + length || !SAME_WORD(value, length, "100-continue")) {
    return gyre_http1_refuse(head, 417, "an expectation other than 100-continue");
  }
  head->seen |= SEEN_EXPECT;
  return 0;
}

/* An absolute target has precedence, but Host must still be valid (RFC 9112, section 3.2). */
static int read_host(struct gyre_http_head *head, const char *bytes, const struct gyre_http_field *field) {
  struct gyre_http_authority authority;
  if (head->seen & SEEN_HOST) return gyre_http1_refuse(head, 400, "more than one Host");
  head->seen |= SEEN_HOST;
  if (!gyre_http_authority_parse(&authority, bytes, field->value, field->value_length)) {
    return gyre_http1_refuse(head, 400, "a Host that names no host");
  }
  if (head->authority.length == 0) gyre_http_authority_assign(head, &authority);
  return 0;
}

static int header_meaning(struct gyre_http_head *head, const char *bytes, const struct gyre_http_field *field) {
  const char *const value = bytes + field->value;
  const size_t length = field->value_length;
  switch (field->flags & GYRE_HTTP_FIELD_NAME_MASK) {
  case GYRE_HTTP_FIELD_HOST: return read_host(head, bytes, field);
  case GYRE_HTTP_FIELD_CONTENT_LENGTH: return gyre_http1_read_content_length(head, value, length);
  case GYRE_HTTP_FIELD_TRANSFER_ENCODING: return gyre_http1_read_transfer_encoding(head, value, length);
  case GYRE_HTTP_FIELD_EXPECT: return read_expect(head, value, length);
  case GYRE_HTTP_FIELD_CONNECTION: gyre_http1_read_connection(head, value, length); return 0;
  case GYRE_HTTP_FIELD_UPGRADE:
    if (length > 0) head->seen |= SEEN_UPGRADE;
    return 0;
  default: return 0;
  }
}

static int conclude(struct gyre_http_head *head) {
  const unsigned seen = head->seen;
  if (head->minor_version > 0) {
    if (!(seen & SEEN_HOST)) return gyre_http1_refuse(head, 400, "an HTTP/1.1 request without Host");
    if (!(seen & SEEN_CLOSE)) head->flags |= GYRE_HTTP_HEAD_KEEP_ALIVE;
    if ((seen & SEEN_UPGRADE) && (seen & SEEN_CONNECTION_UPGRADE)) head->flags |= GYRE_HTTP_HEAD_UPGRADE;
    if ((seen & SEEN_EXPECT) && ((head->flags & GYRE_HTTP_HEAD_CHUNKED) || head->content_length > 0)) {
      head->flags |= GYRE_HTTP_HEAD_EXPECT_CONTINUE;
    }
  } else if ((seen & SEEN_KEEP_ALIVE) && !(seen & SEEN_CLOSE)) {
    head->flags |= GYRE_HTTP_HEAD_KEEP_ALIVE;
  }
  return (int)head->position;
}

void gyre_http1_head_reset(struct gyre_http_head *head, struct gyre_http_field *fields, uint16_t capacity) {
  memset(head, 0, sizeof(*head));
  head->fields = fields;
  head->field_capacity = capacity;
  head->content_length = -1;
}

int gyre_http1_head_parse(struct gyre_http_head *head, const char *bytes, size_t length,
                          const struct gyre_http_head_limits *limits) {
  int result = 1;
  if (head->phase < PHASE_FIELD && length >= head->position) result = parse_request_line(head, bytes, length, limits);
  if (result <= 0) return result;
  result = gyre_http1_fields_parse(head, bytes, length, limits, header_meaning, GYRE_HTTP1_REQUEST);
  return result > 0 ? conclude(head) : result;
}

static int trailer_meaning(struct gyre_http_head *trailers, const char *bytes, const struct gyre_http_field *field) {
  return gyre_http_is_no_trailer(bytes + field->name, field->name_length);
}

void gyre_http1_trailers_reset(struct gyre_http_head *trailers, struct gyre_http_field *fields, uint16_t capacity) {
  gyre_http1_head_reset(trailers, fields, capacity);
  trailers->phase = PHASE_FIELD;
}

int gyre_http1_trailers_parse(struct gyre_http_head *trailers, const char *bytes, size_t length,
                              const struct gyre_http_head_limits *limits) {
  int result = gyre_http1_fields_parse(trailers, bytes, length, limits, trailer_meaning, GYRE_HTTP1_TRAILERS);
  return result > 0 ? (int)trailers->position : result;
}
