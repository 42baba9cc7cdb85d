/*
 * How much of a request's body has come (http1_ahead.c). The caller keeps the body's bytes from
 * their beginning and shows all of them each time; what was seen is not scanned again.
 */
#ifndef GYRE_HTTP1_AHEAD_H
#define GYRE_HTTP1_AHEAD_H

#include "http/http1_chunked.h"
#include "http/http1_parser.h"

#include <stdbool.h>

struct gyre_http1_ahead {
  size_t needed, trailers_most, scanned;
  bool chunked, data_over;
  struct gyre_http1_chunked chunks;
};

/* `most`: bytes of a long body that are enough. */
void gyre_http1_ahead_begin(struct gyre_http1_ahead *ahead, const struct gyre_http1_head *head, size_t most,
                            size_t trailers_most);
/* Whether enough has come: all of it, or `most` bytes, or what is wrong. */
bool gyre_http1_ahead_is_there(struct gyre_http1_ahead *ahead, const char *bytes, size_t length);

#endif
