/* Parses request targets (RFC 9112, section 3.2) for h1/parser.c. Keeps percent-encoding. */
#include "http/h1/fields.h"
#include "http/scan.h"

/* Returns the length of a leading "http://" or "https://" in any case, or 0. */
static uint32_t scheme_length(const char *text, uint32_t length) {
  uint32_t n = 4;
  if (length < 7 || !SAME_WORD(text, 4, "http")) return 0;
  if ((text[4] | 0x20) == 's') n = 5;
  if (length < n + 3 || text[n] != ':' || text[n + 1] != '/' || text[n + 2] != '/') return 0;
  return n + 3;
}

static int parse_absolute(struct gyre_http_head *head, const char *bytes, uint32_t scheme) {
  const uint32_t start = head->target.offset + scheme;
  const uint32_t end = head->has_query ? head->query.offset - 1 : head->target.offset + head->target.length;
  struct gyre_http_authority authority;
  uint32_t slash = start;

  while (slash < end && bytes[slash] != '/') slash++;
  if (!gyre_http_authority_parse(&authority, bytes, start, slash - start)) {
    return gyre_http1_refuse(head, 400, "a request target that names no host");
  }
  gyre_http_authority_assign(head, &authority);
  head->target_form = GYRE_HTTP_TARGET_ABSOLUTE;
  head->path.offset = slash < end ? slash : start - 1; /* "http://host": points at a slash of "//" */
  head->path.length = slash < end ? end - slash : 1;
  return 0;
}

int gyre_http1_target_parse(struct gyre_http_head *head, const char *bytes) {
  const char *const target = bytes + head->target.offset;
  struct gyre_http_authority authority;
  uint32_t scheme;

  head->path = head->target;
  if (head->method_number == GYRE_HTTP_METHOD_CONNECT) {
    if (!gyre_http_authority_parse(&authority, bytes, head->target.offset, head->target.length) ||
        authority.port.length == 0) {
      return gyre_http1_refuse(head, 400, "a CONNECT whose target is not host:port");
    }
    gyre_http_authority_assign(head, &authority);
    head->target_form = GYRE_HTTP_TARGET_AUTHORITY;
    return 0;
  }
  if (*target == '/') {
    if (head->has_query) head->path.length = head->query.offset - 1 - head->path.offset;
    return 0;
  }
  scheme = scheme_length(target, head->target.length);
  if (scheme > 0) return parse_absolute(head, bytes, scheme);
  if (*target == '*' && head->target.length == 1) {
    if (head->method_number != GYRE_HTTP_METHOD_OPTIONS) {
      return gyre_http1_refuse(head, 400, "the request target * with a method other than OPTIONS");
    }
    head->target_form = GYRE_HTTP_TARGET_ASTERISK;
    return 0;
  }
  return gyre_http1_refuse(head, 400, "a request target that is neither a path nor an http URI");
}
