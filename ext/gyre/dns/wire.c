/* DNS messages as bytes (wire.h). */
#include "dns/wire.h"

size_t gyre_dns_name_read(const uint8_t *message, size_t length, size_t *at, uint8_t name[GYRE_DNS_NAME_BYTES]) {
  size_t place = *at, bound = *at, end = 0, written = 0;
  for (unsigned pointers = 0;;) {
    if (place >= length) return 0;
    uint8_t label = message[place];
    if (label >= 0xc0) {
      if (place + 2 > length) return 0;
      size_t target = gyre_dns_16(message + place) & 0x3fff;
      if (!end) end = place + 2;
      /* Each pointer must lead further back: no loops. A name has at most 127 labels. */
      if (target >= bound || ++pointers > GYRE_DNS_NAME_BYTES / 2) return 0;
      place = bound = target;
      continue;
    }
    if (label > 63 || written + label + 1 > GYRE_DNS_NAME_BYTES || place + 1 + label > length) return 0;
    memcpy(name + written, message + place, (size_t)label + 1);
    written += (size_t)label + 1;
    place += (size_t)label + 1;
    if (label == 0) break;
    if (written == GYRE_DNS_NAME_BYTES) return 0;
  }
  *at = end ? end : place;
  return written;
}

size_t gyre_dns_name_length(const uint8_t *name) {
  size_t length = 0;
  while (name[length]) length += (size_t)name[length] + 1;
  return length + 1;
}

bool gyre_dns_name_equal(const uint8_t *one, const uint8_t *other) {
  for (;;) {
    size_t label = *one;
    if (label != *other) return false;
    if (label == 0) return true;
    for (size_t i = 1; i <= label; i++)
      if (one[i] != other[i] && gyre_dns_lower(one[i]) != gyre_dns_lower(other[i])) return false;
    one += label + 1;
    other += label + 1;
  }
}

static bool is_digit(char byte) { return byte >= '0' && byte <= '9'; }

size_t gyre_dns_name_parse(const char *text, size_t length, uint8_t name[GYRE_DNS_NAME_BYTES]) {
  size_t start = 0, written = 1; /* `start`: place of the label's length */
  if (length == 1 && text[0] == '.') length = 0;
  for (size_t i = 0; i < length; i++) {
    unsigned byte = (uint8_t)text[i];
    if (byte == '.') {
      if (written - start == 1 || written >= GYRE_DNS_NAME_BYTES) return 0;
      name[start] = (uint8_t)(written - start - 1);
      start = written++;
      continue;
    }
    if (byte == '\\') {
      if (++i == length) return 0;
      byte = (uint8_t)text[i];
      if (is_digit(text[i])) {
        if (i + 3 > length || !is_digit(text[i + 1]) || !is_digit(text[i + 2])) return 0;
        byte = (byte - '0') * 100 + (unsigned)(text[i + 1] - '0') * 10 + (unsigned)(text[i + 2] - '0');
        if (byte > 255) return 0;
        i += 2;
      }
    }
    if (written - start > 63 || written >= GYRE_DNS_NAME_BYTES) return 0;
    name[written++] = (uint8_t)byte;
  }
  name[start] = (uint8_t)(written - start - 1);
  if (name[start] == 0) return written; /* the text ends with a dot, or is the root */
  if (written >= GYRE_DNS_NAME_BYTES) return 0;
  name[written] = 0;
  return written + 1;
}

size_t gyre_dns_name_text(const uint8_t *name, char text[GYRE_DNS_TEXT_BYTES]) {
  size_t written = 0;
  for (const uint8_t *label = name; *label; label += *label + 1) {
    if (written) text[written++] = '.';
    for (unsigned i = 1; i <= *label; i++) {
      uint8_t byte = label[i];
      if (byte <= ' ' || byte >= 127) {
        text[written++] = '\\';
        text[written++] = (char)('0' + byte / 100);
        text[written++] = (char)('0' + byte / 10 % 10);
        text[written++] = (char)('0' + byte % 10);
      } else {
        if (strchr(".\\\"();@$", byte)) text[written++] = '\\';
        text[written++] = (char)byte;
      }
    }
  }
  if (!written) text[written++] = '.';
  return written;
}

/* Forms of the types' data. n: a name that is written compressed (RFC 3597, section 4), u: a name
 * that is not, s: a character string, other characters: a number of bytes (fixed_bytes). */
