/*
 * The assertions of the plain C tests: each says what failed and where, counts, and goes on.
 * A test program includes it once and ends with `return check_summary();`.
 */
#pragma once

#include <stdio.h>

static unsigned checks_made, checks_failed;

#define CHECK(condition)                                                                                               \
  do {                                                                                                                 \
    checks_made++;                                                                                                     \
    if (!(condition)) {                                                                                                \
      checks_failed++;                                                                                                 \
      fprintf(stderr, "%s:%d: in %s: not true: %s\n", __FILE__, __LINE__, __func__, #condition);                       \
    }                                                                                                                  \
  } while (0)

static int check_summary(void) {
  printf("%u checks, %u failed\n", checks_made, checks_failed);
  return checks_failed > 0;
}
