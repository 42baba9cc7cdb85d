/*
 * Request targets and authorities. See http1_target.h. Percent-encoding in a path is none of its
 * business, in a host it is.
 */
#include "http/http1_target.h"
#include "http/http1_fields.h"
#include "http/http1_scan.h"

/* IPv4address: four numbers up to 255 without leading zeros. */
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

/* IPv6address: eight groups, or up to seven and one "::"; an IPv4address at the end counts as
 * two. */
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

/* The end of the host that starts at p; p itself when there is none. */
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

bool gyre_http1_authority_parse(struct gyre_http1_authority *authority, const char *bytes, uint32_t offset,
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

void gyre_http1_authority_assign(struct gyre_http1_head *head, const struct gyre_http1_authority *authority) {
  head->authority = authority->whole;
  head->host = authority->host;
  head->port = authority->port;
}

/* The length of "http://" or "https://" at the start of text, letter case aside; else 0. */
static uint32_t scheme_length(const char *text, uint32_t length) {
  uint32_t n = 4;
  if (length < 7 || !SAME_WORD(text, 4, "http")) return 0;
  if ((text[4] | 0x20) == 's') n = 5;
  if (length < n + 3 || text[n] != ':' || text[n + 1] != '/' || text[n + 2] != '/') return 0;
  return n + 3;
}

static int parse_absolute(struct gyre_http1_head *head, const char *bytes, uint32_t scheme) {
  const uint32_t start = head->target.offset + scheme;
  const uint32_t end = head->has_query ? head->query.offset - 1 : head->target.offset + head->target.length;
  struct gyre_http1_authority authority;
  uint32_t slash = start;

  while (slash < end && bytes[slash] != '/') slash++;
  if (!gyre_http1_authority_parse(&authority, bytes, start, slash - start)) {
    return gyre_http1_refuse(head, 400, "a request target that names no host");
  }
  gyre_http1_authority_assign(head, &authority);
  head->target_form = GYRE_HTTP1_TARGET_ABSOLUTE;
  head->path.offset =
      slash < end ? slash : start - 1; /* "http://host" means "/": the second of the two slashes stands for it */
  head->path.length = slash < end ? end - slash : 1;
  return 0;
}

int gyre_http1_target_parse(struct gyre_http1_head *head, const char *bytes) {
  const char *const target = bytes + head->target.offset;
  struct gyre_http1_authority authority;
  uint32_t scheme;

  head->path = head->target;
  if (head->method_number == GYRE_HTTP1_METHOD_CONNECT) {
    if (!gyre_http1_authority_parse(&authority, bytes, head->target.offset, head->target.length) ||
        authority.port.length == 0) {
      return gyre_http1_refuse(head, 400, "a CONNECT whose target is not host:port");
    }
    gyre_http1_authority_assign(head, &authority);
    head->target_form = GYRE_HTTP1_TARGET_AUTHORITY;
    return 0;
  }
  if (*target == '/') {
    if (head->has_query) head->path.length = head->query.offset - 1 - head->path.offset;
    return 0;
  }
  scheme = scheme_length(target, head->target.length);
  if (scheme > 0) return parse_absolute(head, bytes, scheme);
  if (*target == '*' && head->target.length == 1) {
    if (head->method_number != GYRE_HTTP1_METHOD_OPTIONS) {
      return gyre_http1_refuse(head, 400, "the request target * with a method other than OPTIONS");
    }
    head->target_form = GYRE_HTTP1_TARGET_ASTERISK;
    return 0;
  }
  return gyre_http1_refuse(head, 400, "a request target that is neither a path nor an http URI");
}
