/* Decodes chunked bodies (h1/chunked.h). Each state except DATA reads single bytes:
 *
 *   SIZE ──(BLANK) ";"──► EXTENSION, dropped unless it has a control byte (RFC 9112, section 7.1.1)
 *     └── CR ─► SIZE_LF ◄─ CR ─┘
 *                  └► DATA ─► DATA_CR ─► DATA_LF ─► SIZE …      size 0: TRAILERS */
#include "http/h1/chunked.h"
#include "http/h1/parser.h"
#include "http/scan.h"

enum chunked_phase {
  CHUNK_SIZE,
  CHUNK_BLANK, /* a ";" must follow */
  CHUNK_EXTENSION,
  CHUNK_SIZE_LF,
  CHUNK_DATA,
  CHUNK_DATA_CR,
  CHUNK_DATA_LF,
  CHUNK_TRAILERS,
  CHUNK_REFUSED
};

static int refuse(struct gyre_http1_chunked *chunked, const char *reason) {
  chunked->phase = CHUNK_REFUSED;
  chunked->status = 400;
  chunked->reason = reason;
  return GYRE_HTTP1_CHUNKED_REFUSED;
}

static unsigned hex_value(char digit) {
  return is(digit, CLASS_DIGIT) ? (unsigned)(digit - '0') : (unsigned)((digit | 0x20) - 'a' + 10);
}

/* Reads a byte of the size (1*HEXDIG). Returns 0 or REFUSED. */
static int read_size(struct gyre_http1_chunked *chunked, char byte) {
  if (is(byte, CLASS_HEX)) {
    const uint64_t digit = hex_value(byte);
    if (chunked->remaining > (GYRE_HTTP_BODY_LENGTH_MAX - digit) / 16)
      return refuse(chunked, "a chunk size that is too large");
    chunked->remaining = chunked->remaining * 16 + digit;
    return 0;
  }
  if (chunked->line_bytes == 1) return refuse(chunked, "a chunk size that is not a number");
  if (byte == '\r')
    chunked->phase = CHUNK_SIZE_LF;
  else if (byte == ';')
    chunked->phase = CHUNK_EXTENSION;
  else if (is_blank(byte))
    chunked->phase = CHUNK_BLANK;
  else
    return refuse(chunked, "a chunk size that is not a number");
  return 0;
}

/* Drops a byte after the size. Returns false if the line is malformed. */
static bool read_extension(struct gyre_http1_chunked *chunked, char byte) {
  if (chunked->phase == CHUNK_BLANK) {
    if (byte == ';') chunked->phase = CHUNK_EXTENSION;
    return byte == ';' || is_blank(byte);
  }
  if (byte == '\r') chunked->phase = CHUNK_SIZE_LF;
  return byte == '\r' || is(byte, CLASS_VALUE);
}

/* Handles a byte outside the data. Returns 0 or REFUSED. */
static int read_byte(struct gyre_http1_chunked *chunked, char byte) {
  switch ((enum chunked_phase)chunked->phase) {
  case CHUNK_DATA_CR:
    if (byte != '\r') return refuse(chunked, "a chunk that is longer than its size");
    chunked->phase = CHUNK_DATA_LF;
    return 0;
  case CHUNK_DATA_LF:
    if (byte != '\n') return refuse(chunked, "a carriage return without a line feed after it");
    chunked->phase = CHUNK_SIZE;
    chunked->line_bytes = 0;
    return 0;
  default: break;
  }

  if (++chunked->line_bytes > GYRE_HTTP1_CHUNK_LINE_BYTES_LIMIT)
    return refuse(chunked, "a chunk-size line that is too long");
  if (chunked->phase == CHUNK_SIZE) return read_size(chunked, byte);
  if (chunked->phase == CHUNK_SIZE_LF) {
    if (byte != '\n') return refuse(chunked, "a carriage return without a line feed after it");
    chunked->phase = chunked->remaining > 0 ? CHUNK_DATA : CHUNK_TRAILERS;
    return 0;
  }
  if (++chunked->extension_bytes > GYRE_HTTP1_CHUNK_EXTENSION_BYTES_LIMIT)
    return refuse(chunked, "too many chunk extensions");
  return read_extension(chunked, byte) ? 0 : refuse(chunked, "a malformed chunk extension");
}

void gyre_http1_chunked_reset(struct gyre_http1_chunked *chunked) { memset(chunked, 0, sizeof(*chunked)); }

int gyre_http1_chunked_step(struct gyre_http1_chunked *chunked, const char *bytes, size_t length, size_t *consumed,
                            const char **data, size_t *data_length) {
  size_t position = 0;

  *consumed = 0;
  *data = NULL;
  *data_length = 0;
  for (;;) {
    if (chunked->phase == CHUNK_REFUSED) return GYRE_HTTP1_CHUNKED_REFUSED;
    if (chunked->phase == CHUNK_TRAILERS) return GYRE_HTTP1_CHUNKED_TRAILERS;
    if (position == length) return GYRE_HTTP1_CHUNKED_MORE;
    if (chunked->phase == CHUNK_DATA) {
      const size_t here = length - position;
      *data = bytes + position;
      *data_length = chunked->remaining < here ? (size_t)chunked->remaining : here;
      *consumed = position + *data_length;
      chunked->remaining -= *data_length;
      if (chunked->remaining == 0) chunked->phase = CHUNK_DATA_CR;
      return GYRE_HTTP1_CHUNKED_DATA;
    }
    read_byte(chunked, bytes[position]);
    *consumed = ++position;
  }
}
