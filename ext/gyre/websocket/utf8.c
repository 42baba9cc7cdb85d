/* Checks UTF-8 in pieces (utf8.h): eight ASCII bytes at a time, others by branches. */
#include "websocket/utf8.h"

#define HIGH_BITS UINT64_C(0x8080808080808080)

/* Begins a character of several bytes. The bounds of its second byte exclude overlong forms,
 * surrogates and code points above U+10FFFF (RFC 3629, section 4). */
static bool begin(struct gyre_utf8 *utf8, uint8_t byte) {
  if (byte < 0xc2 || byte > 0xf4) return false;
  utf8->missing = byte < 0xe0 ? 1 : byte < 0xf0 ? 2 : 3;
  utf8->least = byte == 0xe0 ? 0xa0 : byte == 0xf0 ? 0x90 : 0x80;
  utf8->most = byte == 0xed ? 0x9f : byte == 0xf4 ? 0x8f : 0xbf;
  return true;
}

bool gyre_utf8_check(struct gyre_utf8 *utf8, const uint8_t *bytes, size_t length) {
  const uint8_t *end = bytes + length;
  while (bytes < end) {
    if (utf8->missing) {
      if (*bytes < utf8->least || *bytes > utf8->most) return false;
      utf8->least = 0x80;
      utf8->most = 0xbf;
      utf8->missing--;
      bytes++;
      continue;
    }
    uint64_t word;
    while (end - bytes >= (ptrdiff_t)sizeof(word)) {
      memcpy(&word, bytes, sizeof(word));
      if (word & HIGH_BITS) break;
      bytes += sizeof(word);
    }
    while (bytes < end && *bytes < 0x80) bytes++;
    if (bytes < end && !begin(utf8, *bytes++)) return false;
  }
  return true;
}
