/*
 * The text of a response's head (see http1_head.h). RFC 9112, section 4 and 5.
 */
#include "http/http1_head.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static bool reserve(struct gyre_http1_buffer *buffer, size_t length) {
  if (buffer->capacity - buffer->length >= length) return true;
  size_t capacity = buffer->capacity ? buffer->capacity : 4096;
  while (capacity - buffer->length < length) {
    if (capacity > SIZE_MAX / 2) return false;
    capacity *= 2;
  }
  char *bytes = realloc(buffer->bytes, capacity);
  if (!bytes) return false;
  buffer->bytes = bytes;
  buffer->capacity = capacity;
  return true;
}

void gyre_http1_buffer_append(struct gyre_http1_buffer *buffer, const char *bytes, size_t length) {
  if (buffer->failed || !reserve(buffer, length)) {
    buffer->failed = true;
    return;
  }
  memcpy(buffer->bytes + buffer->length, bytes, length);
  buffer->length += length;
}

void gyre_http1_buffer_number(struct gyre_http1_buffer *buffer, uint64_t number) {
  char digits[20];
  size_t at = sizeof(digits);
  do {
    digits[--at] = (char)('0' + number % 10);
    number /= 10;
  } while (number);
  gyre_http1_buffer_append(buffer, digits + at, sizeof(digits) - at);
}

void gyre_http1_buffer_free(struct gyre_http1_buffer *buffer) {
  free(buffer->bytes);
  memset(buffer, 0, sizeof(*buffer));
}

/* IANA, HTTP Status Code Registry. A status without a phrase is sent with an empty one (RFC 9112,
 * section 4). */
static const char *phrase(int status) {
  switch (status) {
  case 100: return "Continue";
  case 101: return "Switching Protocols";
  case 102: return "Processing";
  case 103: return "Early Hints";
  case 200: return "OK";
  case 201: return "Created";
  case 202: return "Accepted";
  case 203: return "Non-Authoritative Information";
  case 204: return "No Content";
  case 205: return "Reset Content";
  case 206: return "Partial Content";
  case 207: return "Multi-Status";
  case 208: return "Already Reported";
  case 226: return "IM Used";
  case 300: return "Multiple Choices";
  case 301: return "Moved Permanently";
  case 302: return "Found";
  case 303: return "See Other";
  case 304: return "Not Modified";
  case 305: return "Use Proxy";
  case 307: return "Temporary Redirect";
  case 308: return "Permanent Redirect";
  case 400: return "Bad Request";
  case 401: return "Unauthorized";
  case 402: return "Payment Required";
  case 403: return "Forbidden";
  case 404: return "Not Found";
  case 405: return "Method Not Allowed";
  case 406: return "Not Acceptable";
  case 407: return "Proxy Authentication Required";
  case 408: return "Request Timeout";
  case 409: return "Conflict";
  case 410: return "Gone";
  case 411: return "Length Required";
  case 412: return "Precondition Failed";
  case 413: return "Content Too Large";
  case 414: return "URI Too Long";
  case 415: return "Unsupported Media Type";
  case 416: return "Range Not Satisfiable";
  case 417: return "Expectation Failed";
  case 421: return "Misdirected Request";
  case 422: return "Unprocessable Content";
  case 423: return "Locked";
  case 424: return "Failed Dependency";
  case 425: return "Too Early";
  case 426: return "Upgrade Required";
  case 428: return "Precondition Required";
  case 429: return "Too Many Requests";
  case 431: return "Request Header Fields Too Large";
  case 451: return "Unavailable For Legal Reasons";
  case 500: return "Internal Server Error";
  case 501: return "Not Implemented";
  case 502: return "Bad Gateway";
  case 503: return "Service Unavailable";
  case 504: return "Gateway Timeout";
  case 505: return "HTTP Version Not Supported";
  case 506: return "Variant Also Negotiates";
  case 507: return "Insufficient Storage";
  case 508: return "Loop Detected";
  case 510: return "Not Extended";
  case 511: return "Network Authentication Required";
  default: return "";
  }
}

