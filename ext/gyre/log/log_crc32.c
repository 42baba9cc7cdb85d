/* CRC-32 (log_crc32.h) in two ways:
 *
 * - Tables, eight bytes at a time. Table k has a byte's effect on the remainder if k more bytes
 *   follow the byte.
 * - Carry-less multiplication (PCLMULQDQ), sixteen bytes at a time. Bits that are n places before
 *   the end leave the same remainder as their product with (x^n modulo the polynomial) at the end.
 *   So a text is folded into its last sixteen bytes, which the tables reduce (Gopal and others,
 *   "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction", 2009). A partial
 *   last block is filled with the end of the block before it. */
#include "log/log_crc32.h"

#if defined(__x86_64__) && defined(__GNUC__)
#define FOLDS 1
#include <tmmintrin.h>
#include <wmmintrin.h>
#endif

static uint32_t tables[8][256];

static uint32_t little_endian(const unsigned char *bytes) {
  return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

/* The caller inverts the CRC before and after the call. */
static uint32_t by_tables(uint32_t crc, const unsigned char *at, size_t length) {
  for (; length >= 8; length -= 8, at += 8) {
    const uint32_t one = little_endian(at) ^ crc, two = little_endian(at + 4);
    crc = tables[7][one & 0xff] ^ tables[6][one >> 8 & 0xff] ^ tables[5][one >> 16 & 0xff] ^ tables[4][one >> 24] ^
          tables[3][two & 0xff] ^ tables[2][two >> 8 & 0xff] ^ tables[1][two >> 16 & 0xff] ^ tables[0][two >> 24];
  }
  for (; length > 0; length--) crc = crc >> 8 ^ tables[0][(crc ^ *at++) & 0xff];
  return crc;
}

#ifdef FOLDS
#define BLOCK 16
#define FOLDING __attribute__((target("pclmul,ssse3")))

static int folds;

/* Factors x^n modulo the polynomial, bits reversed: they move a block by four blocks, or by one. */
FOLDING static __m128i by_four(void) { return _mm_set_epi64x(INT64_C(0x1c6e41596), INT64_C(0x154442bd4)); }

FOLDING static __m128i by_one(void) { return _mm_set_epi64x(INT64_C(0x0ccaa009e), INT64_C(0x1751997d0)); }

FOLDING static __m128i load(const unsigned char *at) { return _mm_loadu_si128((const __m128i *)(const void *)at); }

FOLDING static __m128i fold(__m128i block, __m128i by, __m128i there) {
  const __m128i low = _mm_clmulepi64_si128(block, by, 0x00), high = _mm_clmulepi64_si128(block, by, 0x11);
  return _mm_xor_si128(_mm_xor_si128(low, high), there);
}

/* Folds the block into the last `rest` bytes before `end`; at least one block precedes them. */
FOLDING static __m128i fold_rest(__m128i block, const unsigned char *end, size_t rest) {
  static const unsigned char shuffle[3 * BLOCK] = {128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128,
                                                   128, 128, 128, 128, 0,   1,   2,   3,   4,   5,   6,   7,
                                                   8,   9,   10,  11,  12,  13,  14,  15,  128, 128, 128, 128,
                                                   128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128};
  const __m128i first = load(shuffle + rest), others = load(shuffle + BLOCK + rest);
  const __m128i bytes = _mm_and_si128(load(end - BLOCK), _mm_cmpgt_epi8(first, _mm_set1_epi8(-1)));
  return fold(_mm_shuffle_epi8(block, first), by_one(), _mm_or_si128(_mm_shuffle_epi8(block, others), bytes));
}

/* Returns the same as by_tables, for at least one block of bytes. */
FOLDING static uint32_t by_folding(uint32_t crc, const unsigned char *at, size_t length) {
  const size_t rest = length % BLOCK;
  const unsigned char *const end = at + (length - rest);
  __m128i block = _mm_xor_si128(load(at), _mm_cvtsi32_si128((int)crc));
  unsigned char last[BLOCK];
  if (end - at >= 4 * BLOCK) {
    __m128i second = load(at + BLOCK), third = load(at + 2 * BLOCK), fourth = load(at + 3 * BLOCK);
    for (at += 4 * BLOCK; end - at >= 4 * BLOCK; at += 4 * BLOCK) {
      block = fold(block, by_four(), load(at));
      second = fold(second, by_four(), load(at + BLOCK));
      third = fold(third, by_four(), load(at + 2 * BLOCK));
      fourth = fold(fourth, by_four(), load(at + 3 * BLOCK));
    }
    block = fold(fold(fold(block, by_one(), second), by_one(), third), by_one(), fourth);
  } else {
    at += BLOCK;
  }
  for (; at < end; at += BLOCK) block = fold(block, by_one(), load(at));
  if (rest > 0) block = fold_rest(block, end + rest, rest);
  _mm_storeu_si128((__m128i *)(void *)last, block);
  return by_tables(0, last, BLOCK);
}
#endif

void gyre_log_crc32_setup(void) {
  for (uint32_t byte = 0; byte < 256; byte++) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; bit++) crc = crc & 1 ? crc >> 1 ^ UINT32_C(0xedb88320) : crc >> 1;
    tables[0][byte] = crc;
  }
  for (int table = 1; table < 8; table++) {
    for (int byte = 0; byte < 256; byte++) {
      const uint32_t before = tables[table - 1][byte];
      tables[table][byte] = before >> 8 ^ tables[0][before & 0xff];
    }
  }
#ifdef FOLDS
  __builtin_cpu_init();
  folds = __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("ssse3");
#endif
}

uint32_t gyre_log_crc32(uint32_t crc, const char *bytes, size_t length) {
  const unsigned char *const at = (const unsigned char *)bytes;
#ifdef FOLDS
  if (folds && length >= BLOCK) return ~by_folding(~crc, at, length);
#endif
  return ~by_tables(~crc, at, length);
}
