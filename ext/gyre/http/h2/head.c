/* Turns an HTTP/2 head's fields into the struct that HTTP/1's parser fills, with the same limits.
 * Also collects trailers. No ruby.h, no libnghttp2. */
#include "http/h2/session.h"
#include "http/scan.h"

#include <strings.h>

#define FIELDS_FIRST 16

void gyre_http2_block_free(struct gyre_http2_block *block) {
  gyre_bytes_free(&block->text);
  free(block->fields);
  *block = (struct gyre_http2_block){0};
}

static int refuse(struct gyre_http2_stream *stream, uint16_t status, const char *reason) {
  if (!stream->head.status) {
    stream->head.status = status;
    stream->head.reason = reason;
  }
  return -1;
}

/* Appends the text to the block. Returns its place, whose length is 0 if memory is short. */
static struct gyre_http_slice keep(struct gyre_http2_block *block, const uint8_t *text, size_t length) {
  struct gyre_http_slice slice = {block->text ? block->text->length : 0, (uint32_t)length};
  if (gyre_bytes_append(&block->text, text, length) < 0) slice.length = 0;
  return slice;
}

static const char no_memory[] = "no memory for this request";

/* Adds a field, counted as a line of HTTP/1. Returns a refusal's reason, or NULL. */
static const char *add_field(struct gyre_http2_block *block, uint32_t bytes_most, uint16_t most, const uint8_t *name,
                             size_t name_length, const uint8_t *value, size_t value_length) {
  size_t line = name_length + value_length + 4;
  if (name_length > GYRE_HTTP_NAME_BYTES_LIMIT) return "a header's name that is too long";
  if (line > bytes_most || block->bytes > bytes_most - line) return "header fields that are too long in all";
  if (block->count >= most) return "too many header fields";
  if (block->count == block->capacity) {
    uint32_t capacity = block->capacity ? block->capacity * 2u : FIELDS_FIRST;
    if (capacity > most) capacity = most;
    struct gyre_http_field *fields = realloc(block->fields, capacity * sizeof(*fields));
    if (!fields) return no_memory;
    block->fields = fields;
    block->capacity = (uint16_t)capacity;
  }
  struct gyre_http_slice kept = keep(block, name, name_length);
  if (!kept.length) return no_memory;
  struct gyre_http_slice kept_value = keep(block, value, value_length);
  if (value_length && !kept_value.length) return no_memory;
  block->bytes += (uint32_t)line;
  block->fields[block->count++] = (struct gyre_http_field){
      .name = kept.offset,
      .name_length = (uint16_t)name_length,
      .value = kept_value.offset,
      .value_length = (uint32_t)value_length,
      .flags = memchr(name, '_', name_length) ? GYRE_HTTP_FIELD_UNDERSCORE : 0,
  };
  return NULL;
}

static bool is_name(const uint8_t *name, size_t length, const char *wanted) {
  return length == strlen(wanted) && memcmp(name, wanted, length) == 0;
}

static void take_pseudo(struct gyre_http2_stream *stream, const uint8_t *name, size_t length, const uint8_t *value,
                        size_t value_length) {
  const struct gyre_http_head_limits *limits = &stream->session->limits->head;
  struct gyre_http_slice *place = is_name(name, length, ":method")      ? &stream->head.method
                                  : is_name(name, length, ":path")      ? &stream->head.target
                                  : is_name(name, length, ":authority") ? &stream->head.authority
                                  : is_name(name, length, ":scheme")    ? &stream->scheme
                                  : is_name(name, length, ":protocol")  ? &stream->protocol
                                                                        : NULL;
  if (!place || stream->head.status) return;
  if (value_length > limits->request_line_bytes) {
    refuse(stream, 414, "a request target that is too long");
  } else {
    *place = keep(&stream->block, value, value_length);
    if (value_length && !place->length) refuse(stream, 503, no_memory);
  }
}

static void take_field(struct gyre_http2_stream *stream, const uint8_t *name, size_t length, const uint8_t *value,
                       size_t value_length) {
  const struct gyre_http_head_limits *limits = &stream->session->limits->head;
  if (stream->head.status) return;
  const char *reason =
      add_field(&stream->block, limits->header_bytes, limits->header_count, name, length, value, value_length);
  if (reason) refuse(stream, reason == no_memory ? 503 : 431, reason);
}

static void take_trailer(struct gyre_http2_stream *stream, const uint8_t *name, size_t length, const uint8_t *value,
                         size_t value_length) {
  const struct gyre_http_head_limits *limits = &stream->session->limits->trailers;
  if (stream->in.discards || gyre_http_is_no_trailer((const char *)name, length)) return;
  stream->trailers_wrong |= add_field(&stream->trailers, limits->header_bytes, limits->header_count, name, length,
                                      value, value_length) != NULL;
}

/* :authority and Host must be equal (RFC 9113, section 8.3.1). Adds a missing Host. */
static int take_authority(struct gyre_http2_stream *stream, int host) {
  struct gyre_http_head *head = &stream->head;
  struct gyre_http2_block *block = &stream->block;
  struct gyre_http_authority authority;
  const char *bytes = block->text->bytes;
  struct gyre_http_slice named = head->authority;
  if (host >= 0) {
    const struct gyre_http_field *field = &block->fields[host];
    if (named.length && (named.length != field->value_length ||
                         strncasecmp(bytes + named.offset, bytes + field->value, named.length) != 0))
      return refuse(stream, 400, "a Host that differs from the authority");
    if (!named.length) named = (struct gyre_http_slice){field->value, field->value_length};
  }
  if (!gyre_http_authority_parse(&authority, bytes, named.offset, named.length))
    return refuse(stream, 400, "an authority that is no host and port");
  gyre_http_authority_assign(head, &authority);
  if (host >= 0) return 0;
  char text[256 + 1];
  if (named.length >= sizeof(text)) return refuse(stream, 400, "an authority that is too long");
  memcpy(text, bytes + named.offset, named.length); /* add_field may move the block */
  const char *reason =
      add_field(block, UINT32_MAX, UINT16_MAX, (const uint8_t *)"host", 4, (const uint8_t *)text, named.length);
  return reason ? refuse(stream, 503, reason) : 0;
}

