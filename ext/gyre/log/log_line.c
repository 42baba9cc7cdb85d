/* Formats lines (log_line.h). Checks eight bytes at once, because most need no escaping. */
#include "log/log_line.h"

#include <limits.h>
#include <stdio.h>

#define EACH(byte) (UINT64_C(0x0101010101010101) * (byte))
#define BELOW_SPACE(eight) (((eight)-EACH(0x20)) & ~(eight)&EACH(0x80))
#define ZERO(eight) (((eight)-EACH(1)) & ~(eight)&EACH(0x80))
#define EQUAL(eight, byte) ZERO((eight) ^ EACH(byte))

enum escaping { OF_TEXT, OF_FIELD, OF_JSON };

/* Returns the length of a UTF-8 character (RFC 3629, section 4). If it is broken, returns the
 * negative length of its longest valid beginning (Unicode, section 3.9). */
static int utf8_character(const unsigned char *at, size_t length) {
  const unsigned char first = at[0];
  if (first < 0x80) return 1;
  if (first < 0xc2 || first > 0xf4) return -1;
  const int more = first < 0xe0 ? 1 : first < 0xf0 ? 2 : 3;
  unsigned char least = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
  unsigned char most = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
  for (int i = 1; i <= more; i++) {
    if ((size_t)i >= length || at[i] < least || at[i] > most) return -i;
    least = 0x80;
    most = 0xbf;
  }
  return more + 1;
}

/* True for characters that affect a terminal: C1, line and paragraph separators, changes of
 * direction (UAX 9). `length`: the character's bytes. */
static inline int is_harmful(const unsigned char *at, int length) {
  if (length == 2) return (at[0] == 0xc2 && at[1] < 0xa0) || (at[0] == 0xd8 && at[1] == 0x9c);
  if (length != 3 || at[0] != 0xe2) return 0;
  if (at[1] == 0x80) return at[2] == 0x8e || at[2] == 0x8f || (at[2] >= 0xa8 && at[2] <= 0xae);
  return at[1] == 0x81 && at[2] >= 0xa6 && at[2] <= 0xa9;
}

/* True for a C1 control character of one byte, outside UTF-8. */
static inline int is_c1(unsigned char byte) { return byte >= 0x80 && byte < 0xa0; }

/* The first byte is above ASCII. Returns the character's length, or 0 if it must be escaped. */
static inline size_t clean_above_ascii(const char *bytes, size_t length, enum escaping escaping) {
  const unsigned char *const at = (const unsigned char *)bytes;
  const int character = utf8_character(at, length);
  if (character > 0) return is_harmful(at, character) ? 0 : (size_t)character;
  if (escaping == OF_JSON) return 0;
  for (int i = 0; i < -character; i++) {
    if (is_c1(at[i])) return 0;
  }
  return (size_t)-character;
}

static inline int escaped(unsigned char byte, enum escaping escaping) {
  if (escaping == OF_JSON) return byte < 0x20 || byte == '"' || byte == '\\';
  return (byte < 0x20 && byte != '\t') || byte == 0x7f || byte == '\\' || (escaping == OF_FIELD && byte == '|');
}

/* If true, none of the eight bytes needs escaping; if false, some may. */
static inline int clean_word(const char *bytes, enum escaping escaping) {
  uint64_t eight;
  memcpy(&eight, bytes, 8);
  uint64_t found = BELOW_SPACE(eight) | EQUAL(eight, '\\') | (eight & EACH(0x80));
  found |= EQUAL(eight, escaping == OF_JSON ? '"' : 0x7f);
  if (escaping == OF_FIELD) found |= EQUAL(eight, '|');
  return found == 0;
}

/* Returns the number of leading bytes that need no escaping. */
static inline size_t clean(const char *bytes, size_t length, enum escaping escaping) {
  size_t at = 0;
  while (at < length) {
    while (length - at >= 8 && clean_word(bytes + at, escaping)) at += 8;
    for (const size_t end = length - at > 8 ? at + 8 : length; at < end;) {
      if ((unsigned char)bytes[at] < 0x80) {
        if (escaped((unsigned char)bytes[at], escaping)) return at;
        at++;
      } else {
        const size_t plain = clean_above_ascii(bytes + at, length - at, escaping);
        if (plain == 0) return at;
        at += plain;
      }
    }
  }
  return length;
}

static const char digits[] = "0123456789abcdef";