static const char *const forms[] = {
    [GYRE_DNS_A] = "4",     [GYRE_DNS_NS] = "n",     [3 /* MD */] = "n",         [4 /* MF */] = "n",
    [GYRE_DNS_CNAME] = "n", [GYRE_DNS_SOA] = "nnt",  [7 /* MB */] = "n",         [8 /* MG */] = "n",
    [9 /* MR */] = "n",     [GYRE_DNS_PTR] = "n",    [14 /* MINFO */] = "nn",    [GYRE_DNS_MX] = "2n",
    [17 /* RP */] = "uu",   [18 /* AFSDB */] = "2u", [21 /* RT */] = "2u",       [26 /* PX */] = "2uu",
    [GYRE_DNS_AAAA] = "x",  [GYRE_DNS_SRV] = "6u",   [35 /* NAPTR */] = "4sssu", [36 /* KX */] = "2u",
    [39 /* DNAME */] = "u",
};

/* Returns NULL if the data may be any bytes. */
static const char *data_form(uint16_t type, uint16_t class) {
  return class == GYRE_DNS_IN && type < sizeof(forms) / sizeof(*forms) ? forms[type] : NULL;
}

#define FORMED_BYTES 2048 /* maximum bytes of data with a form */

static size_t fixed_bytes(char part) { return part == 'x' ? 16 : part == 't' ? 20 : (size_t)(part - '0'); }

ssize_t gyre_dns_data_expand(const uint8_t *message, const struct gyre_dns_record *record, uint8_t *to) {
  size_t at = record->data_at, end = record->data_at + record->data_length;
  const char *form = data_form(record->type, record->class);
  if (!form) {
    if (record->data_length) memcpy(to, message + at, record->data_length);
    return (ssize_t)record->data_length;
  }
  const uint8_t *start = to;
  for (; *form; form++) {
    if (*form == 'n' || *form == 'u') {
      size_t name = gyre_dns_name_read(message, end, &at, to);
      if (name == 0) return -1;
      to += name;
      continue;
    }
    size_t bytes = *form != 's' ? fixed_bytes(*form) : at < end ? (size_t)message[at] + 1 : 1;
    if (bytes > end - at) return -1;
    memcpy(to, message + at, bytes);
    to += bytes;
    at += bytes;
  }
  return at == end ? to - start : -1;
}

bool gyre_dns_data_valid(uint16_t type, uint16_t class, const uint8_t *data, size_t length) {
  struct gyre_dns_record record = {.type = type, .class = class, .data_length = length};
  uint8_t expanded[FORMED_BYTES + GYRE_DNS_EXPANDED_BYTES];
  if (!data_form(type, class)) return length <= GYRE_DNS_MESSAGE_BYTES;
  /* Refuses compressed names, which differ from their expansion. */
  return length <= FORMED_BYTES && gyre_dns_data_expand(data, &record, expanded) == (ssize_t)length &&
         memcmp(data, expanded, length) == 0;
}

bool gyre_dns_question_read(const uint8_t *message, size_t length, size_t *at, struct gyre_dns_record *question) {
  size_t name = gyre_dns_name_read(message, length, at, question->name);
  if (name == 0 || length - *at < 4) return false;
  question->name_length = name;
  question->type = gyre_dns_16(message + *at);
  question->class = gyre_dns_16(message + *at + 2);
  *at += 4;
  return true;
}

bool gyre_dns_record_read(const uint8_t *message, size_t length, size_t *at, struct gyre_dns_record *record) {
  if (!gyre_dns_question_read(message, length, at, record) || length - *at < 6) return false;
  record->ttl = gyre_dns_32(message + *at);
  record->data_length = gyre_dns_16(message + *at + 4);
  record->data_at = *at + 6;
  if (record->data_length > length - record->data_at) return false;
  *at = record->data_at + record->data_length;
  return true;
}

/* Returns false if options are truncated. */
static bool read_opt(struct gyre_dns_edns *edns, const uint8_t *bytes, const struct gyre_dns_record *record) {
  *edns = (struct gyre_dns_edns){.present = true,
                                 .rcode = (uint8_t)(record->ttl >> 24),
                                 .version = (uint8_t)(record->ttl >> 16),
                                 .flags = (uint16_t)record->ttl,
                                 .udp_bytes = record->class,
                                 .options = bytes + record->data_at,
                                 .options_length = record->data_length};
  for (size_t at = 0; at < edns->options_length;) {
    if (edns->options_length - at < 4) return false;
    at += 4 + (size_t)gyre_dns_16(edns->options + at + 2);
    if (at > edns->options_length) return false;
  }
  return true;
}

enum gyre_dns_verdict gyre_dns_query_read(struct gyre_dns_query *query, const uint8_t *bytes, size_t length) {
  query->question.name_length = 0;
  query->edns.present = false;
  query->edns.options_length = 0;
  query->question.type = query->question.class = 0;
  if (length < GYRE_DNS_HEADER_BYTES) return GYRE_DNS_NO_HEADER;
  query->id = gyre_dns_16(bytes);
  query->flags = gyre_dns_16(bytes + 2);
  for (int i = 0; i < 4; i++) query->counts[i] = gyre_dns_16(bytes + 4 + 2 * i);

