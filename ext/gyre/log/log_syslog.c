/* Parses syslog messages (RFC 5424, RFC 3164) and their framing on a stream (RFC 6587), for
 * log_frame.h. Bytes outside the grammar become a text. Twin: test/oracle/log/syslog.rb. */
#include "log/log_frame.h"

#include <strings.h>

struct rest {
  const char *at, *end;
};

static bool is_digit(char byte) { return byte >= '0' && byte <= '9'; }

static size_t left(const struct rest *rest) { return (size_t)(rest->end - rest->at); }

/* Takes a word and the space behind it. Returns false if either is missing. */
static bool take_word(struct rest *rest, struct gyre_log_text *word) {
  const char *const space = memchr(rest->at, ' ', left(rest));
  if (!space || space == rest->at) return false;
  *word = (struct gyre_log_text){rest->at, (size_t)(space - rest->at)};
  rest->at = space + 1;
  return true;
}

/* Takes a priority, "<0>" to "<191>". Returns -1 if there is none. */
static int take_priority(struct rest *rest) {
  const size_t length = left(rest);
  size_t at = 1;
  int priority = 0;
  if (length < 3 || rest->at[0] != '<') return -1;
  while (at < length && at < 4 && is_digit(rest->at[at])) priority = priority * 10 + (rest->at[at++] - '0');
  if (at == 1 || at == length || rest->at[at] != '>' || priority > 191) return -1;
  rest->at += at + 1;
  return priority;
}

static struct gyre_log_text severity_of(int priority) {
  static const char *const names[] = {"fatal", "fatal", "fatal", "error", "warn", "info", "info", "debug"};
  const char *const name = names[priority & 7];
  return (struct gyre_log_text){name, strlen(name)};
}

static struct gyre_log_text facility_of(int priority) {
  static const char *const names[] = {"kern",   "user",   "mail",     "daemon", "auth",   "syslog", "lpr",    "news",
                                      "uucp",   "cron",   "authpriv", "ftp",    "ntp",    "audit",  "alert",  "clock",
                                      "local0", "local1", "local2",   "local3", "local4", "local5", "local6", "local7"};
  const char *const name = names[priority >> 3];
  return (struct gyre_log_text){name, strlen(name)};
}

/* Appends a name and a word to the message's prefix in `scratch`, unless the word is empty. */
static int put_before(struct gyre_log_buffer *scratch, const char *name, struct gyre_log_text word) {
  if (word.length == 0) return 0;
  if (scratch->length > 0 && gyre_log_buffer_append(scratch, " ", 1) < 0) return -ENOMEM;
  if (gyre_log_buffer_append_text(scratch, name) < 0) return -ENOMEM;
  return gyre_log_buffer_append(scratch, word.bytes, word.length);
}

/* Returns an empty text for "-", which stands for a missing value (RFC 5424, section 6). */
static struct gyre_log_text unless_nil(struct gyre_log_text word) {
  return word.length == 1 && word.bytes[0] == '-' ? (struct gyre_log_text){word.bytes, 0} : word;
}

/* Takes structured data (RFC 5424, section 6.3); in quotes a backslash escapes a byte. */
static bool take_structured_data(struct rest *rest, struct gyre_log_text *data) {
  const char *at = rest->at;
  if (at < rest->end && *at == '-') {
    at++;
  } else {
    if (at == rest->end || *at != '[') return false;
    while (at < rest->end && *at == '[') {
      bool quoted = false;
      for (at++; at < rest->end && (quoted || *at != ']'); at++) {
        if (*at == '"')
          quoted = !quoted;
        else if (quoted && *at == '\\' && at + 1 < rest->end)
          at++;
      }
      if (at == rest->end) return false;
      at++;
    }
  }
  if (at < rest->end && *at != ' ') return false;
  *data = unless_nil((struct gyre_log_text){rest->at, (size_t)(at - rest->at)});
  rest->at = at < rest->end ? at + 1 : at;
  return true;
}

