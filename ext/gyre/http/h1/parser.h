/* Request parser of HTTP/1, strict after RFC 9110 and 9112: bytes in, offsets out. Allocates and
 * copies nothing; the caller's buffer may move between calls. Twin: test/oracle/http/parser.rb. */
#pragma once

#include "http/head.h"

/* `fields` must stay while the results are used. */
void gyre_http1_head_reset(struct gyre_http_head *head, struct gyre_http_field *fields, uint16_t capacity);

/* Each call gets the same bytes plus new ones, and the same limits. Looks at no byte twice; the
 * result does not depend on how the bytes were split. Returns the head's length, including the
 * blank line at its end and an empty line skipped before it. Returns 0 if the head is incomplete,
 * and -1 if it is refused (status, reason), also when called again. */
int gyre_http1_head_parse(struct gyre_http_head *head, const char *bytes, size_t length,
                          const struct gyre_http_head_limits *limits);

/* Parses the trailer section, which follows the last chunk (h1/chunked.h), in the same way.
 * Results: fields, field_count, status, reason. Drops fields that would change framing, routing or
 * meaning (RFC 9110, section 6.5.1). limits->header_bytes and header_count apply. */
void gyre_http1_trailers_reset(struct gyre_http_head *trailers, struct gyre_http_field *fields, uint16_t capacity);
int gyre_http1_trailers_parse(struct gyre_http_head *trailers, const char *bytes, size_t length,
                              const struct gyre_http_head_limits *limits);
