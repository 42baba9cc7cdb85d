/* CRC-32 as zlib computes it (ISO 3309), for the log's records. No ruby.h, no allocation. */
#ifndef GYRE_LOG_CRC32_H
#define GYRE_LOG_CRC32_H

#include <stddef.h>
#include <stdint.h>

/* Fills the tables; called once before the first use. */
void gyre_log_crc32_setup(void);

/* `crc` is the result for the preceding bytes, 0 at the beginning. */
uint32_t gyre_log_crc32(uint32_t crc, const char *bytes, size_t length);

#endif