/* True if the bytes match a pattern, in which 0 stands for any digit. */
static bool looks_like(const char *bytes, const char *pattern, size_t length) {
  for (size_t i = 0; i < length; i++) {
    if (pattern[i] == '0' ? !is_digit(bytes[i]) : bytes[i] != pattern[i]) return false;
  }
  return true;
}

static int64_t number(const char *bytes, int digits) {
  int64_t value = 0;
  while (digits-- > 0) value = value * 10 + (*bytes++ - '0');
  return value;
}

/* Counts Gregorian days. Here years begin in March, so that a leap day is a year's last day. */
static int64_t days_since_1970(int64_t year, int64_t month, int64_t day) {
  year -= month <= 2;
  const int64_t day_of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
  return year * 365 + year / 4 - year / 100 + year / 400 + day_of_year - 719468;
}

static const char start_of_time[] = "0000-00-00T00:00:00";

static bool is_time(struct gyre_log_text word) {
  return word.length >= sizeof(start_of_time) - 1 && looks_like(word.bytes, start_of_time, sizeof(start_of_time) - 1);
}

/* Parses a time of RFC 5424, section 6.2.3. Returns false if it is invalid or before 1970. */
static bool parse_time(struct gyre_log_text word, uint64_t *time_us) {
  static const char zone[] = "00:00";
  const char *at = word.bytes + sizeof(start_of_time) - 1, *const end = word.bytes + word.length;
  int64_t microseconds = 0, offset = 0;
  if (!is_time(word) || at == end) return false;
  const int64_t month = number(word.bytes + 5, 2), day = number(word.bytes + 8, 2), hour = number(word.bytes + 11, 2),
                minute = number(word.bytes + 14, 2), second = number(word.bytes + 17, 2);
  if (month < 1 || month > 12 || day < 1 || day > 31 || hour > 23 || minute > 59 || second > 59) return false;
  if (*at == '.') {
    int count = 0;
    for (at++; at < end && is_digit(*at); at++, count++) {
      if (count < 6) microseconds = microseconds * 10 + (*at - '0');
    }
    if (count == 0) return false;
    while (count++ < 6) microseconds *= 10;
  }
  if (end - at == 6 && (*at == '+' || *at == '-') && looks_like(at + 1, zone, sizeof(zone) - 1)) {
    offset = (number(at + 1, 2) * 60 + number(at + 4, 2)) * 60;
    if (*at == '-') offset = -offset;
  } else if (end - at != 1 || *at != 'Z') {
    return false;
  }
  const int64_t days = days_since_1970(number(word.bytes, 4), month, day);
  const int64_t seconds = ((days * 24 + hour) * 60 + minute) * 60 + second - offset;
  if (seconds < 0) return false;
  *time_us = (uint64_t)seconds * 1000000 + (uint64_t)microseconds;
  return true;
}

/* Parses the bytes after the priority by RFC 5424. Returns 1, 0 for another format, or -ENOMEM. */
static int parse_5424(struct rest rest, struct gyre_log_buffer *scratch, struct gyre_log_message *message) {
  struct gyre_log_text time, host, name, process, id, data;
  if (left(&rest) < 2 || memcmp(rest.at, "1 ", 2) != 0) return 0;
  rest.at += 2;
  if (!take_word(&rest, &time) || !take_word(&rest, &host) || !take_word(&rest, &name) || !take_word(&rest, &process) ||
      !take_word(&rest, &id))
    return 0;
  message->has_time = parse_time(time, &message->time_us);
  if (!take_structured_data(&rest, &data)) { /* Heroku's senders leave it out */
    if (!message->has_time || left(&rest) == 0 || *rest.at == '[') return message->has_time = false;
    data = (struct gyre_log_text){rest.at, 0};
  }
  if (left(&rest) >= 3 && memcmp(rest.at, "\xef\xbb\xbf", 3) == 0) rest.at += 3; /* MSG-UTF8 */
  if (name.length > 1 && name.bytes[name.length - 1] == ':') name.length--;      /* as behind a tag */
  if (unless_nil(name).length > 0) message->service = name;
  message->host = unless_nil(host);
  message->process = unless_nil(process);
  if (put_before(scratch, "id=", unless_nil(id)) < 0 || put_before(scratch, "", data) < 0) return -ENOMEM;
  message->text = (struct gyre_log_text){rest.at, left(&rest)};
  return 1;
}

