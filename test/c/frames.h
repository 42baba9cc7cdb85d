/*
 * What those plain C tests share that answer inputs: called with "frames" they read frames from
 * stdin and print a line for each. A frame is a header, whose last four bytes are a length, and so
 * many bytes; numbers are little endian. The other sides are test/http/verdicts.rb and
 * test/log/verdicts.rb.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define FRAME_HEADER_BYTES_LIMIT 32

static uint32_t little_endian(const unsigned char *bytes) {
  return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

/* `answer` returns a line, to be freed. */
static int answer_frames(size_t header_bytes,
                         char *(*answer)(const unsigned char *header, const char *bytes, size_t length)) {
  unsigned char header[FRAME_HEADER_BYTES_LIMIT];
  if (header_bytes > sizeof(header)) abort();
  while (fread(header, header_bytes, 1, stdin) == 1) {
    const size_t length = little_endian(header + header_bytes - 4);
    char *const bytes = malloc(length + 1);
    if (bytes == NULL || (length > 0 && fread(bytes, length, 1, stdin) != 1)) abort();
    char *const line = answer(header, bytes, length);
    puts(line);
    fflush(stdout);
    free(line);
    free(bytes);
  }
  return 0;
}
