/* Strict decoder of chunked bodies (RFC 9112, section 7.1): bytes in, slices of data out. Copies
 * and allocates nothing. Stops at the trailer section, which gyre_http1_trailers_parse parses
 * (h1/parser.h). Twin: test/oracle/http/chunked.rb.
 *
 *   SIZE ─► (EXTENSION ─►) LINE_FEED ─► DATA ─► DATA_CR ─► DATA_LF ─► SIZE …
 *                              └── size 0 ─► TRAILERS */
#pragma once

#include "feature.h"

#define GYRE_HTTP1_CHUNK_LINE_BYTES_LIMIT 256        /* a size line with extensions and CRLF */
#define GYRE_HTTP1_CHUNK_EXTENSION_BYTES_LIMIT 16384 /* all extensions of a body */

struct gyre_http1_chunked {
  uint64_t remaining; /* in DATA: bytes left in the chunk; in SIZE: the size so far */
  const char *reason; /* of a refusal, without a full stop */
  uint16_t status;    /* 400 if refused, otherwise 0 */
  /* private: the decoder's state */
  uint16_t line_bytes;
  uint32_t extension_bytes;
  uint8_t phase;
};

enum gyre_http1_chunked_result {
  GYRE_HTTP1_CHUNKED_REFUSED = -1, /* status and reason are set; further calls return the same */
  GYRE_HTTP1_CHUNKED_MORE = 0,     /* all input is consumed: call again with more */
  GYRE_HTTP1_CHUNKED_DATA = 1,     /* *data and *data_length are a part of the body: call again */
  GYRE_HTTP1_CHUNKED_TRAILERS = 2  /* the trailer section follows the consumed bytes */
};

void gyre_http1_chunked_reset(struct gyre_http1_chunked *chunked);

/* Decodes until it finds data, the trailer section or an error, or until `bytes` ends. `length` may
 * be 0. *consumed includes the data. After TRAILERS, returns TRAILERS again and consumes nothing.
 * Returns an enum gyre_http1_chunked_result. */
int gyre_http1_chunked_step(struct gyre_http1_chunked *chunked, const char *bytes, size_t length, size_t *consumed,
                            const char **data, size_t *data_length);