/* Takes a time like "Nov 21 19:20:00" (RFC 3164, section 4.1.2). Devices also write a year, one
 * digit for the day, a fraction of a second, and ":" or " UTC:" behind it. */
static bool take_bsd_time(struct rest *rest) {
  static const char months[] = "janfebmaraprmayjunjulaugsepoctnovdec", clock[] = "00:00:00";
  struct rest at = *rest;
  const char *month = months;
  if (left(&at) >= 5 && looks_like(at.at, "0000 ", 5)) at.at += 5;
  if (left(&at) < 14 || at.at[3] != ' ') return false;
  while (*month && strncasecmp(at.at, month, 3) != 0) month += 3;
  if (!*month) return false;
  at.at += at.at[4] == ' ' ? 5 : 4;
  if (!is_digit(*at.at++)) return false;
  if (is_digit(*at.at)) at.at++;
  if (left(&at) >= 6 && looks_like(at.at, " 0000 ", 6)) at.at += 5;
  if (left(&at) < sizeof(clock) || !looks_like(at.at++, " ", 1) || !looks_like(at.at, clock, sizeof(clock) - 1))
    return false;
  at.at += sizeof(clock) - 1;
  if (at.at < at.end && *at.at == '.') {
    for (at.at++; at.at < at.end && is_digit(*at.at);) at.at++;
  }
  struct rest zone = at;
  if (zone.at < zone.end && *zone.at == ' ') {
    for (zone.at++; zone.at < zone.end && *zone.at >= 'A' && *zone.at <= 'Z';) zone.at++;
    if (left(&zone) >= 3 && memcmp(zone.at, ": %", 3) == 0) at = zone;
  }
  if (at.at < at.end && *at.at == ':') at.at++;
  if (at.at < at.end && *at.at++ != ' ') return false;
  *rest = at;
  return true;
}

/* Takes a time by RFC 3164 or RFC 5424, and spaces before it. It is known only with its zone. */
static bool take_time(struct rest *rest, struct gyre_log_message *message) {
  struct gyre_log_text word;
  struct rest at = *rest;
  while (at.at < at.end && *at.at == ' ') at.at++;
  if (!take_bsd_time(&at)) {
    if (!take_word(&at, &word) || !is_time(word)) return false;
    message->has_time = parse_time(word, &message->time_us);
  }
  *rest = at;
  return true;
}

static bool is_letter(char byte) { return (byte | 32) >= 'a' && (byte | 32) <= 'z'; }

/* Takes a name of letters, digits and `more`. Returns its length; sets whether it has a letter. */
static size_t name_length(const struct rest *rest, const char *more, bool *lettered) {
  const char *at = rest->at;
  *lettered = false;
  for (; at < rest->end && (is_letter(*at) || is_digit(*at) || (*at && strchr(more, *at))); at++) {
    *lettered |= is_letter(*at);
  }
  return (size_t)(at - rest->at);
}

