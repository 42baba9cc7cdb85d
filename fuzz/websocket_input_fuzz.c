/*
 * The fuzzer of a WebSocket's input: any bytes, whole and in pieces, which must give the same
 * events and hold no more memory than a message and a frame. libFuzzer calls it where clang has it,
 * else fuzz/mutate.c does. A finding aborts.
 *
 * The first byte of an input chooses the size of pieces and how messages are compressed, if
 * they are; the rest are its bytes.
 */
#include "websocket_exercise.h"

#define LIMIT 512

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect(int condition, const char *what) {
  if (condition) return;
  fprintf(stderr, "does not hold: %s\n", what);
  abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 2) return 0;
  enum compressing compressing = data[0] % 3;
  size_t piece = 1 + data[0] / 3;
  struct heard whole = hear(data + 1, size - 1, size - 1, LIMIT, compressing);
  struct heard parts = hear(data + 1, size - 1, piece, LIMIT, compressing);
  expect(whole.length == parts.length && memcmp(whole.text, parts.text, whole.length) == 0,
         "pieces give the same events");
  expect(parts.most_held <= LIMIT + 14 + GYRE_WEBSOCKET_CONTROL_BYTES + 6,
         "no more than a message and a frame is held");
  free(whole.text);
  free(parts.text);
  return 0;
}
