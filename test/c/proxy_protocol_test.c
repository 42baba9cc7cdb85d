/*
 * The PROXY protocol's header in C alone: each case whole, and each beginning of it, in memory of
 * exactly its size, so that the sanitizers find a byte too many.
 */
#include "check.h"
#include "net/proxy_protocol.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define ANY (GYRE_PROXY_V1 | GYRE_PROXY_V2)
#define SIGNATURE "\r\n\r\n\0\r\nQUIT\n"

static int parse(const void *bytes, size_t length, unsigned versions, struct gyre_proxy_source *source) {
  uint8_t *copy = malloc(length ? length : 1);
  memcpy(copy, bytes, length);
  int result = gyre_proxy_parse(copy, length, versions, source);
  free(copy);
  return result;
}

static void accepts(const char *bytes, size_t length, unsigned versions, const char *address) {
  struct gyre_proxy_source source;
  char text[INET6_ADDRSTRLEN] = "";
  for (size_t i = 0; i < length; i++) CHECK(parse(bytes, i, versions, &source) == 0);
  CHECK(parse(bytes, length, versions, &source) == (int)length);
  if (source.family) inet_ntop(source.family, source.address, text, sizeof(text));
  CHECK(strcmp(text, address) == 0);
  char more[512];
  memcpy(more, bytes, length);
  memcpy(more + length, "GET /", 5);
  CHECK(parse(more, length + 5, versions, &source) == (int)length);
}

/* At some byte; nothing before it is taken for a whole header. */
static void refuses(const char *bytes, size_t length, unsigned versions) {
  struct gyre_proxy_source source;
  int result = 0;
  for (size_t i = 0; i <= length && result == 0; i++) result = parse(bytes, i, versions, &source);
  CHECK(result == GYRE_PROXY_WRONG);
}

#define ACCEPTS(text, versions, address) accepts(text, sizeof(text) - 1, versions, address)
#define REFUSES(text, versions) refuses(text, sizeof(text) - 1, versions)

static void test_lines(void) {
  ACCEPTS("PROXY TCP4 192.0.2.1 198.51.100.2 56324 443\r\n", ANY, "192.0.2.1");
  ACCEPTS("PROXY TCP4 255.255.255.255 255.255.255.255 65535 65535\r\n", GYRE_PROXY_V1, "255.255.255.255");
  ACCEPTS("PROXY TCP6 2001:db8::1 ::1 0 1\r\n", ANY, "2001:db8::1");
  ACCEPTS("PROXY UNKNOWN\r\n", ANY, "");
  ACCEPTS("PROXY UNKNOWN ffff:f...f:ffff whatever\r\n", ANY, "");
  REFUSES("GET / HTTP/1.1\r\n", ANY);
  REFUSES("PROXY TCP4 192.0.2.1 198.51.100.2 56324 443\n", ANY);
  REFUSES("PROXY TCP4 192.0.2.1  198.51.100.2 56324 443\r\n", ANY);
  REFUSES("PROXY TCP4 192.0.2.1 198.51.100.2 56324 443 \r\n", ANY);
  REFUSES("PROXY TCP4 192.0.2.1 198.51.100.2 56324\r\n", ANY);
  REFUSES("PROXY TCP4 192.0.2.1 198.51.100.2 65536 443\r\n", ANY);
  REFUSES("PROXY TCP4 192.0.2.1 198.51.100.2 01 443\r\n", ANY);
  REFUSES("PROXY TCP4 192.0.2.1 198.51.100.2 -1 443\r\n", ANY);
  REFUSES("PROXY TCP4 192.0.2.256 198.51.100.2 1 443\r\n", ANY);
  REFUSES("PROXY TCP4 2001:db8::1 198.51.100.2 1 443\r\n", ANY);
  REFUSES("PROXY TCP6 192.0.2.1 198.51.100.2 1 443\r\n", ANY);
  REFUSES("PROXY TCP4 192.0.2.1\0 198.51.100.2 1 443\r\n", ANY);
  REFUSES("PROXY UDP4 192.0.2.1 198.51.100.2 1 443\r\n", ANY);
  REFUSES("PROXY UNKNOWNX\r\n", ANY);
  REFUSES("PROXY \r\n", ANY);
  REFUSES("proxy TCP4 192.0.2.1 198.51.100.2 1 443\r\n", ANY);
  REFUSES("PROXY TCP4 192.0.2.1 198.51.100.2 1 443\r\n", GYRE_PROXY_V2);
}

