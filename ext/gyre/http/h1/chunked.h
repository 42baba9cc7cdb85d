/*
 * The strict decoder of chunked bodies (RFC 9112, section 7.1): bytes in, slices of the caller's
 * own bytes out. The connection calls it for each piece of input. Copies and allocates nothing; the
 * caller need not keep bytes between calls. Stops at the trailer section; gyre_http1_trailers_parse
 * (h1/parser.h) reads that. Its twin is test/oracle/http/chunked.rb.
 *
 *   SIZE ─► (EXTENSION ─►) LINE_FEED ─► DATA ─► DATA_CR ─► DATA_LF ─► SIZE …
 *                              └── size 0 ─► TRAILERS
 */
#ifndef GYRE_HTTP1_CHUNKED_H
#define GYRE_HTTP1_CHUNKED_H

#include <stddef.h>
#include <stdint.h>

#define GYRE_HTTP1_CHUNK_LINE_BYTES_LIMIT 256        /* longest chunk-size line, with extensions and CRLF */
#define GYRE_HTTP1_CHUNK_EXTENSION_BYTES_LIMIT 16384 /* longest sum of all extensions of a body */

/* Set up by reset. */
struct gyre_http1_chunked {
  uint64_t remaining; /* after DATA: bytes left in this chunk; else a partial size */
  const char *reason; /* reason of a refusal: a constant line without a full stop */
  uint16_t status;    /* status of a refusal: 400; else 0 */
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

/*
 * Makes one step over `bytes`, unconsumed and perhaps empty; *consumed includes the data slice, and
 * the next call starts after it. The slice points into bytes. After TRAILERS each call returns
 * TRAILERS and consumes nothing. Returns an enum gyre_http1_chunked_result.
 */
int gyre_http1_chunked_step(struct gyre_http1_chunked *chunked, const char *bytes, size_t length, size_t *consumed,
                            const char **data, size_t *data_length);

#endif
