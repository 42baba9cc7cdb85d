/*
 * The plain C test of DNS messages: names, pointers, forms of data, and exercises of hostile
 * messages (dns_exercise.h). Run by test/dns/wire_test.rb.
 */
#include "check.h"
#include "dns/wire.h"
#include "dns_exercise.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define MESSAGE(text) text, sizeof(text) - 1
#define QUERY "\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00"
#define ANSWER "\x12\x34\x80\x00\x00\x00\x00\x01\x00\x00\x00\x00"

static bool is(const char *expected, const char *bytes, size_t length) {
  char *text = exercise_message(bytes, length);
  bool same = strncmp(text, expected, strlen(expected)) == 0 && !strstr(text, "inconsistent");
  if (!same) fprintf(stderr, "%s\n", text);
  free(text);
  return same;
}

static bool round_trip(const char *text, const char *expected) {
  uint8_t name[GYRE_DNS_NAME_BYTES];
  char line[GYRE_DNS_TEXT_BYTES];
  if (gyre_dns_name_parse(text, strlen(text), name) == 0) return expected == NULL;
  size_t length = gyre_dns_name_text(name, line);
  return expected && strlen(expected) == length && memcmp(expected, line, length) == 0;
}

static void names_have_a_text(void) {
  char label[70], name[300];
  CHECK(round_trip("www.example.org", "www.example.org"));
  CHECK(round_trip("Example.ORG.", "Example.ORG"));
  CHECK(round_trip(".", "."));
  CHECK(round_trip("", "."));
  CHECK(round_trip("a\\.b.c", "a\\.b.c"));
  CHECK(round_trip("\\097\\000\\255", "a\\000\\255"));
  CHECK(round_trip("a..b", NULL));
  CHECK(round_trip(".a", NULL));
  CHECK(round_trip("\\256", NULL));
  CHECK(round_trip("\\25", NULL));
  CHECK(round_trip("\\", NULL));
  memset(label, 'a', 64);
  label[63] = '\0';
  CHECK(round_trip(label, label));
  strcat(label, "a");
  CHECK(round_trip(label, NULL));
  for (size_t i = 0; i < sizeof(name); i++) name[i] = i % 2 ? '.' : 'a';
  name[253] = '\0'; /* 127 labels: 255 bytes on the wire */
  CHECK(round_trip(name, name));
  strcpy(name + 253, ".a");
  CHECK(round_trip(name, NULL));
}

/* A longer chain costs each name behind it as many steps. */
static bool chain_is_read(unsigned pointers) {
  uint8_t message[1024] = {0}, name[GYRE_DNS_NAME_BYTES];
  for (size_t at = 2; at <= 2 * pointers; at += 2) gyre_dns_put_16(message + at, (uint16_t)(0xc000 | (at - 2)));
  size_t at = 2 * pointers;
  return gyre_dns_name_read(message, sizeof(message), &at, name) == 1;
}

static void names_are_compared_without_case(void) {
  CHECK(gyre_dns_name_equal((const uint8_t *)"\3WwW\2De", (const uint8_t *)"\3wWw\2dE"));
  CHECK(!gyre_dns_name_equal((const uint8_t *)"\3www\2de", (const uint8_t *)"\3www\2df"));
  CHECK(!gyre_dns_name_equal((const uint8_t *)"\3www", (const uint8_t *)"\3www\2de"));
  CHECK(!gyre_dns_name_equal((const uint8_t *)"\1[", (const uint8_t *)"\1{"));
}

static void pointers_lead_back(void) {
  CHECK(is("well-formed", MESSAGE(QUERY "\1a\0\0\1\0\1")));
  CHECK(is("malformed", MESSAGE(QUERY "\xc0\x0c\0\1\0\1")));    /* to itself */
  CHECK(is("malformed", MESSAGE(QUERY "\1a\xc0\x0c\0\1\0\1"))); /* to its own beginning */
  CHECK(is("malformed", MESSAGE(QUERY "\xc0\x20\0\1\0\1")));    /* forward */
  CHECK(is("malformed", MESSAGE(QUERY "\xc0")));                /* cut */
  CHECK(is("malformed", MESSAGE(QUERY "\x40xx\0\0\1\0\1")));    /* a reserved kind of label */
  CHECK(is("malformed", MESSAGE(QUERY "\1a\0\0\1\0\1\0")));     /* more behind */
  CHECK(is("malformed", MESSAGE(QUERY "\1a\0\0\1\0")));         /* cut */
  CHECK(chain_is_read(127));
  CHECK(!chain_is_read(128));
  CHECK(is("no-header", MESSAGE("\x12\x34\x01\x00\x00\x01")));
  CHECK(is("malformed", MESSAGE("\x12\x34\x01\x00\xff\xff\xff\xff\xff\xff\xff\xff")));
  CHECK(is("well-formed 4660 256 ?0161016200:1:1 ?016200:1:1",
           MESSAGE("\x12\x34\x01\x00\x00\x02\x00\x00\x00\x00\x00\x00\1a\1b\0\0\1\0\1\xc0\x0e\0\1\0\1")));
}

