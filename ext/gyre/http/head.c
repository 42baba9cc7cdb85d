/* Parses parts of a request's head for both versions (head.h). */
#include "http/head.h"
#include "http/scan.h"

const char *const gyre_http_method_names[GYRE_HTTP_METHODS] = {
    [GYRE_HTTP_METHOD_GET] = "GET",         [GYRE_HTTP_METHOD_HEAD] = "HEAD",
    [GYRE_HTTP_METHOD_POST] = "POST",       [GYRE_HTTP_METHOD_PUT] = "PUT",
    [GYRE_HTTP_METHOD_DELETE] = "DELETE",   [GYRE_HTTP_METHOD_CONNECT] = "CONNECT",
    [GYRE_HTTP_METHOD_OPTIONS] = "OPTIONS", [GYRE_HTTP_METHOD_TRACE] = "TRACE",
    [GYRE_HTTP_METHOD_PATCH] = "PATCH"};

/* Methods are case-sensitive (RFC 9110, section 9.1). */
uint8_t gyre_http_method_number(const char *text, size_t length) {
  for (uint8_t number = GYRE_HTTP_METHOD_GET; number < GYRE_HTTP_METHODS; number++) {
    const char *name = gyre_http_method_names[number];
    if (strlen(name) == length && memcmp(text, name, length) == 0) return number;
  }
  return GYRE_HTTP_METHOD_OTHER;
}

bool gyre_http_next_element(const char **p, const char *end, const char **element, size_t *length) {
  const char *start = *p, *stop;
  while (start < end && (*start == ',' || is_blank(*start))) start++;
  if (start >= end) return false;
  for (stop = start; stop < end && *stop != ','; stop++) continue;
  *p = stop;
  while (stop > start && is_blank(stop[-1])) stop--;
  *element = start;
  *length = (size_t)(stop - start);
  return true;
}

int64_t gyre_http_number(const char *text, size_t length) {
  int64_t number = 0;
  for (size_t i = 0; i < length; i++) {
    if (!is(text[i], CLASS_DIGIT) || number > (INT64_MAX - 9) / 10) return -1;
    number = number * 10 + (text[i] - '0');
  }
  return length ? number : -1;
}

bool gyre_http_is_name(const char *name, size_t length) {
  if (length == 0) return false;
  for (size_t i = 0; i < length; i++) {
    if (!is(name[i], CLASS_TOKEN)) return false;
  }
  return true;
}

bool gyre_http_is_value(const char *value, size_t length) {
  for (size_t i = 0; i < length; i++) {
    if (value[i] == '\r' || value[i] == '\n' || value[i] == '\0') return false;
  }
  return true;
}

bool gyre_http_same_name(const char *name, size_t length, const char *lower, size_t lower_length) {
  if (length != lower_length) return false;
  for (size_t i = 0; i < length; i++) {
    char c = name[i];
    if (c >= 'A' && c <= 'Z') c = (char)(c + 32);
    if (c != lower[i]) return false;
  }
  return true;
}

/* Fields for framing, routing, authentication or conditions (RFC 9110, section 6.5.1). */
bool gyre_http_is_no_trailer(const char *name, size_t length) {
  static const char names[] =
      "te host range cookie expect pragma trailer upgrade if-match if-range connection keep-alive set-cookie "
      "content-type max-forwards authorization cache-control content-range if-none-match content-length "
      "http2-settings content-encoding proxy-connection if-modified-since transfer-encoding if-unmodified-since "
      "proxy-authorization ";
  for (const char *at = names, *end; (end = strchr(at, ' ')); at = end + 1) {
    if (same_word(name, length, at, (size_t)(end - at))) return true;
  }
  return false;
}

/* IPv4address: four numbers up to 255, no leading zeros. */
static bool is_ipv4(const char *p, const char *end) {
  for (int part = 0; part < 4; part++) {
    unsigned number = 0;
    const char *start;
    if (part > 0 && (p == end || *p++ != '.')) return false;
    for (start = p; p < end && p - start < 3 && is(*p, CLASS_DIGIT); p++) number = number * 10 + (unsigned)(*p - '0');
    if (p == start || number > 255 || (*start == '0' && p - start > 1)) return false;
  }
  return p == end;
}

/* IPv6address: eight groups, or fewer with one "::"; a final IPv4address counts as two. */
static bool is_ipv6(const char *p, const char *end) {
  unsigned groups = 0;
  bool shortened = false;

  if (end - p >= 2 && p[0] == ':' && p[1] == ':') {
    shortened = true;
    p += 2;
  }
  while (p < end) {
    const char *const start = p;
    p = skip_class(p, end, CLASS_HEX);
    if (p < end && *p == '.') {
      if (!is_ipv4(start, end)) return false;
      groups += 2;
      break;
    }
    if (p == start || p - start > 4) return false;
    groups++;
    if (p == end) break;
    if (*p++ != ':' || p == end) return false;
    if (*p == ':') {
      if (shortened) return false;
      shortened = true;
      p++;
    }
  }
  return shortened ? groups <= 7 : groups == 8;
}

/* Returns the host's end, or p if the host is missing. */
static const char *skip_host(const char *p, const char *end) {
  const char *const start = p;
  if (p < end && *p == '[') {
    while (p < end && *p != ']') p++;
    return p < end && is_ipv6(start + 1, p) ? p + 1 : start;
  }
  for (;;) {
    p = skip_class(p, end, CLASS_HOST);
    if (end - p < 3 || *p != '%' || !is(p[1], CLASS_HEX) || !is(p[2], CLASS_HEX)) return p;
    p += 3;
  }
}

bool gyre_http_authority_parse(struct gyre_http_authority *authority, const char *bytes, uint32_t offset,
                               uint32_t length) {
  const char *const start = bytes + offset, *const end = start + length;
  const char *p = skip_host(start, end), *digits;
  unsigned number = 0;

  if (p == start) return false;
  authority->whole.offset = authority->host.offset = offset;
  authority->whole.length = length;
  authority->host.length = (uint32_t)(p - start);
  authority->port.offset = authority->port.length = 0;
  if (p == end) return true;
  if (*p++ != ':') return false;
  for (digits = p; p < end && p - digits < 5 && is(*p, CLASS_DIGIT); p++) number = number * 10 + (unsigned)(*p - '0');
  authority->port.offset = (uint32_t)(digits - bytes);
  authority->port.length = (uint32_t)(p - digits);
  return p == end && number <= 65535;
}

void gyre_http_authority_assign(struct gyre_http_head *head, const struct gyre_http_authority *authority) {
  head->authority = authority->whole;
  head->host = authority->host;
  head->port = authority->port;
}