/* Takes a tag like "su: ", "su[123]: ", "su[123] " or "su:" (RFC 3164, section 4.1.3). */
static bool take_tag(struct rest *rest, struct gyre_log_text *tag, struct gyre_log_text *process) {
  bool lettered;
  const size_t length = name_length(rest, "_./-()", &lettered);
  const char *at = rest->at + length, *start = at, *stop = at;
  if (!lettered || at == rest->end) return false;
  if (*at == '[') {
    start = ++at;
    while (at < rest->end && *at != ']' && *at != ' ') at++;
    if (at == rest->end || *at == ' ') return false;
    stop = at++;
  }
  const bool colon = at < rest->end && *at == ':';
  if (colon ? ++at < rest->end && strchr("/\\:", *at) && *at : at == rest->at + length) return false;
  if (!colon && at < rest->end && *at != ' ') return false;
  *tag = (struct gyre_log_text){rest->at, length};
  *process = (struct gyre_log_text){start, (size_t)(stop - start)};
  rest->at = at < rest->end && *at == ' ' ? at + 1 : at;
  return true;
}

/* Takes a name of letters, digits and `others`, or an address, and `behind` it. */
static bool take_host(struct rest *rest, const char *others, const char *behind, struct gyre_log_text *host) {
  bool lettered;
  const size_t length = name_length(rest, others, &lettered), more = strlen(behind);
  const char *const end = rest->at + length;
  size_t colons = 0;
  if (length == 0 || !(is_letter(end[-1]) || is_digit(end[-1]))) return false;
  if (end < rest->end && ((size_t)(rest->end - end) < more || memcmp(end, behind, more) != 0)) return false;
  for (const char *at = rest->at; at < end; at++) colons += *at == ':' ? 1 + (at[1] == ':') : 0;
  if (colons > 0 && colons < 3) return false; /* a time */
  *host = (struct gyre_log_text){rest->at, length};
  rest->at = end < rest->end ? end + more : end;
  return true;
}

/* Takes what Cisco's devices write before "%SYS-5-CONFIG_I: …": a counter, a host, a time. Without
 * a counter and a time, a name is a tag. */
static void take_cisco(struct rest *rest, struct gyre_log_text *id, struct gyre_log_message *message) {
  struct rest at = *rest;
  struct gyre_log_text host = {rest->at, 0};
  while (at.at < at.end && is_digit(*at.at)) at.at++;
  if (at.at == at.end || *at.at++ != ':') at = *rest;
  const size_t digits = at.at > rest->at ? (size_t)(at.at - rest->at) - 1 : 0;
  while (at.at < at.end && *at.at == ' ') at.at++;
  struct rest behind = at;
  if (take_bsd_time(&behind) || !take_host(&behind, "_.-", ": ", &host) ||
      (digits == 0 && behind.at < behind.end && *behind.at == '%')) {
    behind = at;
    host.length = 0;
  }
  if (behind.at < behind.end && (*behind.at == '*' || *behind.at == '.')) behind.at++;
  (void)take_bsd_time(&behind);
  if (behind.at == rest->at || behind.at == behind.end || *behind.at != '%') return;
  *id = (struct gyre_log_text){rest->at, digits};
  message->host = host;
  *rest = behind;
}

/* Parses the bytes after the priority by RFC 3164. All parts are optional; without a priority, only
 * a time and a tag show that it is a message of syslog. */
static int parse_3164(struct rest rest, bool prioritized, struct gyre_log_buffer *scratch,
                      struct gyre_log_message *message) {
  struct gyre_log_text tag = {rest.at, 0}, process = tag, host = tag, id = tag;
  struct rest at = rest;
  const bool timed = take_time(&at, message);
  if (timed) rest = at;
  if (!timed && prioritized) take_cisco(&rest, &id, message);
  const bool tagged = take_tag(&rest, &tag, &process);
  if (!tagged && timed && take_host(&rest, "_.-:", " ", &host)) {
    message->host = host;
    if (left(&rest) >= 3 && memcmp(rest.at, ": %", 3) == 0) rest.at += 2;
    (void)take_tag(&rest, &tag, &process);
  }
  if (!prioritized && (!timed || tag.length == 0)) {
    message->host.length = 0;
    message->has_time = false;
    return 0;
  }
  if (tag.length > 0) message->service = tag;
  message->process = process;
  if (put_before(scratch, "id=", id) < 0) return -ENOMEM;
  message->text = (struct gyre_log_text){rest.at, left(&rest)};
  return 0;
}

