/* A list of fields for libnghttp2, pointing into the caller's text. */
#pragma once

#include "feature.h"

#include <nghttp2/nghttp2.h>

#define GYRE_HTTP2_LINES_ON_STACK 48

struct gyre_http2_lines {
  nghttp2_nv on_stack[GYRE_HTTP2_LINES_ON_STACK], *fields;
  size_t count, capacity;
  char status[4];
};

void gyre_http2_lines_init(struct gyre_http2_lines *lines);
/* Returns false if memory is short. */
bool gyre_http2_lines_push(struct gyre_http2_lines *lines, const char *name, size_t length, const char *value,
                           size_t value_length);
/* Makes the list from lines "name: value\r\n". Skips fields that HTTP/2 forbids. Status 0:
 * trailers. Returns 0 or -errno; call gyre_http2_lines_free in any case. */
int gyre_http2_lines_read(struct gyre_http2_lines *lines, int status, const char *text, size_t length);
void gyre_http2_lines_free(struct gyre_http2_lines *lines);
/* True for fields such as Connection, which HTTP/2 forbids (RFC 9113, section 8.2.2). */
bool gyre_http2_is_of_connection(const char *name, size_t length);
