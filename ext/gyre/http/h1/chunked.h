/* Strict decoder of chunked bodies (RFC 9112, section 7.1): bytes in, slices of them out. Copies,
 * allocates and keeps nothing. Stops at the trailer section, for gyre_http1_trailers_parse
 * (h1/parser.h). Twin: test/oracle/http/chunked.rb.
 *
 *   SIZE ─► (EXTENSION ─►) LINE_FEED ─► DATA ─► DATA_CR ─► DATA_LF ─► SIZE …
 *                              └── size 0 ─► TRAILERS */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define GYRE_HTTP1_CHUNK_LINE_BYTES_LIMIT 256        /* with extensions and CRLF */
#define GYRE_HTTP1_CHUNK_EXTENSION_BYTES_LIMIT 16384 /* of a body's extensions together */

struct gyre_http1_chunked {
  uint64_t remaining; /* after DATA: bytes left in this chunk; else a partial size */
  const char *reason; /* a refusal's, without a full stop */
  uint16_t status;    /* a refusal's 400; else 0 */
  /* private: the decoder's state */
  uint16_t line_bytes;
  uint32_t extension_bytes;
  uint8_t phase;
};

enum gyre_http1_chunked_result {
  GYRE_HTTP1_CHUNKED_REFUSED = -1, /* status and reason are set; further calls return the same */
  GYRE_HTTP1_CHUNKED_MORE = 0,     /* all input is consumed without (more) data: call with more */
  GYRE_HTTP1_CHUNKED_DATA = 1,     /* *data and *data_length are a part of the body: call again */
  GYRE_HTTP1_CHUNKED_TRAILERS = 2  /* the trailer section follows the consumed bytes */
};

void gyre_http1_chunked_reset(struct gyre_http1_chunked *chunked);

/* Makes one step over unconsumed `bytes`, maybe none; *consumed includes the data slice. After
 * TRAILERS it returns the same and consumes nothing. Returns an enum gyre_http1_chunked_result. */
int gyre_http1_chunked_step(struct gyre_http1_chunked *chunked, const char *bytes, size_t length, size_t *consumed,
                            const char **data, size_t *data_length);
