/*
 * The plain C test of the HTTP/1 parsers. Without arguments it checks what only C has: the table of
 * bytes, the limits' bounds, offsets, what stays after a verdict. With "frames" it reads inputs
 * from stdin and prints a line for each (http1_exercise.h); test/http/ compares those lines with
 * what the cases expect and with the Ruby parser.
 *
 * A frame: kind (one byte), request_line_bytes, header_bytes, header_count, length (four bytes
 * each, little endian), bytes.
 */
#include "check.h"
#include "frames.h"
#include "http/h1/chunked.h"
#include "http/h1/parser.h"
#include "http/scan.h"
#include "http1_exercise.h"

#include <stdlib.h>
#include <string.h>

static const struct gyre_http_head_limits usual = {8192, 65536, 128};

static int parse(struct gyre_http_head *head, struct gyre_http_field *fields, uint16_t capacity, const char *text) {
  gyre_http1_head_reset(head, fields, capacity);
  return gyre_http1_head_parse(head, text, strlen(text), &usual);
}

static void the_table_of_bytes_says_what_the_grammar_says(void) {
  for (int i = 0; i < 256; i++) {
    const char byte = (char)i;
    const bool digit = i >= '0' && i <= '9', letter = (i >= 'a' && i <= 'z') || (i >= 'A' && i <= 'Z');
    const bool hex = digit || (i >= 'a' && i <= 'f') || (i >= 'A' && i <= 'F');
    CHECK(is(byte, CLASS_DIGIT) == digit);
    CHECK(is(byte, CLASS_HEX) == hex);
    CHECK(is(byte, CLASS_TOKEN) == (i != 0 && (digit || letter || strchr("!#$%&'*+-.^_`|~", i) != NULL)));
    CHECK(is(byte, CLASS_HOST) == (i != 0 && (digit || letter || strchr("-._~!$&'()*+,;=", i) != NULL)));
    CHECK(is(byte, CLASS_TARGET) == (i > 0x20 && i < 0x7f && i != '#' && i != '?'));
    CHECK(is(byte, CLASS_VALUE) == (i == '\t' || (i >= 0x20 && i != 0x7f)));
  }
}

/* The wide searches find what the table says, wherever in a line the byte stands. */
static void the_searches_agree_with_the_table(void) {
  char line[40];
  for (int i = 0; i < 256; i++) {
    for (size_t at = 0; at < sizeof(line); at++) {
      bool underscore = false;
      memset(line, 'a', sizeof(line));
      line[at] = (char)i;
      CHECK((size_t)(skip_value(line, line + sizeof(line)) - line) == (is((char)i, CLASS_VALUE) ? sizeof(line) : at));
      CHECK((size_t)(skip_target(line, line + sizeof(line)) - line) == (is((char)i, CLASS_TARGET) ? sizeof(line) : at));
      CHECK((size_t)(skip_name(line, line + sizeof(line), &underscore) - line) ==
            (is((char)i, CLASS_TOKEN) ? sizeof(line) : at));
      CHECK(underscore == (i == '_'));
    }
  }
}

static void offsets_count_from_the_start_of_the_bytes(void) {
  static const char text[] = "\r\nPOST /a?b HTTP/1.1\r\nHost:  c:80 \r\nContent-Length: 5\r\nX_y: z\r\n\r\nhello";
  struct gyre_http_field fields[3];
  struct gyre_http_head head;
  CHECK(parse(&head, fields, 3, text) == (int)(sizeof(text) - 1 - 5));
  CHECK(head.method.offset == 2 && head.method.length == 4 && head.method_number == GYRE_HTTP_METHOD_POST);
  CHECK(head.target.offset == 7 && head.target.length == 4);
  CHECK(head.path.offset == 7 && head.path.length == 2);
  CHECK(head.has_query && head.query.offset == 10 && head.query.length == 1);
  CHECK(head.field_count == 3 && head.content_length == 5);
  CHECK(fields[0].name == 22 && fields[0].name_length == 4 && fields[0].value == 29 && fields[0].value_length == 4);
  CHECK(fields[0].flags == GYRE_HTTP_FIELD_HOST && fields[1].flags == GYRE_HTTP_FIELD_CONTENT_LENGTH);
  CHECK(fields[2].flags == GYRE_HTTP_FIELD_UNDERSCORE);
  CHECK(head.authority.offset == 29 && head.host.offset == 29 && head.host.length == 1 && head.port.offset == 31);
}

/* http://host has no "/" behind the host; one of the scheme's slashes stands for it. */
static void an_absolute_target_without_a_path_has_a_slash_as_its_path(void) {
  static const char text[] = "GET http://a?b HTTP/1.1\r\nHost: a\r\n\r\n";
  struct gyre_http_field fields[1];
  struct gyre_http_head head;
  CHECK(parse(&head, fields, 1, text) > 0);
  CHECK(head.path.length == 1 && text[head.path.offset] == '/');
}

static void the_capacity_bounds_the_fields_whatever_the_limit_is(void) {
  struct gyre_http_field fields[2];
  struct gyre_http_head head;
  CHECK(parse(&head, NULL, 0, "GET / HTTP/1.0\r\n\r\n") > 0);
  CHECK(parse(&head, NULL, 0, "GET / HTTP/1.0\r\nA: b\r\n\r\n") == -1 && head.status == 431);
  CHECK(parse(&head, fields, 2, "GET / HTTP/1.0\r\nA: b\r\nC: d\r\n\r\n") > 0);
  CHECK(parse(&head, fields, 2, "GET / HTTP/1.0\r\nA: b\r\nC: d\r\nE: f\r\n\r\n") == -1 && head.status == 431);
}

