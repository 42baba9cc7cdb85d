/* memcached's meta protocol (memcached_wire.h). */
#include "memcached/memcached_wire.h"

enum gyre_memcached_key gyre_memcached_key_form(const char *key, size_t length) {
  if (length == 0 || length > GYRE_MEMCACHED_KEY_BYTES) return GYRE_MEMCACHED_REFUSED;
  unsigned unusual = 0;
  for (size_t i = 0; i < length; i++) unusual |= (unsigned char)(key[i] - 0x21) > 0x7e - 0x21;
  if (!unusual) return GYRE_MEMCACHED_PLAIN;
  return gyre_memcached_key_room(length) <= GYRE_MEMCACHED_KEY_BYTES ? GYRE_MEMCACHED_BASE64 : GYRE_MEMCACHED_REFUSED;
}

char *gyre_memcached_put_number(char *to, uint64_t number) {
  char digits[20];
  int count = 0;
  do {
    digits[count++] = (char)('0' + number % 10);
    number /= 10;
  } while (number);
  while (count) *to++ = digits[--count];
  return to;
}

static char *put(char *to, const char *text, size_t length) {
  if (length) memcpy(to, text, length);
  return to + length;
}

/* Writes base64 (RFC 4648, section 4). */
static char *put_base64(char *to, const char *bytes, size_t length) {
  static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const unsigned char *from = (const unsigned char *)bytes;
  for (; length > 0; from += 3) {
    unsigned b = length > 1 ? from[1] : 0, c = length > 2 ? from[2] : 0;
    *to++ = letters[from[0] >> 2];
    *to++ = letters[(from[0] & 3) << 4 | b >> 4];
    *to++ = length > 1 ? letters[(b & 15) << 2 | c >> 6] : '=';
    *to++ = length > 2 ? letters[c & 63] : '=';
    length = length > 3 ? length - 3 : 0;
  }
  return to;
}

static char *put_key(char *to, const char *verb, const char *key, size_t length, enum gyre_memcached_key form) {
  *to++ = verb[0];
  *to++ = verb[1];
  *to++ = ' ';
  return form == GYRE_MEMCACHED_BASE64 ? put_base64(to, key, length) : put(to, key, length);
}

char *gyre_memcached_put_command(char *to, const char *verb, const char *key, size_t length,
                                 enum gyre_memcached_key form, const char *flags, size_t flags_length) {
  to = put_key(to, verb, key, length, form);
  if (form == GYRE_MEMCACHED_BASE64) to = put(to, " b", 2);
  to = put(to, flags, flags_length);
  return put(to, "\r\n", 2);
}

char *gyre_memcached_put_set(char *to, const char *key, size_t length, enum gyre_memcached_key form,
                             size_t value_length, uint32_t value_flags, int64_t ttl_s, const char *flags,
                             size_t flags_length) {
  to = put_key(to, "ms", key, length, form);
  *to++ = ' ';
  to = gyre_memcached_put_number(to, value_length);
  if (form == GYRE_MEMCACHED_BASE64) to = put(to, " b", 2);
  if (value_flags) to = gyre_memcached_put_number(put(to, " F", 2), value_flags);
  if (ttl_s < 0) {
    to = put(to, " T-1", 4);
  } else if (ttl_s > 0) {
    to = gyre_memcached_put_number(put(to, " T", 2), (uint64_t)ttl_s);
  }
  to = put(to, flags, flags_length);
  return put(to, "\r\n", 2);
}

static ssize_t broken(struct gyre_memcached_reply *reply, const char *reason) {
  reply->text = reason;
  reply->text_length = strlen(reason);
  return -1;
}

/* Parses a number up to `end` or a space. Returns false if it has no digits, other bytes, or more
 * than 64 bits. */
static bool number(const char **place, const char *end, uint64_t *value) {
  const char *p = *place;
  uint64_t result = 0;
  if (p == end || *p == ' ') return false;
  for (; p < end && *p != ' '; p++) {
    unsigned digit = (unsigned char)(*p - '0');
    if (digit > 9 || __builtin_mul_overflow(result, 10, &result) || __builtin_add_overflow(result, digit, &result))
      return false;
  }
  *place = p;
  *value = result;
  return true;
}

static bool seconds(const char **place, const char *end, int64_t *value) {
  uint64_t positive;
  bool negative = *place < end && **place == '-';
  *place += negative;
  if (!number(place, end, &positive) || positive > INT64_MAX) return false;
  *value = negative ? -(int64_t)positive : (int64_t)positive;
  return true;
}

