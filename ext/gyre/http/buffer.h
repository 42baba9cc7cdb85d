/* A growing buffer for a response's head. Pure: no socket, no Ruby. */
#pragma once

#include "feature.h"

struct gyre_http_buffer {
  char *bytes;
  size_t length, capacity;
  bool failed; /* out of memory; later text is dropped */
};

/* The date field's line, renewed each second. */
struct gyre_http_date {
  int64_t second;
  char line[96]; /* "date: Sun, 06 Nov 1994 08:49:37 GMT\r\n" */
};

#define GYRE_HTTP_DATE_LENGTH 37

void gyre_http_buffer_append(struct gyre_http_buffer *buffer, const char *bytes, size_t length);
void gyre_http_buffer_text(struct gyre_http_buffer *buffer, const char *text);
void gyre_http_buffer_free(struct gyre_http_buffer *buffer);

/* Appends "name: value\r\n" and lower-cases the name. */
void gyre_http_buffer_field(struct gyre_http_buffer *buffer, const char *name, size_t name_length, const char *value,
                            size_t value_length);
void gyre_http_buffer_length(struct gyre_http_buffer *buffer, uint64_t length); /* content-length */
void gyre_http_buffer_date(struct gyre_http_buffer *buffer, struct gyre_http_date *date);