static void many_labels_end(void) {
  char bytes[12 + 300 + 4] = QUERY;
  for (size_t i = 0; i < 150; i++) memcpy(bytes + 12 + 2 * i, "\1a", 2);
  CHECK(is("malformed", bytes, sizeof(bytes)));
}

static void data_has_the_form_of_its_type(void) {
  CHECK(is("well-formed 4660 32768 / 00:1:1:0:01020304 / /", MESSAGE(ANSWER "\0\0\1\0\1\0\0\0\0\0\4\1\2\3\4")));
  CHECK(is("well-formed 4660 32768 / 00:1:1:0:bad / /", MESSAGE(ANSWER "\0\0\1\0\1\0\0\0\0\0\3\1\2\3")));
  CHECK(is("well-formed 4660 32768 / 016100:2:1:0:016100 / /", MESSAGE(ANSWER "\1a\0\0\2\0\1\0\0\0\0\0\2\xc0\x0c")));
  CHECK(is("well-formed 4660 32768 / 016100:15:1:0:0005016d016100 / /",
           MESSAGE(ANSWER "\1a\0\0\x0f\0\1\0\0\0\0\0\6\0\5\1m\xc0\x0c")));
  CHECK(is("well-formed 4660 32768 / 00:65280:1:0:ff / /", MESSAGE(ANSWER "\0\xff\0\0\1\0\0\0\0\0\1\xff")));
  CHECK(is("malformed", MESSAGE(ANSWER "\0\0\1\0\1\0\0\0\0\0\5\1\2\3\4")));
}

static void options_are_bounded(void) {
#define WITH_OPT "\x12\x34\x01\x00\x00\x00\x00\x00\x00\x00\x00\x01"
  struct gyre_dns_query query;
  size_t length;
  const char *bytes = WITH_OPT "\0\0\x29\x10\0\1\2\x80\0\0\x09\0\x0a\0\2ab\0\3\0\0" + 0;
  CHECK(gyre_dns_query_read(&query, (const uint8_t *)bytes, 12 + 11 + 10) == GYRE_DNS_MALFORMED);
  CHECK(is("malformed", MESSAGE(WITH_OPT "\0\0\x29\x10\0\0\0\0\0\0\5\0\x0a\0\2a")));
  CHECK(is("malformed", MESSAGE(WITH_OPT "\0\0\x29\x10\0\0\0\0\0\0\3\0\x0a\0")));
  CHECK(is("malformed", MESSAGE(WITH_OPT "\1a\0\0\x29\x10\0\0\0\0\0\0\0")));
  CHECK(is("malformed", MESSAGE(ANSWER "\0\0\x29\x10\0\0\0\0\0\0\0"))); /* in the wrong section */
  bytes = WITH_OPT "\0\0\x29\x10\0\1\2\x80\0\0\x0a\0\x0a\0\2ab\0\3\0\0";
  CHECK(gyre_dns_query_read(&query, (const uint8_t *)bytes, 12 + 11 + 10) == GYRE_DNS_WELL_FORMED);
  CHECK(query.edns.present && query.edns.udp_bytes == 4096 && query.edns.rcode == 1 && query.edns.version == 2);
  CHECK(query.edns.flags == GYRE_DNS_DO);
  CHECK(memcmp(gyre_dns_option(&query.edns, 10, &length), "ab", 2) == 0 && length == 2);
  CHECK(gyre_dns_option(&query.edns, 3, &length) != NULL && length == 0);
  CHECK(gyre_dns_option(&query.edns, 4, &length) == NULL);
}

/* A name compressed with its own beginning would be compared with bytes not written yet. */
static void a_name_is_not_compressed_with_itself(void) {
  CHECK(is("well-formed", MESSAGE(QUERY "\1a\1a\1a\1a\0\0\1\0\1")));
}

int main(void) {
  names_have_a_text();
  names_are_compared_without_case();
  pointers_lead_back();
  many_labels_end();
  data_has_the_form_of_its_type();
  options_are_bounded();
  a_name_is_not_compressed_with_itself();
  return check_summary();
}
