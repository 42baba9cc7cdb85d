/* Follows how much of a request's body has come (RFC 9112, section 6) before it takes a place, as
 * clients may be slow. Bytes stay undecoded. No ruby.h; reads and writes nothing. */
#include "http/h1/ahead.h"

#include <string.h>

void gyre_http1_ahead_begin(struct gyre_http1_ahead *ahead, const struct gyre_http_head *head, size_t most,
                            size_t trailers_most) {
  *ahead = (struct gyre_http1_ahead){.needed = most, .trailers_most = trailers_most};
  ahead->chunked = (head->flags & GYRE_HTTP_HEAD_CHUNKED) != 0;
  if (ahead->chunked) gyre_http1_chunked_reset(&ahead->chunks);
  if (!ahead->chunked && head->content_length < (int64_t)most)
    ahead->needed = head->content_length > 0 ? (size_t)head->content_length : 0;
}

/* Finds the empty line. Leaves too many fields to later reads, which refuse them. */
static bool trailers_are_there(const struct gyre_http1_ahead *ahead, const char *bytes, size_t length) {
  if (length > ahead->trailers_most || (length >= 2 && memcmp(bytes, "\r\n", 2) == 0)) return true;
  for (const char *end = bytes + length; (bytes = memchr(bytes, '\n', (size_t)(end - bytes))); bytes++) {
    if (end - bytes >= 3 && memcmp(bytes, "\n\r\n", 3) == 0) return true;
  }
  return false;
}

bool gyre_http1_ahead_is_there(struct gyre_http1_ahead *ahead, const char *bytes, size_t length) {
  if (length >= ahead->needed) return true;
  if (!ahead->chunked) return false;
  while (!ahead->data_over) {
    const char *data;
    size_t consumed = 0, data_length;
    int result = gyre_http1_chunked_step(&ahead->chunks, bytes + ahead->scanned, length - ahead->scanned, &consumed,
                                         &data, &data_length);
    ahead->scanned += consumed;
    if (result == GYRE_HTTP1_CHUNKED_MORE) return false;
    if (result < 0) return true; /* the app will meet the error */
    ahead->data_over = result == GYRE_HTTP1_CHUNKED_TRAILERS;
  }
  return trailers_are_there(ahead, bytes + ahead->scanned, length - ahead->scanned);
}
