/*
 * The fuzzer of the HTTP/1 parsers: any bytes, in every way in which they may arrive
 * (test/c/http1_exercise.h), and what must hold for every head that is accepted. libFuzzer calls it
 * where clang has it, else fuzz/mutate.c does. A finding aborts.
 *
 * The first byte of an input chooses what it is and under which limits; the rest are its bytes.
 */
#include "http/h1/parser.h"
#include "http1_exercise.h"

#include <stdint.h>
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

static int holds_control_byte(const char *bytes, size_t length) {
  for (size_t i = 0; i < length; i++) {
    if (((unsigned char)bytes[i] < 0x20 && bytes[i] != '\t') || bytes[i] == 0x7f) return 1;
  }
  return 0;
}

static void check_head(const struct gyre_http_head *head, const char *bytes) {
  const char *const path = bytes + head->path.offset;
  expect((head->flags & (GYRE_HTTP_HEAD_CHUNKED | GYRE_HTTP_HEAD_CONTENT_LENGTH)) !=
             (GYRE_HTTP_HEAD_CHUNKED | GYRE_HTTP_HEAD_CONTENT_LENGTH),
         "never both framings");
  expect(!(head->flags & GYRE_HTTP_HEAD_CONTENT_LENGTH) == (head->content_length < 0), "a length where there is one");
  expect(head->minor_version == 1 ||
             !(head->flags & (GYRE_HTTP_HEAD_CHUNKED | GYRE_HTTP_HEAD_UPGRADE | GYRE_HTTP_HEAD_EXPECT_CONTINUE)),
         "nothing newer in HTTP/1.0");
  expect(head->minor_version == 0 || head->host.length > 0, "HTTP/1.1 has a host");
  expect(head->method.length > 0 && head->path.length > 0, "a method and a path");
  expect(head->target_form >= GYRE_HTTP_TARGET_AUTHORITY || *path == '/', "a path starts with a slash");
  expect(memchr(path, '?', head->path.length) == NULL && memchr(path, '#', head->path.length) == NULL,
         "no query in a path");
  expect(!holds_control_byte(bytes + head->target.offset, head->target.length), "a target is visible");
  for (unsigned i = 0; i < head->field_count; i++) {
    const struct gyre_http_field *field = &head->fields[i];
    expect(field->name_length > 0 && memchr(bytes + field->name, ' ', field->name_length) == NULL, "a name is a token");
    expect(!holds_control_byte(bytes + field->value, field->value_length), "a value holds no control byte");
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const struct gyre_http_head_limits limits[] = {{8192, 65536, FIELDS}, {24, 100, 3}, {64, 30, 2}, {10, 2, 0}};
  struct exercise_input input;
  char *verdict;

  if (size == 0) return 0;
  input.kind = data[0] & 1 ? EXERCISE_BODY : EXERCISE_HEAD;
  input.limits = limits[data[0] >> 1 & 3];
  input.bytes = (const char *)data + 1;
  input.length = size - 1;
  verdict = exercise(&input);
  if (strstr(verdict, "inconsistent") || strstr(verdict, "out-of") || strstr(verdict, "changed") ||
      strstr(verdict, "bad-step") || strstr(verdict, "input-left") || strstr(verdict, "longer-than")) {
    fprintf(stderr, "%s\n", verdict);
    abort();
  }
  free(verdict);
  if (input.kind == EXERCISE_HEAD) {
    struct gyre_http_field fields[FIELDS];
    struct gyre_http_head head;
    gyre_http1_head_reset(&head, fields, FIELDS);
    if (gyre_http1_head_parse(&head, input.bytes, input.length, &input.limits) > 0) check_head(&head, input.bytes);
  }
  return 0;
}
