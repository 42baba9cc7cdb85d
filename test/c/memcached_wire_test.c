/*
 * The plain C test of memcached's wire. Without arguments it checks the commands' lines and what a
 * reply's fields are. With "frames" it reads inputs from stdin and prints a line for each
 * (memcached_exercise.h); test/memcached/wire_test.rb compares those lines with the oracle's.
 *
 * A frame: kind (one byte: r replies, k a key), length (four bytes, little endian), bytes.
 */
#include "check.h"
#include "frames.h"
#include "memcached/memcached_wire.h"
#include "memcached_exercise.h"

#include <string.h>

static bool is_command(const char *expected, const char *verb, const char *key, const char *flags) {
  char line[1024];
  const size_t length = strlen(key);
  char *const end =
      gyre_memcached_put_command(line, verb, key, length, gyre_memcached_key_form(key, length), flags, strlen(flags));
  return (size_t)(end - line) == strlen(expected) && memcmp(line, expected, strlen(expected)) == 0;
}

static bool is_set(const char *expected, const char *key, size_t value_length, uint32_t flags, int64_t ttl_s,
                   const char *more) {
  char line[1024];
  const size_t length = strlen(key);
  char *const end = gyre_memcached_put_set(line, key, length, gyre_memcached_key_form(key, length), value_length, flags,
                                           ttl_s, more, strlen(more));
  return (size_t)(end - line) == strlen(expected) && memcmp(line, expected, strlen(expected)) == 0;
}

static void commands_are_lines(void) {
  CHECK(is_command("mg a v f\r\n", "mg", "a", " v f"));
  CHECK(is_command("md key\r\n", "md", "key", ""));
  CHECK(is_command("mg YSBi b v\r\n", "mg", "a b", " v"));
  CHECK(is_command("mg Cg== b\r\n", "mg", "\n", ""));
  CHECK(is_command("mg w7w= b\r\n", "mg", "\xc3\xbc", ""));
  CHECK(is_command("mg ~!\r\n", "mg", "~!", ""));
  CHECK(is_command("mg fw== b\r\n", "mg", "\x7f", ""));
  CHECK(is_set("ms a 0\r\n", "a", 0, 0, 0, ""));
  CHECK(is_set("ms a 12 F5 T60 q\r\n", "a", 12, 5, 60, " q"));
  CHECK(is_set("ms a 1 T-1\r\n", "a", 1, 0, -1, ""));
  CHECK(is_set("ms a 1 T-1\r\n", "a", 1, 0, INT64_MIN, ""));
  CHECK(is_set("ms IA== 1073741824 b F4294967295 T9223372036854775807\r\n", " ", GYRE_MEMCACHED_VALUE_BYTES, UINT32_MAX,
               INT64_MAX, ""));
}

static void keys_have_lengths(void) {
  char key[GYRE_MEMCACHED_KEY_BYTES + 1];
  memset(key, 'a', sizeof(key));
  CHECK(gyre_memcached_key_form(key, 0) == GYRE_MEMCACHED_REFUSED);
  CHECK(gyre_memcached_key_form(key, 1) == GYRE_MEMCACHED_PLAIN);
  CHECK(gyre_memcached_key_form(key, 250) == GYRE_MEMCACHED_PLAIN);
  CHECK(gyre_memcached_key_form(key, 251) == GYRE_MEMCACHED_REFUSED);
  memset(key, '\xe4', sizeof(key));
  CHECK(gyre_memcached_key_form(key, 186) == GYRE_MEMCACHED_BASE64); /* 248 bytes there */
  CHECK(gyre_memcached_key_form(key, 187) == GYRE_MEMCACHED_REFUSED);
}

static void numbers_are_decimal(void) {
  char digits[32];
  *gyre_memcached_put_number(digits, 0) = '\0';
  CHECK(strcmp(digits, "0") == 0);
  *gyre_memcached_put_number(digits, UINT64_MAX) = '\0';
  CHECK(strcmp(digits, "18446744073709551615") == 0);
}

static void a_value_has_its_fields(void) {
  static const char text[] = "VA 3 f7 c18446744073709551615 t-1 l5 h1 O9 W X Z kkey s3\r\na\r\n\r\nHD";
  struct gyre_memcached_reply reply;
  size_t wanted;
  CHECK(gyre_memcached_parse(&reply, text, sizeof(text) - 1, &wanted) == (ssize_t)(sizeof(text) - 3));
  CHECK(reply.code == GYRE_MEMCACHED_VA && reply.data_length == 3 && memcmp(reply.data, "a\r\n", 3) == 0);
  CHECK(reply.flags == 7 && reply.cas == UINT64_MAX && reply.ttl_s == -1 && reply.idle_s == 5 && reply.hit == 1);
  CHECK(reply.won && reply.stale && reply.lost);
}

static void an_incomplete_value_wants_all_of_itself(void) {
  static const char text[] = "VA 1000 f1\r\nabc";
  struct gyre_memcached_reply reply;
  size_t wanted = 0;
  CHECK(gyre_memcached_parse(&reply, text, sizeof(text) - 1, &wanted) == 0 && wanted == 12 + 1000 + 2);
  CHECK(gyre_memcached_parse(&reply, text, 5, &wanted) == 0 && wanted == 6);
}

static void limits_are_kept(void) {
  static char line[GYRE_MEMCACHED_LINE_BYTES + 1];
  struct gyre_memcached_reply reply;
  size_t wanted;
  memset(line, 'a', sizeof(line));
  memcpy(line, "STAT ", 5);
  CHECK(gyre_memcached_parse(&reply, line, GYRE_MEMCACHED_LINE_BYTES - 1, &wanted) == 0);
  CHECK(gyre_memcached_parse(&reply, line, GYRE_MEMCACHED_LINE_BYTES, &wanted) == -1);
  memcpy(line + GYRE_MEMCACHED_LINE_BYTES - 2, "\r\n", 2);
  CHECK(gyre_memcached_parse(&reply, line, GYRE_MEMCACHED_LINE_BYTES, &wanted) == GYRE_MEMCACHED_LINE_BYTES);
  CHECK(gyre_memcached_parse(&reply, "VA 1073741824\r\n", 15, &wanted) == 0);
  CHECK(gyre_memcached_parse(&reply, "VA 1073741825\r\n", 15, &wanted) == -1);
}

static char *answer(const unsigned char *header, const char *bytes, size_t length) {
  return header[0] == 'k' ? exercise_key(bytes, length) : exercise_replies(bytes, length);
}

int main(int count, char **arguments) {
  if (count > 1 && strcmp(arguments[1], "frames") == 0) return answer_frames(5, answer);
  commands_are_lines();
  keys_have_lengths();
  numbers_are_decimal();
  a_value_has_its_fields();
  an_incomplete_value_wants_all_of_itself();
  limits_are_kept();
  return check_summary();
}