static int take_target(struct gyre_http2_stream *stream) {
  struct gyre_http_head *head = &stream->head;
  const char *bytes = stream->block.text->bytes;
  if (head->method_number == GYRE_HTTP_METHOD_CONNECT && !stream->protocol.length) {
    head->target = head->path = head->authority;
    head->target_form = GYRE_HTTP_TARGET_AUTHORITY;
    return head->port.length ? 0 : refuse(stream, 400, "a CONNECT whose authority is not host:port");
  }
  const char *target = bytes + head->target.offset, *end = target + head->target.length;
  const char *question = skip_target(target, end);
  head->path = head->target;
  if (question < end && *question == '?') {
    head->has_query = true;
    head->path.length = (uint32_t)(question - target);
    head->query = (struct gyre_http_slice){head->target.offset + head->path.length + 1,
                                           head->target.length - head->path.length - 1};
    do question = skip_target(question + 1, end);
    while (question < end && *question == '?');
  }
  if (question < end)
    return refuse(stream, 400,
                  *question == '#' ? "a fragment in the request target"
                                   : "a byte in the request target that is not allowed there");
  if (head->target.length && *target == '/') return 0;
  head->target_form = GYRE_HTTP_TARGET_ASTERISK;
  if (head->target.length == 1 && *target == '*' && head->method_number == GYRE_HTTP_METHOD_OPTIONS) return 0;
  return refuse(stream, 400, "a request target that is not a path");
}

/* Completes the head as HTTP/1's parser does. */
void gyre_http2_head_conclude(struct gyre_http2_stream *stream, bool ends) {
  struct gyre_http_head *head = &stream->head;
  struct gyre_http2_block *block = &stream->block;
  const struct gyre_http_head_limits *limits = &stream->session->limits->head;
  int host = -1, hosts = 0;
  stream->headed = true;
  stream->in.ended = ends;
  head->minor_version = GYRE_HTTP_VERSION_2;
  head->content_length = -1;
  head->flags = ends ? 0 : GYRE_HTTP_HEAD_CHUNKED; /* unknown length; trailers possible */
  if (!block->text) refuse(stream, 400, "a request without a method");
  if (head->status) goto done;

  const char *bytes = block->text->bytes;
  head->method_number = gyre_http_method_number(bytes + head->method.offset, head->method.length);
  if (!gyre_http_is_name(bytes + head->method.offset, head->method.length)) {
    refuse(stream, 400, "a method that is not a token");
    head->method.length = 0; /* keeps invalid bytes out of logs (for old versions of libnghttp2) */
  } else if (head->method.length > GYRE_HTTP_METHOD_BYTES_LIMIT) {
    refuse(stream, 501, "a method that is too long");
  } else if (head->method.length + head->target.length + 12 > limits->request_line_bytes) {
    refuse(stream, 414, "a request target that is too long");
  }
  for (int i = 0; i < block->count && !head->status; i++) {
    const struct gyre_http_field *field = &block->fields[i];
    const char *name = bytes + field->name, *value = bytes + field->value;
    if (field->name_length == 4 && memcmp(name, "host", 4) == 0) {
      host = i;
      if (++hosts > 1) refuse(stream, 400, "more than one Host");
    } else if (field->name_length == 14 && memcmp(name, "content-length", 14) == 0) {
      head->content_length = gyre_http_number(value, field->value_length);
    } else if (field->name_length == 6 && memcmp(name, "expect", 6) == 0) {
      if (!SAME_WORD(value, field->value_length, "100-continue")) {
        refuse(stream, 417, "an expectation other than 100-continue");
      } else if (!ends) {
        head->flags |= GYRE_HTTP_HEAD_EXPECT_CONTINUE;
      }
    }
  }
  if (!head->status && take_authority(stream, host) == 0) (void)take_target(stream);
done:
  head->fields = block->fields;
  head->field_count = block->count;
  head->section = head->status ? head->target.offset + head->target.length + 1 : 0;
}

/* `block` has the interim heads, then the final head. Each head begins with ":status". */
void gyre_http2_head_conclude_response(struct gyre_http2_stream *stream, bool ends) {
  const struct gyre_http2_block *block = &stream->block;
  int at = block->count;
  if (stream->head.status) return;
  while (at > 0 && block->text->bytes[block->fields[--at].name] != ':') continue;
  stream->heads_whole = block->count;
  stream->headed = block->text->bytes[block->fields[at].value] != '1';
  stream->in.ended = ends;
}

void gyre_http2_head_field(struct gyre_http2_stream *stream, const uint8_t *name, size_t length, const uint8_t *value,
                           size_t value_length) {
  if (stream->headed) {
    take_trailer(stream, name, length, value, value_length);
  } else if (length && name[0] == ':' && !stream->session->client) {
    take_pseudo(stream, name, length, value, value_length);
  } else {
    take_field(stream, name, length, value, value_length);
  }
}
