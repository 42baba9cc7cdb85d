/* Makes a response's head from the app's headers: checks them, adds framing, date and connection.
 * Writes into the acceptor's buffer (buffer.c); sends nothing. */
#include "http/response_head.h"

#define OUTPUT_BYTES_KEPT 65536 /* larger buffers are freed */

static void add_value(struct gyre_http_response_head *fields, const char *name, size_t name_length, VALUE value) {
  if (!RB_TYPE_P(value, T_STRING)) {
    fields->unknown_kind = true;
    return;
  }
  const char *text = RSTRING_PTR(value);
  size_t length = (size_t)RSTRING_LEN(value);
  if (!gyre_http_is_value(text, length)) {
    fields->wrong = value;
    return;
  }
  gyre_http_buffer_field(fields->output, name, name_length, text, length);
}

/* True if the value of a Connection field contains "close". */
static bool names_close(VALUE value) {
  if (RB_TYPE_P(value, T_ARRAY)) {
    for (long i = 0; i < RARRAY_LEN(value); i++) {
      if (RB_TYPE_P(RARRAY_AREF(value, i), T_STRING) && names_close(RARRAY_AREF(value, i))) return true;
    }
    return false;
  }
  if (!RB_TYPE_P(value, T_STRING)) return false;
  const char *at = RSTRING_PTR(value), *end = at + RSTRING_LEN(value), *element;
  size_t length;
  while (gyre_http_next_element(&at, end, &element, &length)) {
    if (gyre_http_same_name(element, length, "close", 5)) return true;
  }
  return false;
}

#define IS(text) (length == sizeof(text) - 1 && gyre_http_same_name(name, length, text, sizeof(text) - 1))

static int add_field(VALUE key, VALUE value, VALUE argument) {
  struct gyre_http_response_head *fields = (struct gyre_http_response_head *)argument;
  if (!RB_TYPE_P(key, T_STRING)) {
    fields->unknown_kind = true;
    return ST_STOP;
  }
  const char *name = RSTRING_PTR(key);
  size_t length = (size_t)RSTRING_LEN(key);
  if (!gyre_http_is_name(name, length)) {
    fields->wrong = key;
    return ST_STOP;
  }

  fields->has_date |= IS("date");
  if (IS("connection")) {
    fields->closing |= names_close(value);
    if (!fields->own_framing) return ST_CONTINUE;
  }
  if (IS("content-length")) {
    fields->announced = value;
    if (!fields->own_framing) return ST_CONTINUE;
  }
  if (IS("transfer-encoding")) {
    fields->declined = true;
    if (!fields->own_framing) return fields->strict ? ST_STOP : ST_CONTINUE;
  }
  if (length > 5 && gyre_http_same_name(name, 5, "rack.", 5)) {
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

void gyre_http_response_head_fields(struct gyre_http_response_head *fields, VALUE headers) {
  rb_hash_foreach(headers, add_field, (VALUE)fields);
  if (!NIL_P(fields->wrong)) {
    VALUE wrong = rb_inspect(fields->wrong);
    rb_raise(rb_eArgError, "%" PRIsVALUE " cannot be sent as a header's name or value", wrong);
  }
}

static int check_trailer(VALUE key, VALUE value, VALUE argument) {
  if (RB_TYPE_P(key, T_STRING) && gyre_http_is_no_trailer(RSTRING_PTR(key), (size_t)RSTRING_LEN(key)))
    rb_raise(rb_eArgError, "%+" PRIsVALUE " cannot be a trailer", key);
  return ST_CONTINUE;
}

struct gyre_http_buffer *gyre_http_response_head_trailers(struct gyre_http_exchange *exchange, const char *before) {
  struct gyre_http_response_head fields = gyre_http_response_head_begin(exchange, 0);
  gyre_http_buffer_text(fields.output, before);
  if (NIL_P(exchange->response_trailers)) return fields.output;
  rb_hash_foreach(exchange->response_trailers, check_trailer, Qnil);
  gyre_http_response_head_fields(&fields, exchange->response_trailers);
  if (fields.unknown_kind) rb_raise(rb_eArgError, "a trailer's name and value must be Strings");
  return fields.output;
}

struct gyre_http_response_head gyre_http_response_head_begin(struct gyre_http_exchange *exchange, int status) {
  struct gyre_http_buffer *output = &exchange->connection->acceptor->output;
  if (output->capacity > OUTPUT_BYTES_KEPT) gyre_http_buffer_free(output); /* held a large head */
  output->length = 0;
  output->failed = false;
  if (status && exchange->operations->begin_head) exchange->operations->begin_head(output, status);
  return (struct gyre_http_response_head){
      .exchange = exchange, .output = output, .announced = Qnil, .wrong = Qnil, .status = status};
}

bool gyre_http_response_head_whole(struct gyre_http_response_head *head, struct gyre_http_exchange *exchange,
                                   VALUE status, VALUE headers, VALUE body) {
  if (exchange->response.status || !FIXNUM_P(status) || !RB_TYPE_P(headers, T_HASH) || !RB_TYPE_P(body, T_ARRAY))
    return false;
  int code = FIX2INT(status);
  if (code < 200 || code > 599) return false;
  if (code < 300 && exchange->method == GYRE_HTTP_METHOD_CONNECT) return false; /* a tunnel has no body */

  uint64_t length = 0;
  for (long i = 0; i < RARRAY_LEN(body); i++) {
    VALUE part = RARRAY_AREF(body, i);
    if (!RB_TYPE_P(part, T_STRING)) return false;
    length += (uint64_t)RSTRING_LEN(part);
  }

  *head = gyre_http_response_head_begin(exchange, code);
  struct gyre_http_buffer *output = head->output;
  head->strict = true;
  head->no_body = exchange->head_only || code == 204 || code == 304;
  head->length = length;
  gyre_http_response_head_fields(head, headers);
  if (head->declined || head->unknown_kind) return false;

  int64_t announced = -1;
  if (RB_TYPE_P(head->announced, T_STRING))
    announced = gyre_http_number(RSTRING_PTR(head->announced), (size_t)RSTRING_LEN(head->announced));
  if (!NIL_P(head->announced) && announced < 0) return false;
  if (announced >= 0 && !head->no_body && (uint64_t)announced != length) return false;
  if (code == 304) {
    if (announced >= 0) gyre_http_buffer_length(output, (uint64_t)announced);
  } else if (code != 204 && (announced >= 0 || !exchange->head_only || length > 0)) {
    gyre_http_buffer_length(output, announced >= 0 ? (uint64_t)announced : length);
  }
  return true;
}
