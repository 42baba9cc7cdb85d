/* A response's head being written, and facts about the app's headers (response_head.c). */
#pragma once

#include "http/exchange.h"

struct gyre_http_response_head {
  struct gyre_http_exchange *exchange;
  struct gyre_http_buffer *output;
  VALUE announced;  /* the app's content-length, or nil */
  VALUE wrong;      /* set for an invalid name or value */
  bool strict;      /* for write_response: stops at values that Response handles */
  bool own_framing; /* keeps the app's content-length, transfer-encoding and connection */
  bool has_date, declined, closing, unknown_kind;
  int status; /* 0: trailers */
  bool no_body;
  uint64_t length; /* size of a complete body */
};

/* Writes into the acceptor's emptied buffer: valid until the fiber parks. Status 0: only fields
 * follow. */
struct gyre_http_response_head gyre_http_response_head_begin(struct gyre_http_exchange *exchange, int status);
/* Raises ArgumentError for invalid headers. */
void gyre_http_response_head_fields(struct gyre_http_response_head *head, VALUE headers);
/* Begins a head with an Array body. Returns false for an unusual one, which Response handles. */
bool gyre_http_response_head_whole(struct gyre_http_response_head *head, struct gyre_http_exchange *exchange,
                                   VALUE status, VALUE headers, VALUE body);
/* Adds trailers after `before`; raises ArgumentError for invalid ones. */
struct gyre_http_buffer *gyre_http_response_head_trailers(struct gyre_http_exchange *exchange, const char *before);