long gyre_log_syslog_parse(const char *bytes, size_t length, struct gyre_log_buffer *scratch,
                           struct gyre_log_message *message) {
  static const char service[] = "syslog";
  while (length > 0 && (bytes[length - 1] == '\n' || bytes[length - 1] == '\r' || bytes[length - 1] == '\0')) length--;
  message->present = length > 0;
  if (length == 0) return 0;

  struct rest rest = {bytes, bytes + length};
  const int priority = take_priority(&rest);
  message->service = (struct gyre_log_text){service, sizeof(service) - 1};
  message->severity = severity_of(priority < 0 ? 13 : priority);
  message->facility = facility_of(priority < 0 ? 13 : priority);
  message->text = (struct gyre_log_text){bytes, length};
  message->host = message->process = (struct gyre_log_text){bytes, 0};

  scratch->length = 0;
  int done = priority < 0 ? 0 : parse_5424(rest, scratch, message);
  if (done == 0) done = parse_3164(rest, priority >= 0, scratch, message);
  if (done < 0) return GYRE_LOG_NO_MEMORY;
  if (scratch->length == 0) return 0;
  if (put_before(scratch, "", message->text) < 0) return GYRE_LOG_NO_MEMORY;
  message->text = (struct gyre_log_text){scratch->bytes, scratch->length};
  return 0;
}

/* --- streams: "11 <13>message" counts bytes; others end with a line feed or zero byte --- */

#define DIGITS_MAX 9
#define LINE_STEP 512

enum head { MORE, LINE, COUNTED, WRONG };

/* Tells whether a priority follows a number: otherwise the number is part of a line. */
static enum head read_priority(const char *bytes, size_t length) {
  struct rest rest = {bytes, bytes + length};
  if (take_priority(&rest) >= 0) return COUNTED;
  for (size_t at = 0; at < length; at++) {
    if (at > 3 || (at == 0 ? bytes[at] != '<' : !is_digit(bytes[at]))) return LINE;
  }
  return MORE;
}

/* Finds how the message ends. For COUNTED, sets the lengths of its head and its text. */
static enum head read_head(const struct gyre_log_cutter *cutter, const char *bytes, size_t length, size_t *start,
                           size_t *count) {
  const bool strict = cutter->framing == GYRE_LOG_OCTET_COUNTING;
  const enum head other = strict ? WRONG : LINE;
  size_t at = 0;
  if (cutter->framing == GYRE_LOG_LINES || cutter->framing == GYRE_LOG_ZERO) return LINE;
  if (length == 0) return MORE;
  if (bytes[0] == '0') return other;
  *count = 0;
  while (at < length && at <= DIGITS_MAX && is_digit(bytes[at])) *count = *count * 10 + (size_t)(bytes[at++] - '0');
  if (at > DIGITS_MAX) return other;
  if (at == length) return MORE;
  if (at == 0 || bytes[at] != ' ') return other;
  *start = ++at;
  return strict ? COUNTED : read_priority(bytes + at, length - at);
}

/* A message beyond the limit is cut; its other bytes are skipped (`skip_count`). */
static long counted_cut(struct gyre_log_cutter *cutter, const char *bytes, size_t length, size_t start, size_t count,
                        struct gyre_log_message *message) {
  const size_t taken = count < cutter->limit ? count : cutter->limit;
  cutter->wanted = start + taken;
  if (length - start < taken) return 0;
  const long wrong = gyre_log_syslog_parse(bytes + start, taken, cutter->scratch, message);
  if (wrong < 0) return wrong;
  cutter->skip_count = count - taken;
  cutter->overlong += count > taken;
  return (long)(start + taken);
}

/* A zero byte also ends a line of syslog (RFC 6587 section 3.4.2; Python's SysLogHandler). Searches
 * in steps, because a search for an end that the sender does not use would run beyond the line. */