  size_t at = GYRE_DNS_HEADER_BYTES;
  for (unsigned i = 0; i < query->counts[0]; i++) {
    struct gyre_dns_record other;
    if (!gyre_dns_question_read(bytes, length, &at, i ? &other : &query->question)) return GYRE_DNS_MALFORMED;
  }
  query->records_at = at;
  unsigned records = (unsigned)query->counts[1] + query->counts[2] + query->counts[3];
  for (unsigned i = 0; i < records; i++) {
    struct gyre_dns_record record;
    size_t start = at;
    if (!gyre_dns_record_read(bytes, length, &at, &record)) return GYRE_DNS_MALFORMED;
    if (record.type != GYRE_DNS_OPT) continue;
    query->opt_at = start;
    bool placed = i >= records - query->counts[3] && record.name_length == 1 && !query->edns.present;
    if (!placed || !read_opt(&query->edns, bytes, &record)) return GYRE_DNS_MALFORMED;
  }
  query->end = at;
  return at == length || (query->flags & GYRE_DNS_QR) ? GYRE_DNS_WELL_FORMED : GYRE_DNS_MALFORMED;
}

int64_t gyre_dns_lifetime(const uint8_t *bytes, size_t length, bool *negative) {
  struct gyre_dns_query query;
  struct gyre_dns_record record;
  uint32_t least_s = UINT32_MAX;
  bool found = false;
  if (gyre_dns_query_read(&query, bytes, length) != GYRE_DNS_WELL_FORMED || query.counts[0] != 1) return -1;
  unsigned rcode = query.flags & GYRE_DNS_RCODE;
  if ((query.flags & GYRE_DNS_TC) || (rcode != 0 && rcode != 3) || (query.edns.present && query.edns.rcode)) return -1;
  size_t at = query.records_at;
  for (unsigned i = 0; i < query.counts[1]; i++) {
    (void)gyre_dns_record_read(bytes, length, &at, &record);
    uint32_t ttl = gyre_dns_ttl(record.ttl);
    if (ttl < least_s) least_s = ttl;
    found |= record.type == query.question.type || query.question.type == GYRE_DNS_ANY;
  }
  *negative = !found || rcode != 0;
  if (!*negative) return least_s;
  for (unsigned i = 0; i < query.counts[2]; i++) {
    (void)gyre_dns_record_read(bytes, length, &at, &record);
    if (record.type != GYRE_DNS_SOA || record.data_length < 22) continue;
    uint32_t ttl = gyre_dns_ttl(record.ttl), minimum = gyre_dns_ttl(gyre_dns_32(bytes + at - 4));
    if (ttl < least_s) least_s = ttl;
    return minimum < least_s ? minimum : least_s;
  }
  return -1;
}

void gyre_dns_age(uint8_t *bytes, size_t length, uint32_t age_s) {
  struct gyre_dns_query query;
  struct gyre_dns_record record;
  if (gyre_dns_query_read(&query, bytes, length) != GYRE_DNS_WELL_FORMED) return;
  size_t at = query.records_at;
  for (unsigned left = (unsigned)query.counts[1] + query.counts[2] + query.counts[3]; left; left--) {
    (void)gyre_dns_record_read(bytes, length, &at, &record);
    uint32_t ttl = gyre_dns_ttl(record.ttl);
    if (record.type != GYRE_DNS_OPT) gyre_dns_put_32(bytes + record.data_at - 6, ttl > age_s ? ttl - age_s : 0);
  }
}

const uint8_t *gyre_dns_option(const struct gyre_dns_edns *edns, uint16_t code, size_t *length) {
  for (size_t at = 0; edns->present && at < edns->options_length;) {
    const uint8_t *option = edns->options + at;
    *length = gyre_dns_16(option + 2);
    if (gyre_dns_16(option) == code) return option + 4;
    at += 4 + *length;
  }
  return NULL;
}

void gyre_dns_writer_init(struct gyre_dns_writer *writer, uint8_t *bytes, size_t room) {
  writer->bytes = bytes;
  writer->length = GYRE_DNS_HEADER_BYTES;
  writer->room = room;
  writer->suffixes = 0;
}

void gyre_dns_put_header(struct gyre_dns_writer *writer, uint16_t id, uint16_t flags, const uint16_t counts[4]) {
  gyre_dns_put_16(writer->bytes, id);
  gyre_dns_put_16(writer->bytes + 2, flags);
  for (int i = 0; i < 4; i++) gyre_dns_put_16(writer->bytes + 4 + 2 * i, counts[i]);
}