void gyre_http1_head_status(struct gyre_http1_buffer *buffer, int status) {
  static const char ok[] = "HTTP/1.1 200 OK\r\n";
  if (status == 200) {
    gyre_http1_buffer_append(buffer, ok, sizeof(ok) - 1);
    return;
  }
  const char *reason = phrase(status);
  gyre_http1_buffer_append(buffer, ok, 9);
  gyre_http1_buffer_number(buffer, (uint64_t)status);
  gyre_http1_buffer_append(buffer, " ", 1);
  gyre_http1_buffer_append(buffer, reason, strlen(reason));
  gyre_http1_buffer_append(buffer, "\r\n", 2);
}

void gyre_http1_head_field(struct gyre_http1_buffer *buffer, const char *name, size_t name_length, const char *value,
                           size_t value_length) {
  if (buffer->failed || value_length > SIZE_MAX - name_length - 4 || !reserve(buffer, name_length + value_length + 4)) {
    buffer->failed = true;
    return;
  }
  char *at = buffer->bytes + buffer->length;
  for (size_t i = 0; i < name_length; i++) {
    char c = name[i];
    *at++ = c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
  }
  *at++ = ':';
  *at++ = ' ';
  memcpy(at, value, value_length);
  at += value_length;
  *at++ = '\r';
  *at++ = '\n';
  buffer->length = (size_t)(at - buffer->bytes);
}

void gyre_http1_head_date(struct gyre_http1_buffer *buffer, struct gyre_http1_date *date) {
  static const char days[] = "SunMonTueWedThuFriSat", months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
  struct timespec now;
#ifdef CLOCK_REALTIME_COARSE
  clock_gettime(CLOCK_REALTIME_COARSE, &now);
#else
  clock_gettime(CLOCK_REALTIME, &now);
#endif
  if (now.tv_sec != date->second || !date->line[0]) {
    struct tm time;
    time_t second = now.tv_sec;
    gmtime_r(&second, &time);
    char *at = date->line;
    int year = time.tm_year + 1900;
#define TWO(value) (*at++ = (char)('0' + (value) / 10 % 10), *at++ = (char)('0' + (value) % 10))
#define TEXT(from, length) (memcpy(at, (from), (length)), at += (length))
    TEXT("date: ", 6);
    TEXT(days + 3 * time.tm_wday, 3);
    TEXT(", ", 2);
    TWO(time.tm_mday);
    *at++ = ' ';
    TEXT(months + 3 * time.tm_mon, 3);
    *at++ = ' ';
    TWO(year / 100);
    TWO(year % 100);
    *at++ = ' ';
    TWO(time.tm_hour);
    *at++ = ':';
    TWO(time.tm_min);
    *at++ = ':';
    TWO(time.tm_sec);
    TEXT(" GMT\r\n", 6);
#undef TWO
#undef TEXT
    date->second = now.tv_sec;
  }
  gyre_http1_buffer_append(buffer, date->line, GYRE_HTTP1_DATE_LENGTH);
}

/* RFC 9110, section 5.6.2: the characters of a token. */
static bool is_token_character(unsigned char c) {
  if ((c | 32) >= 'a' && (c | 32) <= 'z') return true;
  if (c >= '0' && c <= '9') return true;
  return c == '-' || (c && strchr("!#$%&'*+.^_`|~", c));
}

bool gyre_http1_valid_name(const char *name, size_t length) {
  if (length == 0) return false;
  for (size_t i = 0; i < length; i++) {
    if (!is_token_character((unsigned char)name[i])) return false;
  }
  return true;
}

bool gyre_http1_valid_value(const char *value, size_t length) {
  for (size_t i = 0; i < length; i++) {
    if (value[i] == '\r' || value[i] == '\n' || value[i] == '\0') return false;
  }
  return true;
}

bool gyre_http1_same_name(const char *name, size_t length, const char *lower, size_t lower_length) {
  if (length != lower_length) return false;
  for (size_t i = 0; i < length; i++) {
    char c = name[i];
    if (c >= 'A' && c <= 'Z') c = (char)(c + 32);
    if (c != lower[i]) return false;
  }
  return true;
}