/* CVE-2026-47736 */
static void test_a_line_without_an_end_is_refused_at_its_longest(void) {
  char line[200] = "PROXY UNKNOWN ";
  struct gyre_proxy_source source;
  memset(line + 14, 'a', sizeof(line) - 14);
  CHECK(parse(line, GYRE_PROXY_V1_BYTES - 1, ANY, &source) == 0);
  CHECK(parse(line, GYRE_PROXY_V1_BYTES, ANY, &source) == GYRE_PROXY_WRONG);
  memcpy(line + GYRE_PROXY_V1_BYTES - 2, "\r\n", 2);
  CHECK(parse(line, GYRE_PROXY_V1_BYTES, ANY, &source) == GYRE_PROXY_V1_BYTES);
  memcpy(line + GYRE_PROXY_V1_BYTES - 2, "aa\r\n", 4);
  CHECK(parse(line, sizeof(line), ANY, &source) == GYRE_PROXY_WRONG);
}

static void test_binary_headers(void) {
  ACCEPTS(SIGNATURE "\x21\x11\0\x0c\xc0\0\2\1\xc6\x33\x64\2\x12\x34\x01\xbb", ANY, "192.0.2.1");
  ACCEPTS(SIGNATURE "\x21\x11\0\x0f\xc0\0\2\1\xc6\x33\x64\2\x12\x34\x01\xbb\x04\0\0", GYRE_PROXY_V2, "192.0.2.1");
  ACCEPTS(SIGNATURE "\x21\x21\0\x24\x20\1\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1\0\1\0\2", ANY,
          "2001:db8::1");
  ACCEPTS(SIGNATURE "\x20\0\0\0", ANY, "");
  ACCEPTS(SIGNATURE "\x20\x11\0\3abc", ANY, "");
  ACCEPTS(SIGNATURE "\x21\0\0\2ab", ANY, "");
  char local[16 + 216] = SIGNATURE "\x21\x31\0\xd8/path";
  accepts(local, sizeof(local), ANY, "");
  REFUSES(SIGNATURE "\x11\x11\0\x0c\xc0\0\2\1\xc6\x33\x64\2\x12\x34\x01\xbb", ANY);
  REFUSES(SIGNATURE "\x22\x11\0\x0c\xc0\0\2\1\xc6\x33\x64\2\x12\x34\x01\xbb", ANY);
  REFUSES(SIGNATURE "\x21\x12\0\x0c\xc0\0\2\1\xc6\x33\x64\2\x12\x34\x01\xbb", ANY);
  REFUSES(SIGNATURE "\x21\x11\0\x0b\xc0\0\2\1\xc6\x33\x64\2\x12\x34\x01", ANY);
  REFUSES(SIGNATURE "\x21\x21\0\x0c\xc0\0\2\1\xc6\x33\x64\2\x12\x34\x01\xbb", ANY);
  REFUSES(SIGNATURE "\x20\0\xff\xff", ANY);
  REFUSES(SIGNATURE "\x20\0\0\0", GYRE_PROXY_V1);
  REFUSES("\r\n\r\n\0\r\nQUIX\n\x20\0\0\0", ANY);
}

static bool in(const char *range, int family, uint8_t bits, const char *text) {
  struct gyre_proxy_range made = {.family = (uint8_t)family, .bits = bits};
  uint8_t address[16] = {0};
  int other = strchr(text, ':') ? AF_INET6 : AF_INET;
  inet_pton(family, range, made.address);
  inet_pton(other, text, address);
  return gyre_proxy_in_range(&made, (uint8_t)other, address);
}

static void test_ranges(void) {
  CHECK(in("10.0.0.0", AF_INET, 8, "10.255.0.1"));
  CHECK(!in("10.0.0.0", AF_INET, 8, "11.0.0.1"));
  CHECK(in("172.16.0.0", AF_INET, 12, "172.31.255.255"));
  CHECK(!in("172.16.0.0", AF_INET, 12, "172.32.0.0"));
  CHECK(in("0.0.0.0", AF_INET, 0, "8.8.8.8"));
  CHECK(!in("0.0.0.0", AF_INET, 0, "::1"));
  CHECK(in("::1", AF_INET6, 128, "::1"));
  CHECK(!in("::1", AF_INET6, 128, "::2"));
}

int main(void) {
  test_lines();
  test_a_line_without_an_end_is_refused_at_its_longest();
  test_binary_headers();
  test_ranges();
  return check_summary();
}
