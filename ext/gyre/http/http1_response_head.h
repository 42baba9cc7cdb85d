/*
 * The head of a response while it is written: what the app's headers contain (see
 * http1_response_head.c).
 */
#ifndef GYRE_HTTP1_RESPONSE_HEAD_H
#define GYRE_HTTP1_RESPONSE_HEAD_H

#include "http/http1.h"

#include <string.h>

struct gyre_http1_response_head {
  struct gyre_http_exchange *exchange;
  struct gyre_http1_buffer *output;
  VALUE announced;  /* the app's content-length, or nil */
  VALUE wrong;      /* a name or value that cannot be sent */
  bool strict;      /* for write_response: stop at what Response has to decide */
  bool own_framing; /* the app's content-length, transfer-encoding and connection go out as they are */
  bool has_date, declined, closing, unknown_kind;
  /* Of gyre_http1_response_head_whole: */
  int status;
  bool no_body;
  uint64_t length; /* bytes of the body */
};

/* The acceptor's buffer, emptied: valid until the fiber parks. */
struct gyre_http1_buffer *gyre_http1_response_head_begin(struct gyre_http_exchange *exchange);
/* Adds the app's headers; raises ArgumentError for what cannot be sent. */
void gyre_http1_response_head_fields(struct gyre_http1_response_head *head, VALUE headers);
/* A whole response: writes the app's headers and the length of its body, an Array. What follows is
 * gyre_http1_response_head_end's. False: it is unusual, and Response decides about it. */
bool gyre_http1_response_head_whole(struct gyre_http1_response_head *head, struct gyre_http_exchange *exchange,
                                    VALUE status, VALUE headers, VALUE body);
/* Adds the trailers that the app has set; raises ArgumentError for what cannot be one. */
void gyre_http1_response_head_trailers(struct gyre_http_exchange *exchange, struct gyre_http1_buffer *output);
void gyre_http1_response_head_text(struct gyre_http1_buffer *output, const char *text);
void gyre_http1_response_head_length(struct gyre_http1_buffer *output, uint64_t length);
/* Date, connection and the blank line. Decides at last whether the connection is kept. */
void gyre_http1_response_head_end(struct gyre_http1_response_head *head);

#endif
