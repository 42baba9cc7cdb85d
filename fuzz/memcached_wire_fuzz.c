/*
 * The fuzzer of memcached's wire: any bytes as replies and as a key, in every way in which replies
 * may arrive (test/c/memcached_exercise.h). libFuzzer calls it where clang has it, else
 * fuzz/mutate.c does. A finding aborts.
 *
 * The first byte of an input chooses what it is; the rest are its bytes.
 */
#include "memcached_exercise.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0) return 0;
  const char *const bytes = (const char *)data + 1;
  char *const verdict = data[0] == 'k' ? exercise_key(bytes, size - 1) : exercise_replies(bytes, size - 1);
  if (strstr(verdict, "inconsistent") || strstr(verdict, "out-of-bounds") || strstr(verdict, "longer-than-input") ||
      strstr(verdict, "wants-what-is-there") || strstr(verdict, "no-reason")) {
    fprintf(stderr, "%s\n", verdict);
    abort();
  }
  free(verdict);
  return 0;
}
