/* Reads field lines strictly (RFC 9112, section 5): name ":" OWS value OWS CRLF. See h1/fields.h.
 *
 *   FIELD ─► NAME ─► VALUE_START ─► VALUE ─► VALUE_LF ─► FIELD …
 *     └─ CR ─► END_LF ─► done
 *
 * Looks at each byte once. At the input's end, saves the phase, the position and the incomplete
 * field. */
#include "http/h1/fields.h"
#include "http/scan.h"

int gyre_http1_refuse(struct gyre_http_head *head, uint16_t status, const char *reason) {
  head->phase = PHASE_REFUSED;
  head->status = status;
  head->reason = reason;
  return -1;
}

/* Returns the number of a name that the parsers interpret, or GYRE_HTTP_FIELD_OTHER. */
static uint16_t known_name(const char *name, size_t length) {
  switch (length) {
  case 4: return SAME_WORD(name, length, "host") ? GYRE_HTTP_FIELD_HOST : GYRE_HTTP_FIELD_OTHER;
  case 6: return SAME_WORD(name, length, "expect") ? GYRE_HTTP_FIELD_EXPECT : GYRE_HTTP_FIELD_OTHER;
  case 7: return SAME_WORD(name, length, "upgrade") ? GYRE_HTTP_FIELD_UPGRADE : GYRE_HTTP_FIELD_OTHER;
  case 10: return SAME_WORD(name, length, "connection") ? GYRE_HTTP_FIELD_CONNECTION : GYRE_HTTP_FIELD_OTHER;
  case 14: return SAME_WORD(name, length, "content-length") ? GYRE_HTTP_FIELD_CONTENT_LENGTH : GYRE_HTTP_FIELD_OTHER;
  case 17:
    return SAME_WORD(name, length, "transfer-encoding") ? GYRE_HTTP_FIELD_TRANSFER_ENCODING : GYRE_HTTP_FIELD_OTHER;
  default: return GYRE_HTTP_FIELD_OTHER;
  }
}

/* Refuses an invalid byte in or after a name. */
static int refuse_name(struct gyre_http_head *head, char byte) {
  if (is_blank(byte)) return gyre_http1_refuse(head, 400, "white space between a header's name and its colon");
  if (byte == '\r' || byte == '\n') return gyre_http1_refuse(head, 400, "a header line without a colon");
  if (byte == ':') return gyre_http1_refuse(head, 400, "a header line without a name");
  return gyre_http1_refuse(head, 400, "a byte in a header's name that is not allowed there");
}

static int refuse_value(struct gyre_http_head *head, char byte) {
  if (byte == '\n') return gyre_http1_refuse(head, 400, "a line feed without a carriage return before it");
  return gyre_http1_refuse(head, 400, "a control byte in a header's value");
}

/* Lets the last field go on in a folded line at `p`: blanks replace the line's end in the input
 * (RFC 9112, section 5.2). Returns false if the field has been interpreted. */
static bool unfold(struct gyre_http_head *head, const char *bytes, const char *p) {
  struct gyre_http_field *field = head->fields + head->field_count - 1;
  char *end = (char *)bytes + field->value + field->value_length;
  switch (field->flags & GYRE_HTTP_FIELD_NAME_MASK) {
  case GYRE_HTTP_FIELD_CONTENT_LENGTH:
  case GYRE_HTTP_FIELD_TRANSFER_ENCODING:
  case GYRE_HTTP_FIELD_CONNECTION: return false;
  default: break;
  }
  memset(end, ' ', (size_t)(p - end));
  head->field_count--;
  return true;
}

int gyre_http1_stop_at(struct gyre_http_head *head, const char *bytes, const char *p, bool limited,
                       enum gyre_http1_phase phase) {
  if (limited && phase < PHASE_FIELD) return gyre_http1_refuse(head, 414, "a request line that is too long");
  if (limited) return gyre_http1_refuse(head, 431, "header lines that are too long in all");
  head->position = (uint32_t)(p - bytes);
  head->phase = (uint8_t)phase;
  return 0;
}

