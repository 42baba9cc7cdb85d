/* CRC-32 as in zlib (ISO 3309). No ruby.h, no allocation. */
#pragma once

#include "feature.h"

/* Called once before the first use. */
void gyre_log_crc32_setup(void);

/* `crc`: the CRC of the bytes before these, or 0. */
uint32_t gyre_log_crc32(uint32_t crc, const char *bytes, size_t length);