/* Parses a reply's flags: words that begin with a letter. Skips unknown flags. */
static bool parse_flags(struct gyre_memcached_reply *reply, const char *p, const char *end) {
  while (p < end) {
    if (*p == ' ') {
      p++;
      continue;
    }
    uint64_t value;
    switch (*p++) {
    case 'f':
      if (!number(&p, end, &value) || value > UINT32_MAX) return false;
      reply->flags = (uint32_t)value;
      break;
    case 'c':
      if (!number(&p, end, &reply->cas)) return false;
      break;
    case 't':
      if (!seconds(&p, end, &reply->ttl_s)) return false;
      break;
    case 'l':
      if (!seconds(&p, end, &reply->idle_s)) return false;
      break;
    case 'h':
      if (p == end || (*p != '0' && *p != '1')) return false;
      reply->hit = (int8_t)(*p == '1');
      break;
    case 'W': reply->won = true; break;
    case 'X': reply->stale = true; break;
    case 'Z': reply->lost = true; break;
    default: break;
    }
    while (p < end && *p != ' ') p++;
  }
  return true;
}

static const struct {
  const char *word;
  uint8_t length, code;
} words[] = {
    {"HD", 2, GYRE_MEMCACHED_HD},
    {"VA", 2, GYRE_MEMCACHED_VA},
    {"EN", 2, GYRE_MEMCACHED_EN},
    {"NF", 2, GYRE_MEMCACHED_NF},
    {"NS", 2, GYRE_MEMCACHED_NS},
    {"EX", 2, GYRE_MEMCACHED_EX},
    {"MN", 2, GYRE_MEMCACHED_MN},
    {"OK", 2, GYRE_MEMCACHED_OK},
    {"END", 3, GYRE_MEMCACHED_END},
    {"STAT", 4, GYRE_MEMCACHED_STAT},
    {"ERROR", 5, GYRE_MEMCACHED_ERROR},
    {"RESET", 5, GYRE_MEMCACHED_RESET},
    {"STORED", 6, GYRE_MEMCACHED_STORED},
    {"VERSION", 7, GYRE_MEMCACHED_VERSION},
    {"SERVER_ERROR", 12, GYRE_MEMCACHED_SERVER_ERROR},
    {"CLIENT_ERROR", 12, GYRE_MEMCACHED_CLIENT_ERROR},
};

static int code_of(const char *line, size_t length) {
  for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
    if (words[i].length == length && memcmp(words[i].word, line, length) == 0) return words[i].code;
  }
  return -1;
}

static ssize_t parse_value(struct gyre_memcached_reply *reply, const char *bytes, size_t length, const char *p,
                           const char *end, size_t *wanted) {
  uint64_t size;
  if (p < end && *p == ' ') p++;
  if (!number(&p, end, &size)) return broken(reply, "a value without its length");
  if (size > GYRE_MEMCACHED_VALUE_BYTES) return broken(reply, "a value of more than a gigabyte");
  if (!parse_flags(reply, p, end)) return broken(reply, "a flag that cannot be read");
  size_t head = (size_t)(end - bytes) + 2, whole = head + (size_t)size + 2;
  reply->data = bytes + head;
  reply->data_length = (size_t)size;
  if (length < whole) {
    *wanted = whole;
    return 0;
  }
  if (bytes[whole - 2] != '\r' || bytes[whole - 1] != '\n')
    return broken(reply, "a value that does not end at its length");
  return (ssize_t)whole;
}

ssize_t gyre_memcached_parse(struct gyre_memcached_reply *reply, const char *bytes, size_t length, size_t *wanted) {
  *wanted = length + 1;
  if (length < 4) return 0; /* length of the shortest reply: HD and CRLF */
  *reply = (struct gyre_memcached_reply){.hit = -1, .ttl_s = INT64_MIN, .idle_s = INT64_MIN};
  size_t looked = length < GYRE_MEMCACHED_LINE_BYTES ? length : GYRE_MEMCACHED_LINE_BYTES;
  const char *feed = memchr(bytes, '\n', looked);
  if (!feed) return looked == GYRE_MEMCACHED_LINE_BYTES ? broken(reply, "a line without end") : 0;
  if (feed == bytes || feed[-1] != '\r') return broken(reply, "a line that ends without CR");
  const char *end = feed - 1, *p = memchr(bytes, ' ', (size_t)(end - bytes));
  if (!p) p = end;
  int code = code_of(bytes, (size_t)(p - bytes));
  if (code < 0) return broken(reply, "a reply of an unknown kind");
  reply->code = (uint8_t)code;
  if (code == GYRE_MEMCACHED_VA) return parse_value(reply, bytes, length, p, end, wanted);
  reply->text = code >= GYRE_MEMCACHED_SERVER_ERROR ? bytes : p < end ? p + 1 : p;
  reply->text_length = (size_t)(end - reply->text);
  if (code < GYRE_MEMCACHED_OK && !parse_flags(reply, p, end)) return broken(reply, "a flag that cannot be read");
  return feed + 1 - bytes;
}
