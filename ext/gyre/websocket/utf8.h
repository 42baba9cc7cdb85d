/* Checks a WebSocket's text as UTF-8 (RFC 3629), in pieces. Called by input.c. No ruby.h. */
#pragma once

#include "feature.h"

/* All zero: at a character's beginning. */
struct gyre_utf8 {
  uint8_t missing;     /* missing bytes of the current character */
  uint8_t least, most; /* bounds of the character's next byte */
};

/* Returns false once the text cannot be UTF-8. */
bool gyre_utf8_check(struct gyre_utf8 *utf8, const uint8_t *bytes, size_t length);

/* True if the text may end here. */
static inline bool gyre_utf8_is_whole(const struct gyre_utf8 *utf8) { return utf8->missing == 0; }
