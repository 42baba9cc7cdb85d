/*
 * The text of a response's head, written into a growing buffer. Pure: no socket, no Ruby; the
 * caller decides the content.
 */
#ifndef GYRE_HTTP_BUFFER_H
#define GYRE_HTTP_BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gyre_http_buffer {
  char *bytes;
  size_t length, capacity;
  bool failed; /* set if out of memory; later text is dropped */
};

/* The line of the date field, renewed each second. */
struct gyre_http_date {
  int64_t second;
  char line[96]; /* "date: Sun, 06 Nov 1994 08:49:37 GMT\r\n" */
};

#define GYRE_HTTP_DATE_LENGTH 37

void gyre_http_buffer_append(struct gyre_http_buffer *buffer, const char *bytes, size_t length);
void gyre_http_buffer_number(struct gyre_http_buffer *buffer, uint64_t number);
void gyre_http_buffer_text(struct gyre_http_buffer *buffer, const char *text);
void gyre_http_buffer_free(struct gyre_http_buffer *buffer);

/* "name: value\r\n"; names are written in lower case. */
void gyre_http_buffer_field(struct gyre_http_buffer *buffer, const char *name, size_t name_length, const char *value,
                            size_t value_length);
void gyre_http_buffer_length(struct gyre_http_buffer *buffer, uint64_t length); /* of the body */
void gyre_http_buffer_date(struct gyre_http_buffer *buffer, struct gyre_http_date *date);

#endif
