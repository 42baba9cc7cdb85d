/*
 * The response parser of HTTP/1.0 and HTTP/1.1 for the client, strict after RFC 9112, in the manner
 * of h1/parser.h, whose reset it shares: bytes in, offsets out. Called by h1/client.c and its
 * fuzzer. No ruby.h.
 */
#ifndef GYRE_HTTP1_REPLY_H
#define GYRE_HTTP1_REPLY_H

#include "http/h1/parser.h"

/* End of a response's body (RFC 9112, section 6.3). */
enum gyre_http1_reply_body { GYRE_REPLY_NONE, GYRE_REPLY_LENGTH, GYRE_REPLY_CHUNKED, GYRE_REPLY_UNTIL_CLOSE };

/*
 * Continues as gyre_http1_head_parse does. After a complete head, head->status is the response's
 * status, head->flags tells KEEP_ALIVE and framing. limits->request_line_bytes is for the status
 * line.
 */
int gyre_http1_reply_parse(struct gyre_http_head *head, const char *bytes, size_t length,
                           const struct gyre_http_head_limits *limits);

/* Of a complete head; `method` is the request's. A switch of protocols and a CONNECT tunnel have
 * none. */
enum gyre_http1_reply_body gyre_http1_reply_body(const struct gyre_http_head *head, uint8_t method);

#endif
