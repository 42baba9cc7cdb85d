/*
 * The request parser of HTTP/1.0 and HTTP/1.1, strict after RFC 9110 and RFC 9112: bytes in,
 * offsets out. The connection calls it with whatever has arrived so far. It has no socket, no
 * clock and no Ruby, allocates nothing, copies nothing and keeps no pointer into the caller's bytes
 * (only offsets), so the caller's buffer may move between two calls. Its twin is
 * test/oracle/http/parser.rb.
 */
#ifndef GYRE_HTTP1_PARSER_H
#define GYRE_HTTP1_PARSER_H

#include <stddef.h>
#include <stdint.h>

/* A part of the caller's bytes. */
struct gyre_http1_slice {
  uint32_t offset;
  uint32_t length;
};

/* One header or trailer line. The value has no white space around it; the name stands as it was
 * sent. */
struct gyre_http1_field {
  uint32_t name;
  uint32_t value;
  uint32_t value_length;
  uint16_t name_length;
  uint16_t flags; /* enum gyre_http1_field_flag: which name it is, and what it looks like */
};

/* field.flags & GYRE_HTTP1_FIELD_NAME_MASK is one of the names that the parser needs anyway. */
enum gyre_http1_field_flag {
  GYRE_HTTP1_FIELD_OTHER = 0,
  GYRE_HTTP1_FIELD_HOST,
  GYRE_HTTP1_FIELD_CONNECTION,
  GYRE_HTTP1_FIELD_CONTENT_LENGTH,
  GYRE_HTTP1_FIELD_CONTENT_TYPE,
  GYRE_HTTP1_FIELD_TRANSFER_ENCODING,
  GYRE_HTTP1_FIELD_EXPECT,
  GYRE_HTTP1_FIELD_UPGRADE,
  GYRE_HTTP1_FIELD_NAME_MASK = 0xff,
  GYRE_HTTP1_FIELD_UNDERSCORE = 0x100 /* "_" in the name: in a CGI environment it could pose as a name with "-" */
};

/* What the caller allows. Each is inclusive: a line of exactly request_line_bytes is read. */
struct gyre_http1_limits {
  uint32_t request_line_bytes; /* the request line with its CRLF; beyond: 414 */
  uint32_t header_bytes;       /* all lines after it with the blank line (or the trailer section); beyond: 431 */
  uint16_t header_count;       /* fields; the capacity given to reset bounds it too; beyond: 431 */
};

/* Not worth a setting: longer is not a request that is meant. */
#define GYRE_HTTP1_METHOD_BYTES_LIMIT 64               /* beyond: 501 */
#define GYRE_HTTP1_NAME_BYTES_LIMIT 1024               /* of a field name; beyond: 431 */
#define GYRE_HTTP1_BODY_LENGTH_MAX (UINT64_C(1) << 62) /* of Content-Length or of one chunk; beyond: 400 */

/* Methods that have a number, so that text is compared once. */
enum gyre_http1_method {
  GYRE_HTTP1_METHOD_OTHER = 0,
  GYRE_HTTP1_METHOD_GET,
  GYRE_HTTP1_METHOD_HEAD,
  GYRE_HTTP1_METHOD_POST,
  GYRE_HTTP1_METHOD_PUT,
  GYRE_HTTP1_METHOD_DELETE,
  GYRE_HTTP1_METHOD_CONNECT,
  GYRE_HTTP1_METHOD_OPTIONS,
  GYRE_HTTP1_METHOD_TRACE,
  GYRE_HTTP1_METHOD_PATCH
};

/* Of a method's name. */
uint8_t gyre_http1_method_number(const char *text, size_t length);

/* RFC 9112, section 3.2. */
enum gyre_http1_target {
  GYRE_HTTP1_TARGET_ORIGIN = 0, /* /path?query */
  GYRE_HTTP1_TARGET_ABSOLUTE,   /* http://authority/path?query */
  GYRE_HTTP1_TARGET_AUTHORITY,  /* host:port, CONNECT only */
  GYRE_HTTP1_TARGET_ASTERISK    /* *, OPTIONS only */
};

