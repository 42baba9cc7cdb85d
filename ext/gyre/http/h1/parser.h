/*
 * The request parser of HTTP/1.0 and HTTP/1.1, strict after RFC 9110 and RFC 9112: bytes in,
 * offsets out. The connection calls it with whatever has arrived so far. Has no socket, clock or
 * Ruby; allocates and copies nothing, and keeps only offsets, so that the caller's buffer may move
 * between calls. Its twin is test/oracle/http/parser.rb.
 */
#ifndef GYRE_HTTP1_PARSER_H
#define GYRE_HTTP1_PARSER_H

#include "http/head.h"

/* Prepares for a new head. `fields` must stay until the caller has used the results. */
void gyre_http1_head_reset(struct gyre_http_head *head, struct gyre_http_field *fields, uint16_t capacity);

/*
 * Continues. `bytes` starts at the head; call again with the same bytes plus more, and the same
 * limits. Looks at no byte twice, so that a head that comes byte by byte costs O(n) in all. The
 * result depends on the bytes alone, not on how they were split. Returns the length of the head
 * with its blank line (offsets count from bytes; a CRLF skipped before the request line counts); 0:
 * more bytes are needed; -1: refused (status and reason have the cause; further calls return the
 * same).
 */
int gyre_http1_head_parse(struct gyre_http_head *head, const char *bytes, size_t length,
                          const struct gyre_http_head_limits *limits);

/*
 * Parses the trailer section after the last chunk in the same way (see h1/chunked.h): bytes starts
 * after the last chunk's line; the section ends with its blank line (just CRLF without trailers).
 * The results are fields, field_count, status and reason. Refuses fields that would change framing,
 * routing or the meaning of the request (RFC 9110, section 6.5.1) with 400. limits->header_bytes
 * and header_count apply. Reuses a head (after reset) whose results are no longer needed.
 */
void gyre_http1_trailers_reset(struct gyre_http_head *trailers, struct gyre_http_field *fields, uint16_t capacity);
int gyre_http1_trailers_parse(struct gyre_http_head *trailers, const char *bytes, size_t length,
                              const struct gyre_http_head_limits *limits);

#endif