/* Writes the byte's escape sequence, of up to six bytes. Returns its length. */
static size_t escape(char *to, unsigned char byte, enum escaping escaping) {
  static const char letters[] = "nr\\\"tbf", named[] = "\n\r\\\"\t\b\f", named_in_text[] = "\n\r\\";
  const char *const names = escaping == OF_JSON ? named : named_in_text;
  const char *const at = byte == 0 ? NULL : strchr(names, byte);
  to[0] = '\\';
  if (at) {
    to[1] = letters[at - names];
    return 2;
  }
  const size_t start = escaping == OF_JSON ? 4 : 2;
  memcpy(to + 1, escaping == OF_JSON ? "u00" : "x", start - 1);
  to[start] = digits[byte >> 4];
  to[start + 1] = digits[byte & 15];
  return start + 2;
}

/* Escapes a character above ASCII as its code point, and broken UTF-8 as U+FFFD in JSON or byte by
 * byte in text. Writes up to twelve bytes. Returns the number of bytes taken from `from`. */
static size_t escape_above_ascii(struct gyre_log_buffer *buffer, const unsigned char *from, size_t length,
                                 enum escaping escaping) {
  const int character = utf8_character(from, length);
  if (character > 0) {
    const unsigned code = character == 2 ? (from[0] & 31u) << 6 | (from[1] & 63u)
                                         : (from[0] & 15u) << 12 | (from[1] & 63u) << 6 | (from[2] & 63u);
    const char text[6] = {
        '\\', 'u', digits[code >> 12 & 15], digits[code >> 8 & 15], digits[code >> 4 & 15], digits[code & 15]};
    gyre_log_buffer_put(buffer, text, sizeof(text));
    return (size_t)character;
  }
  if (escaping == OF_JSON) gyre_log_buffer_put(buffer, "\xef\xbf\xbd", 3);
  for (int i = 0; escaping != OF_JSON && i < -character; i++) {
    if (is_c1(from[i]))
      buffer->length += escape(buffer->bytes + buffer->length, from[i], escaping);
    else
      gyre_log_buffer_put(buffer, (const char *)from + i, 1);
  }
  return (size_t)-character;
}

static int append_escaped(struct gyre_log_buffer *buffer, struct gyre_log_text text, enum escaping escaping) {
  size_t at = 0;
  for (;;) {
    const size_t plain = clean(text.bytes + at, text.length - at, escaping);
    if (gyre_log_buffer_reserve(buffer, plain + 12) < 0) return -ENOMEM;
    gyre_log_buffer_put(buffer, text.bytes + at, plain);
    at += plain;
    if (at == text.length) return 0;
    const unsigned char byte = (unsigned char)text.bytes[at];
    if (byte >= 0x80) {
      at += escape_above_ascii(buffer, (const unsigned char *)text.bytes + at, text.length - at, escaping);
    } else {
      buffer->length += escape(buffer->bytes + buffer->length, byte, escaping);
      at++;
    }
  }
}

/* Appends a bulk string of Redis. */
static int append_bulk(struct gyre_log_buffer *buffer, struct gyre_log_text text) {
  char length[24];
  const int count = snprintf(length, sizeof(length), "$%zu\r\n", text.length);
  if (gyre_log_buffer_reserve(buffer, (size_t)count + text.length + 2) < 0) return -ENOMEM;
  gyre_log_buffer_put(buffer, length, (size_t)count);
  gyre_log_buffer_put(buffer, text.bytes, text.length);
  gyre_log_buffer_put(buffer, "\r\n", 2);
  return 0;
}

static int append_value(struct gyre_log_buffer *buffer, enum gyre_log_format format, struct gyre_log_text text) {
  if (format == GYRE_LOG_REDIS) return append_bulk(buffer, text);
  return append_escaped(buffer, text, format == GYRE_LOG_JSON ? OF_JSON : OF_FIELD);
}

int gyre_log_line_middle(struct gyre_log_buffer *buffer, enum gyre_log_format format, struct gyre_log_text service,
                         struct gyre_log_text severity) {
  static const char *const names[][GYRE_LOG_FORMATS] = {{"|", "\",\"service\":\"", "$7\r\nservice\r\n"},
                                                        {"|", "\",\"severity\":\"", "$8\r\nseverity\r\n"},
                                                        {"|", "\",\"message\":\"", "$7\r\nmessage\r\n"}};
  if (gyre_log_buffer_append_text(buffer, names[0][format]) < 0 || append_value(buffer, format, service) < 0 ||
      gyre_log_buffer_append_text(buffer, names[1][format]) < 0 || append_value(buffer, format, severity) < 0)
    return -ENOMEM;
  return gyre_log_buffer_append_text(buffer, names[2][format]);
}

