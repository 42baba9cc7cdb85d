/*
 * An app's headers become the head of a response: checked, framed, with date and connection. Writes
 * into the acceptor's buffer (http1_head.c); sends nothing.
 */
#include "http/http1_response_head.h"

#define OUTPUT_BYTES_KEPT 65536 /* a larger buffer was for an uncommon head, and is given back */

static void add_value(struct gyre_http1_response_head *fields, const char *name, size_t name_length, VALUE value) {
  if (!RB_TYPE_P(value, T_STRING)) {
    fields->unknown_kind = true;
    return;
  }
  const char *text = RSTRING_PTR(value);
  size_t length = (size_t)RSTRING_LEN(value);
  if (!gyre_http1_valid_value(text, length)) {
    fields->wrong = value;
    return;
  }
  gyre_http1_head_field(fields->output, name, name_length, text, length);
}

/* Whether a connection field names "close". */
static bool names_close(VALUE value) {
  if (RB_TYPE_P(value, T_ARRAY)) {
    for (long i = 0; i < RARRAY_LEN(value); i++) {
      if (RB_TYPE_P(RARRAY_AREF(value, i), T_STRING) && names_close(RARRAY_AREF(value, i))) return true;
    }
    return false;
  }
  if (!RB_TYPE_P(value, T_STRING)) return false;
  const char *text = RSTRING_PTR(value);
  long length = RSTRING_LEN(value);
  for (long begin = 0, end; begin < length; begin = end + 1) {
    for (end = begin; end < length && text[end] != ','; end++) {
    }
    long from = begin, to = end;
    while (from < to && (text[from] == ' ' || text[from] == '\t')) from++;
    while (to > from && (text[to - 1] == ' ' || text[to - 1] == '\t')) to--;
    if (gyre_http1_same_name(text + from, (size_t)(to - from), "close", 5)) return true;
  }
  return false;
}

#define IS(text) (length == sizeof(text) - 1 && gyre_http1_same_name(name, length, text, sizeof(text) - 1))

static int add_field(VALUE key, VALUE value, VALUE argument) {
  struct gyre_http1_response_head *fields = (struct gyre_http1_response_head *)argument;
  if (!RB_TYPE_P(key, T_STRING)) {
    fields->unknown_kind = true;
    return ST_STOP;
  }
  const char *name = RSTRING_PTR(key);
  size_t length = (size_t)RSTRING_LEN(key);
  if (!gyre_http1_valid_name(name, length)) {
    fields->wrong = key;
    return ST_STOP;
  }

  switch (length) {
  case 4: fields->has_date |= IS("date"); break;
  case 10:
    if (IS("connection")) {
      fields->closing |= names_close(value);
      if (!fields->own_framing) return ST_CONTINUE;
    }
    break;
  case 14:
    if (IS("content-length")) {
      fields->announced = value;
      if (!fields->own_framing) return ST_CONTINUE;
    }
    break;
  case 17:
    if (IS("transfer-encoding")) {
      fields->declined = true;
      if (!fields->own_framing) return fields->strict ? ST_STOP : ST_CONTINUE;
    }
    break;
  default: break;
  }
  if (length > 5 && gyre_http1_same_name(name, 5, "rack.", 5)) {
    if (IS("rack.hijack") || IS("rack.protocol")) fields->declined = true;
    return ST_CONTINUE;
  }

  if (RB_TYPE_P(value, T_ARRAY)) {
    for (long i = 0; i < RARRAY_LEN(value); i++) add_value(fields, name, length, RARRAY_AREF(value, i));
  } else {
    add_value(fields, name, length, value);
  }
  return NIL_P(fields->wrong) && !fields->unknown_kind ? ST_CONTINUE : ST_STOP;
}

#undef IS

void gyre_http1_response_head_fields(struct gyre_http1_response_head *fields, VALUE headers) {
  rb_hash_foreach(headers, add_field, (VALUE)fields);
  if (!NIL_P(fields->wrong)) {
    VALUE wrong = rb_inspect(fields->wrong);
    rb_raise(rb_eArgError, "%" PRIsVALUE " cannot be sent as a header's name or value", wrong);
  }
}

/* RFC 9110, section 6.5.1: what a trailer may not be. */
static bool is_no_trailer(const char *name, size_t length) {
  static const char *const names[] = {"transfer-encoding",
                                      "content-length",
                                      "connection",
                                      "host",
                                      "trailer",
                                      "content-encoding",
                                      "content-type",
                                      "content-range",
                                      "set-cookie",
                                      "authorization",
                                      "cache-control",
                                      "te",
                                      "upgrade"};
  for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
    if (gyre_http1_same_name(name, length, names[i], strlen(names[i]))) return true;
  return false;
}

static int check_trailer(VALUE key, VALUE value, VALUE argument) {
  (void)value;
  (void)argument;
  if (RB_TYPE_P(key, T_STRING) && is_no_trailer(RSTRING_PTR(key), (size_t)RSTRING_LEN(key)))
    rb_raise(rb_eArgError, "%+" PRIsVALUE " cannot be a trailer", key);
  return ST_CONTINUE;
}

