/*
 * The request parser of HTTP/1.0 and HTTP/1.1, strict after RFC 9110 and RFC 9112: bytes in,
 * offsets out. The connection calls it with whatever has arrived so far. It has no socket, no
 * clock and no Ruby, allocates nothing, copies nothing and keeps no pointer into the caller's bytes
 * (only offsets), so the caller's buffer may move between two calls. Its twin is
 * test/oracle/http/parser.rb.
 */
#ifndef GYRE_HTTP1_PARSER_H
#define GYRE_HTTP1_PARSER_H

#include "http/head.h"

/* Prepares for a new head. `fields` stays in place until the caller has used the results. */
void gyre_http1_head_reset(struct gyre_http_head *head, struct gyre_http_field *fields, uint16_t capacity);

/*
 * Reads on. bytes starts where the head starts; call again with the same bytes plus more, and the
 * same limits. What was looked at is not looked at again, so a head that comes byte by byte costs
 * O(n) in all. The answer depends on the bytes alone, not on how they were split. Returns the
 * length of the head with its blank line (offsets count from bytes; one CRLF before the request
 * line is skipped and counted), 0 when more bytes are needed, -1 when it is refused (status and
 * reason have the cause; further calls return the same).
 */
int gyre_http1_head_parse(struct gyre_http_head *head, const char *bytes, size_t length,
                          const struct gyre_http_head_limits *limits);

/*
 * The same for the trailer section after the last chunk (see h1/chunked.h): bytes starts after
 * the last chunk's line, the section ends with its blank line (just CRLF when there are no
 * trailers). Only fields, field_count, status and reason are results. Fields that would change
 * framing, routing or the meaning of the request (RFC 9110, section 6.5.1) are refused with 400.
 * limits->header_bytes and header_count bound it. A head whose results are no longer needed may be
 * reset for this.
 */
void gyre_http1_trailers_reset(struct gyre_http_head *trailers, struct gyre_http_field *fields, uint16_t capacity);
int gyre_http1_trailers_parse(struct gyre_http_head *trailers, const char *bytes, size_t length,
                              const struct gyre_http_head_limits *limits);

#endif
