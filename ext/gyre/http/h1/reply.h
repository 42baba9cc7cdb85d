/* Parser of HTTP/1 responses for the client, as strict as RFC 9112. Needs gyre_http1_head_reset
 * first. Called by h1/client.c and its fuzzer. No ruby.h. */
#pragma once

#include "http/h1/parser.h"

/* How the end of a response's body is found (RFC 9112, section 6.3). */
enum gyre_http1_reply_body { GYRE_REPLY_NONE, GYRE_REPLY_LENGTH, GYRE_REPLY_CHUNKED, GYRE_REPLY_UNTIL_CLOSE };

/* Continues like gyre_http1_head_parse. A complete head has the response's status and flags
 * (KEEP_ALIVE, framing). limits->request_line_bytes limits the status line. */
int gyre_http1_reply_parse(struct gyre_http_head *head, const char *bytes, size_t length,
                           const struct gyre_http_head_limits *limits);

/* `method` is the request's method. A 101 response and a CONNECT tunnel have no body. */
enum gyre_http1_reply_body gyre_http1_reply_body(const struct gyre_http_head *head, uint8_t method);
