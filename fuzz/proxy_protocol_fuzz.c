/*
 * The fuzzer of the PROXY protocol's header: any bytes, whole and in every beginning of them, and
 * what must hold for what is accepted. libFuzzer calls it where clang has it, else fuzz/mutate.c
 * does. A finding aborts.
 *
 * The first byte of an input chooses the versions; the rest are its bytes.
 */
#include "net/proxy_protocol.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect(int condition, const char *what) {
  if (condition) return;
  fprintf(stderr, "does not hold: %s\n", what);
  abort();
}

/* In memory of exactly this size, so that the sanitizer finds a byte too many. */
static int parse(const uint8_t *bytes, size_t length, unsigned versions, struct gyre_proxy_source *source) {
  uint8_t *copy = malloc(length ? length : 1);
  if (!copy) abort();
  if (length) memcpy(copy, bytes, length);
  int result = gyre_proxy_parse(copy, length, versions, source);
  free(copy);
  return result;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct gyre_proxy_source whole, part;
  if (size == 0) return 0;
  unsigned versions = data[0] & 3;
  const uint8_t *bytes = data + 1;
  size_t length = size - 1;
  int result = parse(bytes, length, versions, &whole);
  expect(result >= GYRE_PROXY_WRONG && result <= GYRE_PROXY_BYTES && result <= (int)length,
         "a length within the bytes");
  expect(result != 0 || length < GYRE_PROXY_BYTES, "an end to waiting");
  expect(result <= 0 || versions != 0, "a version that is expected");
  expect(whole.family == 0 || whole.family == AF_INET || whole.family == AF_INET6, "a family of addresses");
  expect(result > 0 || whole.family == 0, "no address without a header");
  for (size_t i = 0; i < length; i++) {
    int early = parse(bytes, i, versions, &part);
    if (result > 0 && (int)i < result) expect(early == 0, "each beginning of a header waits for more");
    if (result > 0 && (int)i >= result) expect(early == result, "what follows a header changes nothing");
    if (result == 0) expect(early == 0, "each beginning of a beginning waits for more");
    if (early == GYRE_PROXY_WRONG) expect(result == GYRE_PROXY_WRONG, "what is wrong stays wrong");
  }
  return 0;
}
