/*
 * The text of a response's head, piece by piece into a growing buffer. Pure: no socket, no Ruby;
 * the caller decides what it contains.
 */
#ifndef GYRE_HTTP1_HEAD_H
#define GYRE_HTTP1_HEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gyre_http1_buffer {
  char *bytes;
  size_t length, capacity;
  bool failed; /* out of memory: what follows is dropped */
};

/* The date field's line, made again when the second changes. */
struct gyre_http1_date {
  int64_t second;
  char line[40]; /* "date: Sun, 06 Nov 1994 08:49:37 GMT\r\n" */
};

#define GYRE_HTTP1_DATE_LENGTH 37

void gyre_http1_buffer_append(struct gyre_http1_buffer *buffer, const char *bytes, size_t length);
void gyre_http1_buffer_number(struct gyre_http1_buffer *buffer, uint64_t number);
void gyre_http1_buffer_free(struct gyre_http1_buffer *buffer);

/* "HTTP/1.1 200 OK\r\n" */
void gyre_http1_head_status(struct gyre_http1_buffer *buffer, int status);
/* "name: value\r\n"; names are written in lower case. */
void gyre_http1_head_field(struct gyre_http1_buffer *buffer, const char *name, size_t name_length, const char *value,
                           size_t value_length);
void gyre_http1_head_date(struct gyre_http1_buffer *buffer, struct gyre_http1_date *date);

/* A field name is a token; a field value has no CR, LF or NUL (RFC 9110, section 5). */
bool gyre_http1_valid_name(const char *name, size_t length);
bool gyre_http1_valid_value(const char *value, size_t length);

/* Whether two names are the same but for case; `lower` is in lower case. */
bool gyre_http1_same_name(const char *name, size_t length, const char *lower, size_t lower_length);

#endif