int gyre_log_line_command(struct gyre_log_buffer *buffer, struct gyre_log_text key) {
  if (gyre_log_buffer_append_text(buffer, "*11\r\n$4\r\nXADD\r\n") < 0 || append_bulk(buffer, key) < 0) return -ENOMEM;
  return gyre_log_buffer_append_text(buffer, "$1\r\n*\r\n");
}

/* True for a number that JSON can have, as most process ids are. */
static bool is_number(struct gyre_log_text text) {
  for (size_t i = 0; i < text.length; i++) {
    if (text.bytes[i] < '0' || text.bytes[i] > '9') return false;
  }
  return text.length > 0 && text.length < 16 && (text.bytes[0] != '0' || text.length == 1);
}

/* Writes a field of the origin unless it is empty: in text as a prefix. */
static int append_field(struct gyre_log_buffer *buffer, unsigned form, const char *name, struct gyre_log_text value,
                        unsigned *fields) {
  char start[32];
  const enum gyre_log_format format = form == GYRE_LOG_STATED ? GYRE_LOG_TEXT : (enum gyre_log_format)form;
  const char *const quote = format == GYRE_LOG_JSON && !(strcmp(name, "pid") == 0 && is_number(value)) ? "\"" : "";
  const int length = format == GYRE_LOG_TEXT   ? snprintf(start, sizeof(start), "%s=", name)
                     : format == GYRE_LOG_JSON ? snprintf(start, sizeof(start), ",\"%s\":%s", name, quote)
                                               : snprintf(start, sizeof(start), "$%zu\r\n%s\r\n", strlen(name), name);
  if (value.length == 0) return 0;
  ++*fields;
  if (gyre_log_buffer_append(buffer, start, (size_t)length) < 0 || append_value(buffer, format, value) < 0)
    return -ENOMEM;
  return gyre_log_buffer_append_text(buffer, format == GYRE_LOG_TEXT ? " " : quote);
}

static void forget_forms(struct gyre_log_origin *origin) {
  for (unsigned form = 0; form < GYRE_LOG_FORMS; form++) origin->fields[form] = UINT_MAX;
}

int gyre_log_origin_text(struct gyre_log_origin *origin, unsigned form, struct gyre_log_origin_text *text) {
  const struct gyre_log_text none = {NULL, 0};
  struct gyre_log_buffer *const buffer = &origin->forms[form];
  if (origin->fields[form] == UINT_MAX) {
    const struct gyre_log_names stated = origin->stated;
    const bool own = form == GYRE_LOG_STATED || stated.host.length > 0;
    const struct gyre_log_text host = own ? stated.host : origin->peer.host,
                               pid = own || stated.pid.length > 0 ? stated.pid : origin->peer.pid;
    unsigned fields = 0;
    buffer->length = 0;
    if (append_field(buffer, form, "host", host, &fields) < 0 || append_field(buffer, form, "pid", pid, &fields) < 0 ||
        append_field(buffer, form, "facility",
                     form < GYRE_LOG_JSON || form == GYRE_LOG_STATED ? none : origin->facility, &fields) < 0)
      return -ENOMEM;
    origin->fields[form] = fields;
  }
  *text = (struct gyre_log_origin_text){gyre_log_text_of(buffer), origin->fields[form]};
  return 0;
}

int gyre_log_origin_set(struct gyre_log_origin *origin, struct gyre_log_text host, uint64_t pid) {
  char number[24] = "";
  if (pid > 0) snprintf(number, sizeof(number), "%llu", (unsigned long long)pid);
  if (gyre_log_buffer_append(&origin->names, host.bytes, host.length) < 0 ||
      gyre_log_buffer_append_text(&origin->names, number) < 0)
    return -ENOMEM;
  origin->peer.host = (struct gyre_log_text){origin->names.bytes, host.length};
  origin->peer.pid = (struct gyre_log_text){origin->names.bytes + host.length, strlen(number)};
  forget_forms(origin);
  return 0;
}

void gyre_log_origin_state(struct gyre_log_origin *origin, struct gyre_log_names names, struct gyre_log_text facility) {
  origin->stated = names;
  origin->facility = facility;
  forget_forms(origin);
}

void gyre_log_origin_free(struct gyre_log_origin *origin) {
  for (unsigned form = 0; form < GYRE_LOG_FORMS; form++) gyre_log_buffer_free(&origin->forms[form]);
  gyre_log_buffer_free(&origin->names);
}

