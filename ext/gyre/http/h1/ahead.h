/* Follows how much of a request's body has come (h1/ahead.c). Calls pass the whole body so far; no
 * byte is scanned twice. */
#pragma once

#include "http/h1/chunked.h"
#include "http/h1/parser.h"

#include <stdbool.h>

struct gyre_http1_ahead {
  size_t needed, trailers_most, scanned;
  bool chunked, data_over;
  struct gyre_http1_chunked chunks;
};

/* `most`: bytes of a long body that are enough. */
void gyre_http1_ahead_begin(struct gyre_http1_ahead *ahead, const struct gyre_http_head *head, size_t most,
                            size_t trailers_most);
/* True if the whole body, `most` bytes or an error has come. */
bool gyre_http1_ahead_is_there(struct gyre_http1_ahead *ahead, const char *bytes, size_t length);
