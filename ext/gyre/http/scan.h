/* A table of byte classes, and functions that find the first byte outside a class, for the parsers
 * of both versions. Never reads at or after `end`. SSE2 takes 16 bytes at a time. */
#pragma once

#include "feature.h"

#if defined(__SSE2__) && defined(__GNUC__)
#include <emmintrin.h>
#define GYRE_HTTP_SSE2 1
#endif

#define CLASS_TOKEN 1  /* tchar (RFC 9110, section 5.6.2) */
#define CLASS_TARGET 2 /* 0x21 to 0x7e without "#" and "?" */
#define CLASS_VALUE 4  /* HTAB, SP, VCHAR, obs-text (RFC 9110, section 5.5) */
#define CLASS_HOST 8   /* unreserved, sub-delims (RFC 3986, section 3.2.2), without "%" */
#define CLASS_HEX 16
#define CLASS_DIGIT 32

/* test/c/http1_parser_test.c checks each entry. */
static const uint8_t classes[256] = {
    0,  0,  0,  0,  0,  0,  0,  0,  0,  4,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,
    0,  0,  0,  4,  15, 6,  5,  15, 7,  15, 15, 14, 14, 15, 15, 14, 15, 15, 6,  63, 63, 63, 63, 63, 63, 63, 63, 63, 63,
    6,  14, 6,  14, 6,  4,  6,  31, 31, 31, 31, 31, 31, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15,
    15, 15, 15, 15, 6,  6,  6,  7,  15, 7,  31, 31, 31, 31, 31, 31, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15,
    15, 15, 15, 15, 15, 15, 15, 6,  7,  6,  15, 0,  4,  4,  4,  4,  4,  4,  4,  4,  4,  4,  4,  4,  4,  4,  4,  4,  4,
    4,  4,  4,  4,  4,  4,  4,  4,  4,  4,  4,  4,  4,  4,  4,  4,  4,  4,  4,  4,  4,  4,  4,  4,  4,  4,  4,  4,  4,
    4,  4,  4,  4,  4,  4,  4,  4,  4,  4,  4,  4,  4,  4,  4,  4,  4,  4,  4,  4,  4,  4,  4,  4,  4,  4,  4,  4,  4,
    4,  4,  4,  4,  4,  4,  4,  4,  4,  4,  4,  4,  4,  4,  4,  4,  4,  4,  4,  4,  4,  4,  4,  4,  4,  4,  4,  4,  4,
    4,  4,  4,  4,  4,  4,  4,  4,  4,  4,  4,  4,  4,  4,  4,  4,  4,  4,  4,  4,  4,  4,  4,  4};

static inline bool is(char byte, unsigned wanted) { return (classes[(uint8_t)byte] & wanted) != 0; }

static inline bool is_blank(char byte) { return byte == ' ' || byte == '\t'; }

/* Compares text with a word of lower-case letters and "-"; ignores the text's case. The text must
 * consist of tchars: a CR would be equal to "-" (0x0d | 0x20). */
static inline bool same_word(const char *text, size_t length, const char *word, size_t word_length) {
  if (length != word_length) return false;
  for (size_t i = 0; i < length; i++) {
    if ((text[i] | 0x20) != word[i]) return false;
  }
  return true;
}
#define SAME_WORD(text, length, literal) same_word(text, length, literal, sizeof(literal) - 1)

static inline const char *skip_class(const char *p, const char *end, unsigned wanted) {
  while (p < end && is(*p, wanted)) p++;
  return p;
}

/* Returns the first byte not allowed in a field value, usually a CR. */
static inline const char *skip_value(const char *p, const char *end) {
#ifdef GYRE_HTTP_SSE2
  const __m128i last_control = _mm_set1_epi8(0x1f), tab = _mm_set1_epi8('\t'), delete = _mm_set1_epi8(0x7f);
  while (end - p >= 16) {
    const __m128i v = _mm_loadu_si128((const __m128i *)(const void *)p);
    const __m128i control = _mm_cmpeq_epi8(_mm_max_epu8(v, last_control), last_control);
    const __m128i wrong = _mm_or_si128(_mm_andnot_si128(_mm_cmpeq_epi8(v, tab), control), _mm_cmpeq_epi8(v, delete));
    const unsigned mask = (unsigned)_mm_movemask_epi8(wrong);
    if (mask != 0) return p + __builtin_ctz(mask);
    p += 16;
  }
#endif
  return skip_class(p, end, CLASS_VALUE);
}

/* Returns the first byte that is not CLASS_TARGET. */
static inline const char *skip_target(const char *p, const char *end) {
#ifdef GYRE_HTTP_SSE2
  const __m128i first = _mm_set1_epi8(0x21), span = _mm_set1_epi8(0x7e - 0x21);
  const __m128i hash = _mm_set1_epi8('#'), question = _mm_set1_epi8('?');
  while (end - p >= 16) {
    const __m128i v = _mm_loadu_si128((const __m128i *)(const void *)p);
    const __m128i x = _mm_sub_epi8(v, first);
    const __m128i visible = _mm_cmpeq_epi8(_mm_min_epu8(x, span), x);
    const __m128i special = _mm_or_si128(_mm_cmpeq_epi8(v, hash), _mm_cmpeq_epi8(v, question));
    const unsigned mask = (unsigned)_mm_movemask_epi8(_mm_andnot_si128(special, visible)) ^ 0xffffu;
    if (mask != 0) return p + __builtin_ctz(mask);
    p += 16;
  }
#endif
  return skip_class(p, end, CLASS_TARGET);
}

/* Returns the first byte that is not a tchar. Sets *underscore if the name has "_". */
static inline const char *skip_name(const char *p, const char *end, bool *underscore) {
#ifdef GYRE_HTTP_SSE2
  const __m128i small = _mm_set1_epi8(0x20), a = _mm_set1_epi8('a'), letters = _mm_set1_epi8(25);
  const __m128i zero = _mm_set1_epi8('0'), digits = _mm_set1_epi8(9), dash = _mm_set1_epi8('-');
  while (end - p >= 16) {
    const __m128i v = _mm_loadu_si128((const __m128i *)(const void *)p);
    const __m128i letter = _mm_sub_epi8(_mm_or_si128(v, small), a);
    const __m128i digit = _mm_sub_epi8(v, zero);
    const __m128i plain =
        _mm_or_si128(_mm_cmpeq_epi8(v, dash), _mm_or_si128(_mm_cmpeq_epi8(_mm_min_epu8(letter, letters), letter),
                                                           _mm_cmpeq_epi8(_mm_min_epu8(digit, digits), digit)));
    const unsigned mask = (unsigned)_mm_movemask_epi8(plain) ^ 0xffffu;
    if (mask == 0) {
      p += 16;
      continue;
    }
    p += __builtin_ctz(mask);
    if (!is(*p, CLASS_TOKEN)) return p;
    if (*p++ == '_') *underscore = true;
  }
#endif
  for (; p < end && is(*p, CLASS_TOKEN); p++) {
    if (*p == '_') *underscore = true;
  }
  return p;
}