size_t gyre_log_origin_size(const struct gyre_log_origin *origin) {
  size_t size = origin->names.capacity;
  for (unsigned form = 0; form < GYRE_LOG_FORMS; form++) size += origin->forms[form].capacity;
  return size;
}

/* Not inlined, because most lines have no host and pid. */
__attribute__((noinline)) static int put_origin(struct gyre_log_buffer *buffer, const struct gyre_log_line *line) {
  const struct gyre_log_text origin = line->origin->text;
  const size_t space = line->text.length == 0 ? 1 : 0; /* separates it from a message */
  if (gyre_log_buffer_append(buffer, origin.bytes, origin.length - space) < 0) return -ENOMEM;
  return gyre_log_buffer_reserve(buffer, line->text.length + 1);
}

int gyre_log_line_text(struct gyre_log_buffer *buffer, const struct gyre_log_line *line, int raw) {
  const struct gyre_log_text middle = line->middle, text = line->text;
  if (gyre_log_buffer_reserve(buffer, GYRE_LOG_TIME_TEXT + middle.length + text.length + 1) < 0) return -ENOMEM;
  gyre_log_buffer_put(buffer, line->time->text, GYRE_LOG_TIME_TEXT);
  gyre_log_buffer_put(buffer, middle.bytes, middle.length);
  if (line->origin && put_origin(buffer, line) < 0) return -ENOMEM;
  if (raw || clean(text.bytes, text.length, OF_TEXT) == text.length)
    gyre_log_buffer_put(buffer, text.bytes, text.length);
  else if (append_escaped(buffer, text, OF_TEXT) < 0)
    return -ENOMEM;
  return gyre_log_buffer_append(buffer, "\n", 1);
}

int gyre_log_line_json(struct gyre_log_buffer *buffer, const struct gyre_log_line *line) {
  static const char first[] = "{\"time\":\"", logged[] = "\",\"logged_at\":\"", last[] = "\"}\n";
  const size_t fixed = sizeof(first) + sizeof(logged) + sizeof(last) + 2 * GYRE_LOG_TIME_RFC3339;
  const struct gyre_log_text origin = line->origin ? line->origin->text : (struct gyre_log_text){NULL, 0};
  if (gyre_log_buffer_reserve(buffer, fixed + line->middle.length + line->text.length) < 0) return -ENOMEM;
  gyre_log_buffer_put(buffer, first, sizeof(first) - 1);
  gyre_log_buffer_put(buffer, line->time->rfc3339, GYRE_LOG_TIME_RFC3339);
  gyre_log_buffer_put(buffer, line->middle.bytes, line->middle.length);
  if (append_escaped(buffer, line->text, OF_JSON) < 0 || gyre_log_buffer_reserve(buffer, fixed + origin.length) < 0)
    return -ENOMEM;
  if (line->logged_at) {
    gyre_log_buffer_put(buffer, logged, sizeof(logged) - 1);
    gyre_log_buffer_put(buffer, line->logged_at->rfc3339, GYRE_LOG_TIME_RFC3339);
  }
  gyre_log_buffer_put(buffer, last, 1);
  gyre_log_buffer_put(buffer, origin.bytes, origin.length);
  gyre_log_buffer_put(buffer, last + 1, sizeof(last) - 2);
  return 0;
}

int gyre_log_line_redis(struct gyre_log_buffer *buffer, const struct gyre_log_line *line,
                        struct gyre_log_text command) {
  static const char time[] = "$4\r\ntime\r\n", counts[][4] = {"*11", "*13", "*15", "*17"};
  const size_t start = buffer->length;
  if (gyre_log_buffer_reserve(buffer, command.length + line->middle.length) < 0) return -ENOMEM;
  gyre_log_buffer_put(buffer, command.bytes, command.length);
  if (line->origin) memcpy(buffer->bytes + start, counts[line->origin->fields], 3);
  gyre_log_buffer_put(buffer, line->middle.bytes, line->middle.length);
  if (append_bulk(buffer, line->text) < 0 || gyre_log_buffer_append(buffer, time, sizeof(time) - 1) < 0) return -ENOMEM;
  if (append_bulk(buffer, (struct gyre_log_text){line->time->rfc3339, GYRE_LOG_TIME_RFC3339}) < 0) return -ENOMEM;
  return line->origin ? gyre_log_buffer_append(buffer, line->origin->text.bytes, line->origin->text.length) : 0;
}
