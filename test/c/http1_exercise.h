/*
 * Runs bytes through the HTTP/1 parsers in every way in which they may arrive: whole, split in two
 * at each byte, byte by byte, each time at another address and with the end at a page that must not
 * be touched. Used by http1_parser_test.c and by the fuzzers. It judges nothing but that all ways
 * give the same: it says what came out.
 */
#pragma once

#include "http/h1/parser.h"

#include <stddef.h>

enum exercise_kind {
  EXERCISE_HEAD = 'h', /* a request's head, and perhaps bytes after it */
  EXERCISE_BODY = 'b'  /* a chunked body with its trailer section, and perhaps bytes after it */
};

struct exercise_input {
  enum exercise_kind kind;
  struct gyre_http_head_limits limits; /* of the head, or of the trailer section */
  const char *bytes;
  size_t length;
};

/*
 * Returns one line of text, to be freed: words "name=value" with a space between, text in hex. The
 * first is "verdict=" complete, incomplete or refused; "at" is the number of bytes after which the
 * verdict stood. When two ways differ, or a result is out of bounds, the verdict is "inconsistent"
 * and says how.
 */
char *exercise(const struct exercise_input *input);