static void limits_beyond_any_use_are_taken_as_large_ones(void) {
  const struct gyre_http_head_limits all = {UINT32_MAX, UINT32_MAX, UINT16_MAX};
  static const char text[] = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
  struct gyre_http_field fields[1];
  struct gyre_http_head head;
  gyre_http1_head_reset(&head, fields, 1);
  CHECK(gyre_http1_head_parse(&head, text, sizeof(text) - 1, &all) == (int)sizeof(text) - 1);
}

static void a_verdict_stays(void) {
  struct gyre_http_field fields[4];
  struct gyre_http_head head;
  CHECK(parse(&head, fields, 4, "GET / HTTP/1.0\r\n\r\n") == 18);
  CHECK(gyre_http1_head_parse(&head, "", 0, &usual) == 18);
  CHECK(parse(&head, fields, 4, "GET / HTTP/3.0\r\n\r\n") == -1);
  CHECK(gyre_http1_head_parse(&head, "", 0, &usual) == -1 && head.status == 505);
}

/* A caller's mistake, but not one to read beyond the end for. */
static void fewer_bytes_than_before_are_taken_for_too_few(void) {
  struct gyre_http_field fields[4];
  struct gyre_http_head head;
  CHECK(parse(&head, fields, 4, "GET / HTTP/1.1\r\nHo") == 0);
  CHECK(gyre_http1_head_parse(&head, "GET", 3, &usual) == 0);
}

static void limits_that_shrink_between_two_calls_end_in_a_refusal(void) {
  const struct gyre_http_head_limits small = {4, 4, 128};
  static const char line[] = "GET /abcdefgh", fields_too[] = "GET / HTTP/1.1\r\nHost: abcdefgh";
  struct gyre_http_field fields[4];
  struct gyre_http_head head;
  CHECK(parse(&head, fields, 4, line) == 0);
  CHECK(gyre_http1_head_parse(&head, line, sizeof(line) - 1, &small) == -1 && head.status == 414);
  CHECK(parse(&head, fields, 4, fields_too) == 0);
  CHECK(gyre_http1_head_parse(&head, fields_too, sizeof(fields_too) - 1, &small) == -1 && head.status == 431);
}

static void no_input_is_fine(void) {
  struct gyre_http1_chunked chunked;
  struct gyre_http_head head;
  size_t consumed, length;
  const char *data;
  gyre_http1_head_reset(&head, NULL, 0);
  CHECK(gyre_http1_head_parse(&head, "", 0, &usual) == 0);
  gyre_http1_chunked_reset(&chunked);
  CHECK(gyre_http1_chunked_step(&chunked, "", 0, &consumed, &data, &length) == GYRE_HTTP1_CHUNKED_MORE &&
        consumed == 0);
}

static void data_is_a_slice_of_the_input(void) {
  static const char text[] = "5\r\nhello\r\n0\r\n\r\nGET";
  struct gyre_http1_chunked chunked;
  size_t consumed, length;
  const char *data;
  gyre_http1_chunked_reset(&chunked);
  CHECK(gyre_http1_chunked_step(&chunked, text, 5, &consumed, &data, &length) == GYRE_HTTP1_CHUNKED_DATA);
  CHECK(data == text + 3 && length == 2 && consumed == 5 && chunked.remaining == 3);
  CHECK(gyre_http1_chunked_step(&chunked, text + 5, 14, &consumed, &data, &length) == GYRE_HTTP1_CHUNKED_DATA);
  CHECK(data == text + 5 && length == 3 && consumed == 3 && chunked.remaining == 0);
  CHECK(gyre_http1_chunked_step(&chunked, text + 8, 11, &consumed, &data, &length) == GYRE_HTTP1_CHUNKED_TRAILERS);
  CHECK(consumed == 5 && length == 0);
  CHECK(gyre_http1_chunked_step(&chunked, text + 13, 6, &consumed, &data, &length) == GYRE_HTTP1_CHUNKED_TRAILERS &&
        consumed == 0);
}

static char *answer(const unsigned char *header, const char *bytes, size_t length) {
  const struct exercise_input input = {.kind = (enum exercise_kind)header[0],
                                       .limits = {.request_line_bytes = little_endian(header + 1),
                                                  .header_bytes = little_endian(header + 5),
                                                  .header_count = (uint16_t)little_endian(header + 9)},
                                       .bytes = bytes,
                                       .length = length};
  return exercise(&input);
}

int main(int count, char **arguments) {
  if (count > 1 && strcmp(arguments[1], "frames") == 0) return answer_frames(17, answer);
  the_table_of_bytes_says_what_the_grammar_says();
  the_searches_agree_with_the_table();
  offsets_count_from_the_start_of_the_bytes();
  an_absolute_target_without_a_path_has_a_slash_as_its_path();
  the_capacity_bounds_the_fields_whatever_the_limit_is();
  limits_beyond_any_use_are_taken_as_large_ones();
  a_verdict_stays();
  fewer_bytes_than_before_are_taken_for_too_few();
  limits_that_shrink_between_two_calls_end_in_a_refusal();
  no_input_is_fine();
  data_is_a_slice_of_the_input();
  return check_summary();
}
