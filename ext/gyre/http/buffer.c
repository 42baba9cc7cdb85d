/* Writes the text of a response's head (see buffer.h). RFC 9112, section 5. */
#include "http/buffer.h"

#include <stdio.h>
#include <time.h>

static bool reserve(struct gyre_http_buffer *buffer, size_t length) {
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

void gyre_http_buffer_append(struct gyre_http_buffer *buffer, const char *bytes, size_t length) {
  if (buffer->failed || !reserve(buffer, length)) {
    buffer->failed = true;
    return;
  }
  if (length > 0) memcpy(buffer->bytes + buffer->length, bytes, length); /* an empty buffer may have no bytes */
  buffer->length += length;
}

void gyre_http_buffer_text(struct gyre_http_buffer *buffer, const char *text) {
  gyre_http_buffer_append(buffer, text, strlen(text));
}

void gyre_http_buffer_length(struct gyre_http_buffer *buffer, uint64_t length) {
  char digits[20];
  size_t at = sizeof(digits);
  do {
    digits[--at] = (char)('0' + length % 10);
    length /= 10;
  } while (length);
  gyre_http_buffer_text(buffer, "content-length: ");
  gyre_http_buffer_append(buffer, digits + at, sizeof(digits) - at);
  gyre_http_buffer_text(buffer, "\r\n");
}

void gyre_http_buffer_free(struct gyre_http_buffer *buffer) {
  free(buffer->bytes);
  memset(buffer, 0, sizeof(*buffer));
}

void gyre_http_buffer_field(struct gyre_http_buffer *buffer, const char *name, size_t name_length, const char *value,
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

void gyre_http_buffer_date(struct gyre_http_buffer *buffer, struct gyre_http_date *date) {
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
    snprintf(date->line, sizeof(date->line), "date: %.3s, %02d %.3s %04d %02d:%02d:%02d GMT\r\n",
             days + 3 * time.tm_wday, time.tm_mday, months + 3 * time.tm_mon, time.tm_year + 1900, time.tm_hour,
             time.tm_min, time.tm_sec);
    date->second = now.tv_sec;
  }
  gyre_http_buffer_append(buffer, date->line, GYRE_HTTP_DATE_LENGTH);
}
