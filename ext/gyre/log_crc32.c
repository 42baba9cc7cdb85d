/*
 * CRC-32 (see log_crc32.h), eight bytes at a time: table k tells what a byte does to the remainder when k more bytes follow it.
 */
#include "log_crc32.h"

static uint32_t tables[8][256];

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
}

static uint32_t little_endian(const unsigned char *bytes) {
  return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

uint32_t gyre_log_crc32(uint32_t crc, const char *bytes, size_t length) {
  const unsigned char *at = (const unsigned char *)bytes;
  crc = ~crc;
  for (; length >= 8; length -= 8, at += 8) {
    const uint32_t one = little_endian(at) ^ crc, two = little_endian(at + 4);
    crc = tables[7][one & 0xff] ^ tables[6][one >> 8 & 0xff] ^ tables[5][one >> 16 & 0xff] ^
          tables[4][one >> 24] ^ tables[3][two & 0xff] ^ tables[2][two >> 8 & 0xff] ^
          tables[1][two >> 16 & 0xff] ^ tables[0][two >> 24];
  }
  for (; length > 0; length--) crc = crc >> 8 ^ tables[0][(crc ^ *at++) & 0xff];
  return ~crc;
}
