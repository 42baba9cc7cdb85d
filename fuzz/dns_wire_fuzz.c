/*
 * The fuzzer of DNS messages: any bytes as a message and as a name's text, whole and cut, read and
 * written again (test/c/dns_exercise.h). libFuzzer calls it where clang has it, else fuzz/mutate.c
 * does. A finding aborts.
 */
#include "dns_exercise.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char *const verdict = exercise_message((const char *)data, size);
  if (strstr(verdict, "inconsistent")) {
    fprintf(stderr, "%s\n", verdict);
    abort();
  }
  free(verdict);
  return 0;
}