int gyre_http1_fields_parse(struct gyre_http_head *head, const char *bytes, size_t length,
                            const struct gyre_http_head_limits *limits, gyre_http1_field_meaning *meaning,
                            enum gyre_http1_section section) {
  if (head->phase == PHASE_REFUSED) return -1;
  if (head->phase == PHASE_DONE) return 1;
  if (length < head->position) return 0;
  const uint32_t bytes_max =
      limits->header_bytes < GYRE_HTTP1_SECTION_BYTES_MAX ? limits->header_bytes : GYRE_HTTP1_SECTION_BYTES_MAX;
  const uint16_t count_max = limits->header_count < head->field_capacity ? limits->header_count : head->field_capacity;
  const bool limited = length - head->section >= bytes_max;
  const char *const stop = limited ? bytes + head->section + bytes_max : bytes + length;
  const char *p = bytes + head->position;
  const char *name;
  struct gyre_http_field *field = head->fields + head->field_count;
  uint16_t known;
  bool underscore;

#define NEED(phase)                                                                                                    \
  if (p == stop) return gyre_http1_stop_at(head, bytes, p, limited, phase)

  if (p > stop) return gyre_http1_stop_at(head, bytes, p, limited, PHASE_FIELD); /* limits have shrunk meanwhile */
  switch ((enum gyre_http1_phase)head->phase) {
  case PHASE_NAME: goto name;
  case PHASE_VALUE_START: goto value_start;
  case PHASE_VALUE: goto value;
  case PHASE_VALUE_LF: goto value_lf;
  case PHASE_END_LF: goto end_lf;
  default: break;
  }

  for (;;) {
    NEED(PHASE_FIELD);
    if (*p == '\r') break;
    if (is_blank(*p) && head->field_count > 0 && section == GYRE_HTTP1_RESPONSE && unfold(head, bytes, p)) {
      field = head->fields + head->field_count;
      if (field->value_length == 0) goto value_start;
      goto value;
    }
    if (is_blank(*p)) {
      return gyre_http1_refuse(
          head, 400, head->field_count == 0 ? "white space before the first header line" : "a folded header line");
    }
    if (head->field_count >= count_max) return gyre_http1_refuse(head, 431, "too many header lines");
    field = head->fields + head->field_count;
    field->name = (uint32_t)(p - bytes);
    field->flags = 0;
  name:
    name = bytes + field->name;
    underscore = false;
    p = skip_name(p, stop - name > GYRE_HTTP_NAME_BYTES_LIMIT ? name + GYRE_HTTP_NAME_BYTES_LIMIT + 1 : stop,
                  &underscore);
    if (underscore) field->flags = GYRE_HTTP_FIELD_UNDERSCORE;
    if (p - name > GYRE_HTTP_NAME_BYTES_LIMIT) return gyre_http1_refuse(head, 431, "a header's name that is too long");
    NEED(PHASE_NAME);
    if (*p != ':' || p == name) return refuse_name(head, *p);
    field->name_length = (uint16_t)(p - name);
    p++;
  value_start:
    while (p < stop && is_blank(*p)) p++;
    NEED(PHASE_VALUE_START);
    field->value = (uint32_t)(p - bytes);
  value:
    p = skip_value(p, stop);
    NEED(PHASE_VALUE);
    if (*p != '\r') return refuse_value(head, *p);
    field->value_length = (uint32_t)(p - bytes) - field->value;
    p++;
  value_lf:
    NEED(PHASE_VALUE_LF);
    if (*p != '\n') return gyre_http1_refuse(head, 400, "a carriage return without a line feed after it");
    p++;
    while (field->value_length > 0 && is_blank(bytes[field->value + field->value_length - 1])) field->value_length--;
    known = known_name(bytes + field->name, field->name_length);
    field->flags |= known;
    int meant = known != GYRE_HTTP_FIELD_OTHER || section == GYRE_HTTP1_TRAILERS ? meaning(head, bytes, field) : 0;
    if (meant < 0) return -1;
    if (meant == 0) head->field_count++;
  }
  p++;
end_lf:
  NEED(PHASE_END_LF);
  if (*p != '\n') return gyre_http1_refuse(head, 400, "a carriage return without a line feed after it");
  p++;
#undef NEED
  head->position = (uint32_t)(p - bytes);
  head->phase = PHASE_DONE;
  return 1;
}