/* Compares `name` with the name written at `at`, and follows its compression pointers. Case
 * matters, because names keep the case of their zone (RFC 4343, section 4). */
static bool is_written_at(const uint8_t *bytes, size_t at, const uint8_t *name) {
  for (;;) {
    uint8_t label = bytes[at];
    if (label >= 0xc0) {
      at = gyre_dns_16(bytes + at) & 0x3fff;
      continue;
    }
    if (label != *name) return false;
    if (label == 0) return true;
    if (memcmp(bytes + at + 1, name + 1, label) != 0) return false;
    at += (size_t)label + 1;
    name += (size_t)label + 1;
  }
}

/* Returns memory for `bytes` in the message, or NULL if they do not fit. */
static uint8_t *take(struct gyre_dns_writer *writer, size_t bytes) {
  if (writer->room - writer->length < bytes) return NULL;
  writer->length += bytes;
  return writer->bytes + writer->length - bytes;
}

/* Writes a name, compressed by earlier names only: its own suffixes are incomplete. After a
 * failure, `put` restores length and suffixes. */
static bool put_name(struct gyre_dns_writer *writer, const uint8_t *name) {
  unsigned known = writer->suffixes;
  uint8_t *to;
  for (const uint8_t *label = name; *label; label += *label + 1) {
    for (unsigned i = 0; i < known; i++) {
      if (!is_written_at(writer->bytes, writer->suffix[i], label)) continue;
      if ((to = take(writer, 2))) gyre_dns_put_16(to, (uint16_t)(0xc000 | writer->suffix[i]));
      return to;
    }
    if (writer->length < 0x4000 && writer->suffixes < GYRE_DNS_SUFFIXES)
      writer->suffix[writer->suffixes++] = (uint16_t)writer->length;
    if (!(to = take(writer, (size_t)*label + 1))) return false;
    memcpy(to, label, (size_t)*label + 1);
  }
  if ((to = take(writer, 1))) *to = 0;
  return to;
}

/* Writes valid data, with compressed names where the form has an n. */
static bool put_data(struct gyre_dns_writer *writer, const char *form, const uint8_t *data, size_t length) {
  const uint8_t *end = data + length;
  uint8_t *to;
  for (; form && (*form == 'n' || *form == '2'); form++) {
    if (*form == 'n') {
      if (!put_name(writer, data)) return false;
      data += gyre_dns_name_length(data);
    } else {
      if (!(to = take(writer, 2))) return false;
      memcpy(to, data, 2);
      data += 2;
    }
  }
  if (!(to = take(writer, (size_t)(end - data)))) return false;
  if (end > data) memcpy(to, data, (size_t)(end - data));
  return true;
}

/* Writes a record, or a question if `ttl` is NULL. Writes nothing if it does not fit. */
static bool put(struct gyre_dns_writer *writer, const uint8_t *name, uint16_t type, uint16_t class, const uint32_t *ttl,
                const uint8_t *data, size_t length) {
  size_t start = writer->length;
  unsigned suffixes = writer->suffixes;
  uint8_t *head;
  if (put_name(writer, name) && (head = take(writer, ttl ? 10 : 4))) {
    gyre_dns_put_16(head, type);
    gyre_dns_put_16(head + 2, class);
    if (!ttl) return true;
    if (put_data(writer, data_form(type, class), data, length)) {
      gyre_dns_put_32(head + 4, *ttl);
      gyre_dns_put_16(head + 8, (uint16_t)(writer->bytes + writer->length - head - 10));
      return true;
    }
  }
  writer->length = start;
  writer->suffixes = suffixes;
  return false;
}

bool gyre_dns_put_question(struct gyre_dns_writer *writer, const uint8_t *name, uint16_t type, uint16_t class) {
  return put(writer, name, type, class, NULL, NULL, 0);
}

bool gyre_dns_put_record(struct gyre_dns_writer *writer, const uint8_t *name, uint16_t type, uint16_t class,
                         uint32_t ttl, const uint8_t *data, size_t length) {
  return put(writer, name, type, class, &ttl, data, length);
}

bool gyre_dns_put_opt(struct gyre_dns_writer *writer, const struct gyre_dns_edns *edns) {
  static const uint8_t root = 0;
  uint32_t ttl = (uint32_t)edns->rcode << 24 | (uint32_t)edns->version << 16 | edns->flags;
  return gyre_dns_put_record(writer, &root, GYRE_DNS_OPT, edns->udp_bytes, ttl, edns->options, edns->options_length);
}
