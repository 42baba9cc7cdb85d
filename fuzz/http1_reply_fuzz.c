/*
 * The fuzzer of the client's response parser: any bytes, whole and split in two at a place that the
 * input chooses, and what must hold for every head that is accepted. libFuzzer calls it where clang
 * has it, else fuzz/mutate.c does. A finding aborts.
 *
 * The first byte of an input chooses the limits, the second the split; the rest are its bytes.
 */
#include "http/h1/chunked.h"
#include "http/h1/reply.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIELDS 64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect(int condition, const char *what) {
  if (condition) return;
  fprintf(stderr, "does not hold: %s\n", what);
  abort();
}

/* Parses in a block of exactly this size, so that the sanitizer sees reads beyond. Copies the block
 * back, because the parser unfolds lines in place. */
static int parse(struct gyre_http_head *head, char *bytes, size_t length, const struct gyre_http_head_limits *limits) {
  char *copy = malloc(length ? length : 1);
  memcpy(copy, bytes, length);
  int result = gyre_http1_reply_parse(head, copy, length, limits);
  memcpy(bytes, copy, length);
  free(copy);
  return result;
}

static void check_head(const struct gyre_http_head *head, const char *bytes, size_t length, int end) {
  expect(end > 0 && (size_t)end <= length && memcmp(bytes + end - 4, "\r\n\r\n", 4) == 0,
         "a head ends in a blank line");
  expect(head->status >= 100 && head->status <= 999, "a status has three digits");
  expect((head->flags & (GYRE_HTTP_HEAD_CHUNKED | GYRE_HTTP_HEAD_CONTENT_LENGTH)) !=
             (GYRE_HTTP_HEAD_CHUNKED | GYRE_HTTP_HEAD_CONTENT_LENGTH),
         "never both framings");
  expect(head->minor_version == 1 || !(head->flags & GYRE_HTTP_HEAD_CHUNKED), "no chunks in HTTP/1.0");
  expect(gyre_http1_reply_body(head, GYRE_HTTP_METHOD_HEAD) == GYRE_REPLY_NONE, "HEAD has no body");
  enum gyre_http1_reply_body body = gyre_http1_reply_body(head, GYRE_HTTP_METHOD_GET);
  expect(body != GYRE_REPLY_LENGTH || head->content_length > 0, "a length where it counts");
  for (unsigned i = 0; i < head->field_count; i++) {
    const struct gyre_http_field *field = &head->fields[i];
    expect(field->value + field->value_length <= (uint32_t)end && field->name_length > 0, "fields lie in the head");
    for (uint32_t at = 0; at < field->value_length; at++) {
      unsigned char byte = (unsigned char)bytes[field->value + at];
      expect((byte >= 0x20 && byte != 0x7f) || byte == '\t', "a value holds no control byte");
    }
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const struct gyre_http_head_limits limits[] = {{8192, 65536, FIELDS}, {24, 100, 3}, {64, 30, 2}, {14, 2, 0}};
  struct gyre_http_field fields[FIELDS], split_fields[FIELDS];
  struct gyre_http_head head, split;
  if (size < 2) return 0;
  const struct gyre_http_head_limits *chosen = &limits[data[0] & 3];
  size_t length = size - 2, first = length ? data[1] % (length + 1) : 0;
  char *bytes = malloc(length + 1), *split_bytes = malloc(length + 1);
  memcpy(bytes, data + 2, length);
  memcpy(split_bytes, data + 2, length);

  gyre_http1_head_reset(&head, fields, FIELDS);
  int whole = parse(&head, bytes, length, chosen);
  gyre_http1_head_reset(&split, split_fields, FIELDS);
  int part = parse(&split, split_bytes, first, chosen);
  int rest = part ? part : parse(&split, split_bytes, length, chosen);
  expect(whole == rest, "a split changes no result");
  expect(whole <= 0 || (head.status == split.status && head.flags == split.flags &&
                        head.content_length == split.content_length && head.field_count == split.field_count),
         "a split changes no meaning");
  expect(whole >= 0 || head.reason != NULL, "a refusal has a reason");
  expect(whole <= 0 || memcmp(bytes, split_bytes, (size_t)whole) == 0, "a split changes no byte");
  if (whole > 0) check_head(&head, bytes, length, whole);
  free(bytes);
  free(split_bytes);
  return 0;
}
