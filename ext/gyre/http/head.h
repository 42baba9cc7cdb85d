/* A request's head as offsets into its bytes, for any version: filled by HTTP/1's parser and
 * HTTP/2's session, read by env.c. Also checks names and values. No ruby.h. */
#pragma once

#include "feature.h"

struct gyre_http_slice {
  uint32_t offset;
  uint32_t length;
};

/* A header or trailer line. The name is as sent; the value has no surrounding blanks. */
struct gyre_http_field {
  uint32_t name;
  uint32_t value;
  uint32_t value_length;
  uint16_t name_length;
  uint16_t flags; /* enum gyre_http_field_flag: known name and form */
};

/* field.flags & GYRE_HTTP_FIELD_NAME_MASK is the number of a name that the parser interprets. */
enum gyre_http_field_flag {
  GYRE_HTTP_FIELD_OTHER = 0,
  GYRE_HTTP_FIELD_HOST,
  GYRE_HTTP_FIELD_CONNECTION,
  GYRE_HTTP_FIELD_CONTENT_LENGTH,
  GYRE_HTTP_FIELD_TRANSFER_ENCODING,
  GYRE_HTTP_FIELD_EXPECT,
  GYRE_HTTP_FIELD_UPGRADE,
  GYRE_HTTP_FIELD_NAME_MASK = 0xff,
  GYRE_HTTP_FIELD_UNDERSCORE = 0x100 /* the name has "_", which CGI confuses with "-" */
};

/* Limits of a head. A value equal to its limit is allowed. */
struct gyre_http_head_limits {
  uint32_t request_line_bytes; /* with CRLF; beyond: 414 */
  uint32_t header_bytes;       /* bytes of header lines with the blank line; beyond: 431 */
  uint16_t header_count;       /* also limited by head->field_capacity; more fields: 431 */
};

#define GYRE_HTTP_METHOD_BYTES_LIMIT 64               /* beyond: 501 */
#define GYRE_HTTP_NAME_BYTES_LIMIT 1024               /* bytes of a field name; beyond: 431 */
#define GYRE_HTTP_BODY_LENGTH_MAX (UINT64_C(1) << 62) /* of a body or of a chunk; beyond: 400 */
#define GYRE_HTTP_VERSION_2 2

/* Methods as numbers, so that text is compared once. */
enum gyre_http_method {
  GYRE_HTTP_METHOD_OTHER = 0,
  GYRE_HTTP_METHOD_GET,
  GYRE_HTTP_METHOD_HEAD,
  GYRE_HTTP_METHOD_POST,
  GYRE_HTTP_METHOD_PUT,
  GYRE_HTTP_METHOD_DELETE,
  GYRE_HTTP_METHOD_CONNECT,
  GYRE_HTTP_METHOD_OPTIONS,
  GYRE_HTTP_METHOD_TRACE,
  GYRE_HTTP_METHOD_PATCH,
  GYRE_HTTP_METHODS
};

extern const char *const gyre_http_method_names[GYRE_HTTP_METHODS];
uint8_t gyre_http_method_number(const char *text, size_t length);

/* RFC 9112, section 3.2. */
enum gyre_http_target {
  GYRE_HTTP_TARGET_ORIGIN = 0, /* /path?query */
  GYRE_HTTP_TARGET_ABSOLUTE,   /* http://authority/path?query */
  GYRE_HTTP_TARGET_AUTHORITY,  /* host:port, CONNECT only */
  GYRE_HTTP_TARGET_ASTERISK    /* *, OPTIONS only */
};

/* Bits of head.flags, complete after a parse that returned more than 0. */
enum gyre_http_flag {
  GYRE_HTTP_HEAD_KEEP_ALIVE = 1 << 0,      /* the connection may serve another request */
  GYRE_HTTP_HEAD_CHUNKED = 1 << 1,         /* Transfer-Encoding: chunked */
  GYRE_HTTP_HEAD_CONTENT_LENGTH = 1 << 2,  /* never together with CHUNKED */
  GYRE_HTTP_HEAD_EXPECT_CONTINUE = 1 << 3, /* HTTP/1.1 with Expect: 100-continue, and a body follows */
  GYRE_HTTP_HEAD_UPGRADE = 1 << 4          /* HTTP/1.1 with Upgrade, also named in Connection */
};

/* State and results of a parse. Set up by a reset function (gyre_http1_head_reset). */
struct gyre_http_head {
  /* results */
  struct gyre_http_slice method;
  struct gyre_http_slice target;    /* as sent */
  struct gyre_http_slice path;      /* "/" for http://host; host:port and * as they are */
  struct gyre_http_slice query;     /* without "?"; may be empty even if has_query is set */
  struct gyre_http_slice authority; /* from the target or Host; length 0: none (HTTP/1.0 only) */
  struct gyre_http_slice host;      /* authority without port; IPv6 keeps its brackets */
  struct gyre_http_slice port;      /* digits, 0 to 65535; length 0: not given */
  struct gyre_http_field *fields;   /* the caller's array */
  int64_t content_length;           /* -1: no Content-Length */
  uint16_t field_count;
  uint16_t field_capacity;
  uint8_t has_query;
  uint8_t method_number; /* enum gyre_http_method */
  uint8_t target_form;   /* enum gyre_http_target */
  uint8_t minor_version; /* HTTP/1.0: 0; later HTTP/1: 1; HTTP/2: GYRE_HTTP_VERSION_2 */
  uint16_t flags;        /* enum gyre_http_flag */
  /* on refusal */
  uint16_t status;    /* of a refusal; 0 if valid; in a response's head, its status */
  const char *reason; /* of a refusal: constant text without a full stop */
  /* private: the parser's position */
  uint32_t position;
  uint32_t section;
  uint32_t token;
  uint8_t phase;
  uint8_t seen;
};

/* Names are tokens; values have no CR, LF or NUL (RFC 9110, section 5). */
bool gyre_http_is_name(const char *name, size_t length);
bool gyre_http_is_value(const char *value, size_t length);
/* Ignores letter case; `lower` is in lower case. */
bool gyre_http_same_name(const char *name, size_t length, const char *lower, size_t lower_length);
/* Finds the next element of a comma-separated list, without surrounding blanks, and skips empty
 * elements (RFC 9110, section 5.6.1.2). Returns false at the end. */
bool gyre_http_next_element(const char **p, const char *end, const char **element, size_t *length);
/* Parses 1*DIGIT. Returns -1 if invalid or out of range. */
int64_t gyre_http_number(const char *text, size_t length);
/* True for fields that are dropped from received trailers and refused in sent trailers. */
bool gyre_http_is_no_trailer(const char *name, size_t length);

/* Host and port of a URI (RFC 3986, section 3.2). */
struct gyre_http_authority {
  struct gyre_http_slice whole, host, port;
};

/* Parses host [":" port]. Returns false if either is invalid, or if there is user information. */
bool gyre_http_authority_parse(struct gyre_http_authority *authority, const char *bytes, uint32_t offset,
                               uint32_t length);
void gyre_http_authority_assign(struct gyre_http_head *head, const struct gyre_http_authority *authority);