const char *gyre_log_line_end(const struct gyre_log_cutter *cutter, const char *at, size_t length) {
  if (cutter->framing == GYRE_LOG_ZERO) return memchr(at, '\0', length);
  if (cutter->kind == GYRE_LOG_JSON_LINES) return memchr(at, '\n', length);
  while (length > 0) {
    const size_t step = length < LINE_STEP ? length : LINE_STEP;
    const char *const feed = memchr(at, '\n', step);
    const char *const zero = memchr(at, '\0', feed ? (size_t)(feed - at) : step);
    if (feed || zero) return zero ? zero : feed;
    at += step;
    length -= step;
  }
  return NULL;
}

/* Parses a line of syslog. A line of JSON stays a text, for lib/gyre/log/ingest/json_lines.rb. */
static long parse_line(const struct gyre_log_cutter *cutter, const char *bytes, size_t length,
                       struct gyre_log_message *message) {
  if (cutter->kind == GYRE_LOG_SYSLOG) return gyre_log_syslog_parse(bytes, length, cutter->scratch, message);
  message->text = (struct gyre_log_text){bytes, length};
  message->present = length > 0;
  return 0;
}

/* A line beyond the limit is cut; its other bytes are skipped (`skip_line`). */
static long line_cut(struct gyre_log_cutter *cutter, const char *bytes, size_t length,
                     struct gyre_log_message *message) {
  const char *const from = bytes + cutter->scanned;
  const char *const end = length > cutter->scanned ? gyre_log_line_end(cutter, from, length - cutter->scanned) : NULL;
  const size_t line = end ? (size_t)(end - bytes) : length;
  const bool overlong = line > cutter->limit;
  cutter->wanted = 0;
  cutter->scanned = end || overlong ? 0 : length;
  if (!end && !overlong) return 0;
  const long wrong = parse_line(cutter, bytes, overlong ? cutter->limit : line, message);
  if (wrong < 0) return wrong;
  cutter->skip_line = !end;
  cutter->overlong += overlong;
  return (long)line + (end ? 1 : 0);
}

/* Takes bytes of a message that was cut. */
static long skip(struct gyre_log_cutter *cutter, const char *bytes, size_t length) {
  if (cutter->skip_line) {
    const char *const end = gyre_log_line_end(cutter, bytes, length);
    cutter->skip_line = !end;
    return end ? (long)(end - bytes) + 1 : (long)length;
  }
  const size_t taken = length < cutter->skip_count ? length : cutter->skip_count;
  cutter->skip_count -= taken;
  return (long)taken;
}

long gyre_log_syslog_cut(struct gyre_log_cutter *cutter, const char *bytes, size_t length,
                         struct gyre_log_message *message) {
  size_t start = 0, count = 0;
  if (cutter->skip_line || cutter->skip_count > 0) return skip(cutter, bytes, length);
  if (cutter->scanned > 0) return line_cut(cutter, bytes, length, message);
  switch (read_head(cutter, bytes, length, &start, &count)) {
  case MORE: cutter->wanted = length + 1; return 0;
  case WRONG: return -GYRE_LOG_MALFORMED_FRAME;
  case COUNTED: return counted_cut(cutter, bytes, length, start, count, message);
  default: return line_cut(cutter, bytes, length, message);
  }
}

/* Takes the rest as a line without its end, even if the rest is only digits and may be a count. */
long gyre_log_syslog_cut_last(struct gyre_log_cutter *cutter, const char *bytes, size_t length,
                              struct gyre_log_message *message) {
  size_t start, count;
  if (cutter->framing == GYRE_LOG_OCTET_COUNTING ||
      (cutter->scanned == 0 && read_head(cutter, bytes, length, &start, &count) == COUNTED))
    return -GYRE_LOG_CUT_OFF;
  return parse_line(cutter, bytes, length, message);
}
