/* Fields for libnghttp2 (lines.h). */
#include "http/h2/lines.h"
#include "http/scan.h"

bool gyre_http2_is_of_connection(const char *name, size_t length) {
  switch (length) {
  case 2: return SAME_WORD(name, length, "te");
  case 7: return SAME_WORD(name, length, "upgrade");
  case 10: return SAME_WORD(name, length, "connection") || SAME_WORD(name, length, "keep-alive");
  case 16: return SAME_WORD(name, length, "proxy-connection");
  case 17: return SAME_WORD(name, length, "transfer-encoding");
  default: return false;
  }
}

void gyre_http2_lines_init(struct gyre_http2_lines *lines) {
  lines->fields = lines->on_stack;
  lines->count = 0;
  lines->capacity = GYRE_HTTP2_LINES_ON_STACK;
}

bool gyre_http2_lines_push(struct gyre_http2_lines *lines, const char *name, size_t length, const char *value,
                           size_t value_length) {
  if (lines->count == lines->capacity) {
    size_t capacity = lines->capacity * 2;
    nghttp2_nv *larger = malloc(capacity * sizeof(*larger));
    if (!larger) return false;
    memcpy(larger, lines->fields, lines->count * sizeof(*larger));
    if (lines->fields != lines->on_stack) free(lines->fields);
    lines->fields = larger;
    lines->capacity = capacity;
  }
  lines->fields[lines->count++] = (nghttp2_nv){(uint8_t *)name, (uint8_t *)value, length, value_length, 0};
  return true;
}

int gyre_http2_lines_read(struct gyre_http2_lines *lines, int status, const char *text, size_t length) {
  const char *end = text + length;
  gyre_http2_lines_init(lines);
  if (status) {
    lines->status[0] = (char)('0' + status / 100 % 10);
    lines->status[1] = (char)('0' + status / 10 % 10);
    lines->status[2] = (char)('0' + status % 10);
    gyre_http2_lines_push(lines, ":status", 7, lines->status, 3);
  }
  while (text < end) {
    const char *line_end = memchr(text, '\r', (size_t)(end - text));
    const char *colon = line_end ? memchr(text, ':', (size_t)(line_end - text)) : NULL;
    if (!colon) return -EINVAL;
    const char *value = colon + 1, *value_end = line_end;
    while (value < value_end && is_blank(*value)) value++;
    while (value_end > value && is_blank(value_end[-1])) value_end--;
    if (!gyre_http2_is_of_connection(text, (size_t)(colon - text)) &&
        !gyre_http2_lines_push(lines, text, (size_t)(colon - text), value, (size_t)(value_end - value)))
      return -ENOMEM;
    text = line_end + 2;
  }
  return 0;
}

void gyre_http2_lines_free(struct gyre_http2_lines *lines) {
  if (lines->fields != lines->on_stack) free(lines->fields);
}
