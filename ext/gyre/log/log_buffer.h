/* Growing bytes for the log's codecs, without ruby.h. Functions return 0; without memory, they
 * leave the bytes unchanged and return -ENOMEM. */
#pragma once

#include "feature.h"

struct gyre_log_text {
  const char *bytes;
  size_t length;
};

struct gyre_log_buffer {
  char *bytes;
  size_t length, capacity;
};

/* The slow path of gyre_log_buffer_reserve. */
static inline int gyre_log_buffer_grow(struct gyre_log_buffer *buffer, size_t more) {
  size_t capacity = buffer->capacity ? buffer->capacity : 256;
  if (more > SIZE_MAX / 4 || buffer->length > SIZE_MAX / 4) return -ENOMEM;
  while (capacity - buffer->length < more) capacity *= 2;
  char *const bytes = realloc(buffer->bytes, capacity);
  if (!bytes) return -ENOMEM;
  buffer->bytes = bytes;
  buffer->capacity = capacity;
  return 0;
}

static inline int gyre_log_buffer_reserve(struct gyre_log_buffer *buffer, size_t more) {
  return buffer->capacity - buffer->length >= more ? 0 : gyre_log_buffer_grow(buffer, more);
}

/* The room must be reserved. */
static inline void gyre_log_buffer_put(struct gyre_log_buffer *buffer, const char *bytes, size_t length) {
  if (length > 0) memcpy(buffer->bytes + buffer->length, bytes, length);
  buffer->length += length;
}

static inline int gyre_log_buffer_append(struct gyre_log_buffer *buffer, const char *bytes, size_t length) {
  if (gyre_log_buffer_reserve(buffer, length) < 0) return -ENOMEM;
  gyre_log_buffer_put(buffer, bytes, length);
  return 0;
}

static inline int gyre_log_buffer_append_text(struct gyre_log_buffer *buffer, const char *text) {
  return gyre_log_buffer_append(buffer, text, strlen(text));
}

static inline bool gyre_log_same(struct gyre_log_text one, struct gyre_log_text two) {
  return one.length == two.length && (one.length == 0 || memcmp(one.bytes, two.bytes, one.length) == 0);
}

static inline struct gyre_log_text gyre_log_text_of(const struct gyre_log_buffer *buffer) {
  return (struct gyre_log_text){buffer->bytes, buffer->length};
}

static inline void gyre_log_buffer_free(struct gyre_log_buffer *buffer) {
  free(buffer->bytes);
  memset(buffer, 0, sizeof(*buffer));
}