/* head.flags, complete when parse has returned > 0. */
enum gyre_http1_flag {
  GYRE_HTTP1_KEEP_ALIVE = 1 << 0,      /* the connection may serve another request after this one */
  GYRE_HTTP1_CHUNKED = 1 << 1,         /* Transfer-Encoding: chunked */
  GYRE_HTTP1_CONTENT_LENGTH = 1 << 2,  /* Content-Length was sent; never together with CHUNKED */
  GYRE_HTTP1_EXPECT_CONTINUE = 1 << 3, /* Expect: 100-continue, HTTP/1.1, and a body follows */
  GYRE_HTTP1_UPGRADE = 1 << 4          /* Upgrade was sent, Connection names it, and it is HTTP/1.1 */
};

/*
 * State and results of one head (or of one trailer section). Set up by reset; read-only for the
 * caller after that.
 */
struct gyre_http1_head {
  /* results */
  struct gyre_http1_slice method;
  struct gyre_http1_slice target;    /* as it was sent */
  struct gyre_http1_slice path;      /* never empty: "/" for http://host, the target itself for host:port and * */
  struct gyre_http1_slice query;     /* without the "?"; look at has_query, it may be there and empty */
  struct gyre_http1_slice authority; /* the target's, else Host; length 0: none (HTTP/1.0 only) */
  struct gyre_http1_slice host;      /* authority without the port; an IPv6 address keeps its brackets */
  struct gyre_http1_slice port;      /* digits, 0 to 65535; length 0: not given */
  struct gyre_http1_field *fields;   /* the caller's array */
  int64_t content_length;            /* -1: no Content-Length */
  uint16_t field_count;
  uint16_t field_capacity;
  uint8_t has_query;
  uint8_t method_number; /* enum gyre_http1_method */
  uint8_t target_form;   /* enum gyre_http1_target */
  uint8_t minor_version; /* 0 or 1; a higher one counts as 1 */
  uint16_t flags;        /* enum gyre_http1_flag */
  /* on refusal */
  uint16_t status;    /* 400, 414, 417, 431, 501 or 505; 0 while nothing is wrong */
  const char *reason; /* constant, English, one line without a full stop */
  /* private: where the parser stands */
  uint32_t position;
  uint32_t section;
  uint32_t token;
  uint8_t phase;
  uint8_t seen;
};

/* Prepares for a new head. fields must stay where it is until the caller is done with the
 * results. */
void gyre_http1_head_reset(struct gyre_http1_head *head, struct gyre_http1_field *fields, uint16_t capacity);

/*
 * Reads on. bytes starts where the head starts; call again with the same bytes plus more, and the
 * same limits. What was looked at is not looked at again, so a head that comes byte by byte costs
 * O(n) in all. The answer depends on the bytes alone, not on how they were split. Returns the
 * length of the head with its blank line (offsets count from bytes; one CRLF before the request
 * line is skipped and counted), 0 when more bytes are needed, -1 when it is refused (status and
 * reason have the cause; further calls return the same).
 */
int gyre_http1_head_parse(struct gyre_http1_head *head, const char *bytes, size_t length,
                          const struct gyre_http1_limits *limits);

/*
 * The same for the trailer section after the last chunk (see http1_chunked.h): bytes starts after
 * the last chunk's line, the section ends with its blank line (just CRLF when there are no
 * trailers). Only fields, field_count, status and reason are results. Fields that would change
 * framing, routing or the meaning of the request (RFC 9110, section 6.5.1) are refused with 400.
 * limits->header_bytes and header_count bound it. A head whose results are no longer needed may be
 * reset for this.
 */
void gyre_http1_trailers_reset(struct gyre_http1_head *trailers, struct gyre_http1_field *fields, uint16_t capacity);
int gyre_http1_trailers_parse(struct gyre_http1_head *trailers, const char *bytes, size_t length,
                              const struct gyre_http1_limits *limits);

#endif
