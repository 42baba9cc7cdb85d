/* A response's head being written, and facts about the app's headers (response_head.c). */
#pragma once

#include "http/exchange.h"

struct gyre_http_response_head {
  struct gyre_http_exchange *exchange;
  struct gyre_http_buffer *output;
  VALUE announced;  /* the app's content-length, or nil */
  VALUE wrong;      /* an invalid name or value, or nil */
  bool strict;      /* in write_response: stops at fields that only Response handles */
  bool own_framing; /* keeps the app's content-length, transfer-encoding and connection */
  bool has_date, declined, closing, unknown_kind;
  int status; /* 0: trailers */
  bool no_body;
  uint64_t length; /* size of a complete body */
};

/* Begins a head in the acceptor's buffer, valid until the fiber parks. Status 0: only fields. */
struct gyre_http_response_head gyre_http_response_head_begin(struct gyre_http_exchange *exchange, int status);
/* Raises ArgumentError for invalid headers. */
void gyre_http_response_head_fields(struct gyre_http_response_head *head, VALUE headers);
/* Writes the head of a response whose body is an Array of Strings. Returns false for an unusual
 * response, which Response must handle. */
bool gyre_http_response_head_whole(struct gyre_http_response_head *head, struct gyre_http_exchange *exchange,
                                   VALUE status, VALUE headers, VALUE body);
/* Writes `before` and the trailers. Raises ArgumentError for an invalid trailer. */
struct gyre_http_buffer *gyre_http_response_head_trailers(struct gyre_http_exchange *exchange, const char *before);