void gyre_http1_response_head_trailers(struct gyre_http_exchange *exchange, struct gyre_http1_buffer *output) {
  if (NIL_P(exchange->response_trailers)) return;
  struct gyre_http1_response_head fields = {.exchange = exchange, .output = output, .announced = Qnil, .wrong = Qnil};
  rb_hash_foreach(exchange->response_trailers, check_trailer, Qnil);
  gyre_http1_response_head_fields(&fields, exchange->response_trailers);
  if (fields.unknown_kind) rb_raise(rb_eArgError, "a trailer's name and value must be Strings");
}

void gyre_http1_response_head_text(struct gyre_http1_buffer *output, const char *text) {
  gyre_http1_buffer_append(output, text, strlen(text));
}

void gyre_http1_response_head_length(struct gyre_http1_buffer *output, uint64_t length) {
  gyre_http1_response_head_text(output, "content-length: ");
  gyre_http1_buffer_number(output, length);
  gyre_http1_response_head_text(output, "\r\n");
}

/* Date, connection and the blank line. Decides at last whether the connection is kept. */
void gyre_http1_response_head_end(struct gyre_http1_response_head *fields) {
  struct gyre_http1_buffer *output = fields->output;
  struct gyre_http1_connection *connection = fields->exchange->connection;
  if (fields->closing || connection->acceptor->draining) connection->keep_alive = false;
  if (!fields->has_date) gyre_http1_head_date(output, &connection->acceptor->date);
  if (fields->own_framing) {
    connection->keep_alive = false;
  } else if (!connection->keep_alive) {
    gyre_http1_response_head_text(output, "connection: close\r\n");
  } else if (fields->exchange->http_1_0) {
    gyre_http1_response_head_text(output, "connection: keep-alive\r\n");
  }
  gyre_http1_response_head_text(output, "\r\n");
  if (output->failed) rb_memerror();
}

struct gyre_http1_buffer *gyre_http1_response_head_begin(struct gyre_http_exchange *exchange) {
  struct gyre_http1_buffer *output = &exchange->connection->acceptor->output;
  if (output->capacity > OUTPUT_BYTES_KEPT) gyre_http1_buffer_free(output); /* an uncommon head was here */
  output->length = 0;
  output->failed = false;
  return output;
}

/* A number of only digits, or -1. */
static int64_t parse_length(VALUE value) {
  if (!RB_TYPE_P(value, T_STRING) || RSTRING_LEN(value) == 0 || RSTRING_LEN(value) > 18) return -1;
  int64_t length = 0;
  for (long i = 0; i < RSTRING_LEN(value); i++) {
    char c = RSTRING_PTR(value)[i];
    if (c < '0' || c > '9') return -1;
    length = length * 10 + (c - '0');
  }
  return length;
}

bool gyre_http1_response_head_whole(struct gyre_http1_response_head *head, struct gyre_http_exchange *exchange,
                                    VALUE status, VALUE headers, VALUE body) {
  if (exchange->head_sent || !FIXNUM_P(status) || !RB_TYPE_P(headers, T_HASH) || !RB_TYPE_P(body, T_ARRAY))
    return false;
  int code = FIX2INT(status);
  if (code < 200 || code > 599) return false;
  if (code < 300 && exchange->method == GYRE_HTTP1_METHOD_CONNECT) return false; /* a tunnel, and no body */

  uint64_t length = 0;
  for (long i = 0; i < RARRAY_LEN(body); i++) {
    VALUE part = RARRAY_AREF(body, i);
    if (!RB_TYPE_P(part, T_STRING)) return false;
    length += (uint64_t)RSTRING_LEN(part);
  }

  struct gyre_http1_buffer *output = gyre_http1_response_head_begin(exchange);
  *head = (struct gyre_http1_response_head){.exchange = exchange,
                                            .output = output,
                                            .announced = Qnil,
                                            .wrong = Qnil,
                                            .strict = true,
                                            .status = code,
                                            .no_body = exchange->head_only || code == 204 || code == 304,
                                            .length = length};
  if (!exchange->stream) gyre_http1_head_status(output, code);
  gyre_http1_response_head_fields(head, headers);
  if (head->declined || head->unknown_kind) return false;

  int64_t announced = NIL_P(head->announced) ? -1 : parse_length(head->announced);
  if (!NIL_P(head->announced) && announced < 0) return false;
  if (announced >= 0 && !head->no_body && (uint64_t)announced != length) return false;
  if (code == 304) {
    if (announced >= 0) gyre_http1_response_head_length(output, (uint64_t)announced);
  } else if (code != 204 && (announced >= 0 || !exchange->head_only || length > 0)) {
    gyre_http1_response_head_length(output, announced >= 0 ? (uint64_t)announced : length);
  }
  return true;
}
