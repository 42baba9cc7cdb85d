/* Gyre::HTTP::Client::H1Connection: sends one request at a time over a Gyre::Transport
 * (lib/gyre/http/client/h1_connection.rb). A partly parsed head is on the caller's stack. Never
 * repeats a request. */
#include "http/client_limits.h"
#include "http/exchange.h"
#include "http/h1/chunked.h"
#include "http/h1/reply.h"
#include "net/net.h"
#include "net/socket_wait.h"
#include "net/transport_object.h"

#include <errno.h>
#include <string.h>

#define HEAD_BYTES 2048 /* longest request head that is built on the stack */
#define FIELDS_LIMIT 256
#define LINE_BYTES_LIMIT 8192
#define TRAILER_BYTES_LIMIT 16384
#define PIECE_BYTES_MIN 16384
#define PIECE_BYTES_MAX 262144

struct client {
  VALUE transport, trailers;
  VALUE headers; /* packed, or nil */
  VALUE spare;   /* memory for a later piece, or nil */
  union {
    int64_t head_until_ns;
    struct gyre_http1_chunked chunks;
    int64_t remaining; /* bytes left of a body with a length */
  };
  int64_t until_ns; /* when the request or the idle time must end; negative: no limit */
  struct gyre_http_client_limits limits;
  uint32_t piece_bytes; /* size of the body's next read; doubled after a read that was full */
  uint16_t status : 10;
  uint16_t body : 2; /* enum gyre_http1_reply_body */
  uint8_t method;
  bool over : 1, keep_alive : 1;
  bool answered : 1; /* a byte of the response has come */
  bool sent : 1;     /* the whole request was sent */
};

static void client_mark(void *opaque) {
  struct client *client = opaque;
  GYRE_MARK(client->transport, client->headers, client->trailers, client->spare);
}

GYRE_TYPE(client_type, "Gyre::HTTP::Client::H1Connection", client_mark, RUBY_DEFAULT_FREE, NULL,
          RUBY_TYPED_FREE_IMMEDIATELY);

static VALUE client_allocate(VALUE class) {
  struct client *client;
  VALUE self = TypedData_Make_Struct(class, struct client, &client_type, client);
  client->transport = client->headers = client->trailers = client->spare = Qnil;
  client->over = client->keep_alive = true;
  return self;
}

static struct client *get(VALUE self) {
  struct client *client = rb_check_typeddata(self, &client_type);
  if (NIL_P(client->transport)) rb_raise(rb_eIOError, "uninitialized connection");
  return client;
}

NORETURN(static void protocol_error(const struct gyre_transport_object *object, const char *reason));
static void protocol_error(const struct gyre_transport_object *object, const char *reason) {
  rb_raise(rb_path2class("Gyre::ProtocolError"), "%" PRIsVALUE " sent %s", object->peer, reason);
}

NORETURN(static void cut(const struct gyre_transport_object *object, const char *where));
static void cut(const struct gyre_transport_object *object, const char *where) {
  rb_raise(rb_eEOFError, "%" PRIsVALUE " closed the connection %s", object->peer, where);
}

/* Waits until `side` is ready, within the limits of the step and the request. */
static struct gyre_transport_object *await(struct client *client, struct gyre_transport_object *object,
                                           const struct gyre_side *side, enum gyre_http_client_step step) {
  unsigned wants = side->wants;
  const struct gyre_transport *transport = &object->transport;
  if (transport->operations->held && transport->operations->held(transport)) wants |= GYRE_WRITABLE;
  const int64_t now_ns = gyre_socket_now(), limit_ns = (int64_t)client->limits.ns[step];
  int64_t until_ns = limit_ns < 0                      ? INT64_MAX
                     : step == GYRE_CLIENT_AWAITS_HEAD ? client->head_until_ns
                                                       : now_ns + limit_ns;
  bool whole = client->until_ns >= 0 && client->until_ns < until_ns;
  if (whole) until_ns = client->until_ns;
  int64_t left_ns = until_ns == INT64_MAX ? -1 : until_ns > now_ns ? until_ns - now_ns : 0;
  bool ready = gyre_socket_wait(object->io, transport->fd, wants, left_ns);
  object = gyre_transport_object_get(client->transport);
  if (!ready) gyre_http_client_time_out(object->peer, step, whole ? -1 : limit_ns);
  return object;
}

/* Receives into *bytes. If *bytes is NULL, sets it to lent memory; if `bytes` is NULL, receives
 * into the transport's input. Returns 0 at the end. Asks for lent memory again after a wait,
 * because a Ractor may wake in another native thread. */
static size_t receive(struct client *client, char **bytes, size_t most, enum gyre_http_client_step step) {
  struct gyre_transport_object *object = gyre_transport_object_get(client->transport);
  bool waited = false, lent = bytes && !*bytes;
  for (;;) {
    struct gyre_transport *transport = &object->transport;
    ssize_t count = -EAGAIN;
    if (lent && !(*bytes = gyre_lent_plain())) rb_memerror();
    if (waited || !gyre_transport_object_is_drained(object))
      count = bytes ? gyre_transport_receive(transport, *bytes, most) : gyre_transport_fill(transport);
    if (count > 0 && gyre_transport_emptied(transport, (size_t)count, bytes ? most : GYRE_LENT_BYTES))
      gyre_socket_drained(object->io, transport->fd, GYRE_READABLE);
    client->answered |= count > 0;
    if (count >= 0) return (size_t)count;
    /* TLS must end with close_notify only if the body ends with the connection. */
    if (count == GYRE_TRUNCATED && client->body != GYRE_REPLY_UNTIL_CLOSE) return 0;
    if (count != -EAGAIN) gyre_transport_object_fail(object, (int)count, gyre_http_client_steps[step]);
    object = await(client, object, &transport->read, step);
    waited = true;
  }
}

/* Returns 0, or -errno if the peer takes no more bytes. The peer may still have responded. */
static int send_pieces(struct client *client, struct iovec *pieces, int count) {
  struct gyre_transport_object *object = gyre_transport_object_get(client->transport);
  for (;;) {
    for (; count > 0 && pieces->iov_len == 0; pieces++) count--;
    if (count == 0 && gyre_transport_unsent(&object->transport) == 0) return 0;
    ssize_t sent =
        count > 0 ? gyre_transport_sendv(&object->transport, pieces, count) : gyre_transport_flush(&object->transport);
    if (sent == -EPIPE || sent == -ECONNRESET) return (int)sent;
    if (sent < 0 && sent != -EAGAIN) gyre_transport_object_fail(object, (int)sent, "send to");
    if (sent == -EAGAIN) object = await(client, object, &object->transport.write, GYRE_CLIENT_SENDS);
    for (int i = 0; i < count && sent > 0; i++) {
      size_t part = (size_t)sent < pieces[i].iov_len ? (size_t)sent : pieces[i].iov_len;
      pieces[i].iov_base = (char *)pieces[i].iov_base + part;
      pieces[i].iov_len -= part;
      sent -= (ssize_t)part;
    }
  }
}

/* A head's text: on the caller's stack, or in a hidden String. */
struct text {
  char *bytes;
  size_t length, capacity;
  VALUE memory;
  bool has_length, has_coding;
  bool streams; /* the body follows in pieces; only then is the app's content-length used */
};

static void append(struct text *text, const char *bytes, size_t length) {
  if (length > text->capacity - text->length) {
    size_t capacity = (text->length + length) * 2;
    VALUE memory = rb_str_tmp_new((long)capacity);
    memcpy(RSTRING_PTR(memory), text->bytes, text->length);
    text->memory = memory;
    text->bytes = RSTRING_PTR(memory);
    text->capacity = capacity;
  }
  memcpy(text->bytes + text->length, bytes, length);
  text->length += length;
}

#define APPEND(text, literal) append(text, literal, sizeof(literal) - 1)

static void append_line(struct text *text, VALUE name, VALUE value) {
  append(text, RSTRING_PTR(name), (size_t)RSTRING_LEN(name));
  APPEND(text, ": ");
  append(text, RSTRING_PTR(value), (size_t)RSTRING_LEN(value));
  APPEND(text, "\r\n");
}

static int append_field(VALUE name, VALUE value, VALUE argument) {
  struct text *text = (struct text *)argument;
  gyre_http_check_field(name, value, Qnil);
  const char *bytes = RSTRING_PTR(name);
  size_t length = (size_t)RSTRING_LEN(name);
  bool is_length = gyre_http_same_name(bytes, length, "content-length", 14);
  if (is_length && !text->streams) return ST_CONTINUE; /* append_framing adds it */
  text->has_length |= is_length;
  text->has_coding |= gyre_http_same_name(bytes, length, "transfer-encoding", 17);
  if (!RB_TYPE_P(value, T_ARRAY)) {
    append_line(text, name, value);
    return ST_CONTINUE;
  }
  for (long i = 0; i < RARRAY_LEN(value); i++) append_line(text, name, RARRAY_AREF(value, i));
  return ST_CONTINUE;
}

static void append_first_line(struct text *text, VALUE method, VALUE target) {
  gyre_http_check_request(method, target);
  append(text, RSTRING_PTR(method), (size_t)RSTRING_LEN(method));
  APPEND(text, " ");
  append(text, RSTRING_PTR(target), (size_t)RSTRING_LEN(target));
  APPEND(text, " HTTP/1.1\r\n");
}

/* Frames the body: a String by its length, a stream (true) by chunks or the app's
 * content-length. */
static void append_framing(struct text *text, VALUE body, uint8_t method) {
  if (text->has_coding) rb_raise(rb_eArgError, "header transfer-encoding: the client sets it by itself");
  if (!text->has_length && body == Qtrue) {
    APPEND(text, "transfer-encoding: chunked\r\n");
  } else if (!text->has_length && (!NIL_P(body) || method == GYRE_HTTP_METHOD_POST || method == GYRE_HTTP_METHOD_PUT ||
                                   method == GYRE_HTTP_METHOD_PATCH)) {
    char line[48];
    int length = snprintf(line, sizeof(line), "content-length: %ld\r\n", NIL_P(body) ? 0 : RSTRING_LEN(body));
    append(text, line, (size_t)length);
  }
  APPEND(text, "\r\n");
}

/* Sends a head, and the body if it is a String; `body` is true if pieces follow. Returns false if
 * the peer takes no more. */
static VALUE client_send(VALUE self, VALUE method, VALUE target, VALUE headers, VALUE body, VALUE until) {
  struct client *client = get(self);
  char bytes[HEAD_BYTES];
  struct text text = {.bytes = bytes, .capacity = sizeof(bytes), .memory = Qnil, .streams = body == Qtrue};
  if (!client->over) rb_raise(rb_eIOError, "the connection carries another request");
  Check_Type(headers, T_HASH);
  append_first_line(&text, method, target);
  client->method = gyre_http_method_number(RSTRING_PTR(method), (size_t)RSTRING_LEN(method));
  rb_hash_foreach(headers, append_field, (VALUE)&text);
  if (!NIL_P(body) && body != Qtrue) body = rb_str_new_frozen(StringValue(body));
  append_framing(&text, body, client->method);
  client->until_ns = NIL_P(until) ? -1 : (int64_t)(NUM2DBL(until) * 1e9);
  client->over = client->keep_alive = client->answered = false;
  client->sent = body != Qtrue;
  client->status = 0;
  client->body = GYRE_REPLY_NONE;
  client->trailers = Qnil;
  struct iovec pieces[] = {{text.bytes, text.length}, {NULL, 0}};
  if (RB_TYPE_P(body, T_STRING)) pieces[1] = (struct iovec){RSTRING_PTR(body), (size_t)RSTRING_LEN(body)};
  int error = send_pieces(client, pieces, 2);
  RB_GC_GUARD(text.memory);
  RB_GC_GUARD(body);
  return error < 0 ? Qfalse : Qtrue;
}

/* Sends a piece of the body, as a chunk if `chunked`; nil ends the body. Returns false if the peer
 * has responded or takes no more. */
static VALUE client_send_piece(VALUE self, VALUE piece, VALUE chunked) {
  struct client *client = get(self);
  struct gyre_transport_object *object = gyre_transport_object_get(client->transport);
  char size[24];
  if (NIL_P(piece) && !RTEST(chunked)) return client->sent = true, Qtrue;
  gyre_socket_give_way();
  object = gyre_transport_object_get(client->transport);
  if (!gyre_transport_object_is_drained(object) && gyre_transport_input_waits(&object->transport)) return Qfalse;
  if (!NIL_P(piece)) piece = rb_str_new_frozen(StringValue(piece));
  size_t length = NIL_P(piece) ? 0 : (size_t)RSTRING_LEN(piece);
  if (!NIL_P(piece) && length == 0) return Qtrue;
  struct iovec pieces[] = {{size, 0}, {NULL, 0}, {(char *)"\r\n", RTEST(chunked) ? 2 : 0}};
  if (RTEST(chunked)) pieces[0].iov_len = (size_t)snprintf(size, sizeof(size), "%zx\r\n", length);
  if (length) pieces[1] = (struct iovec){RSTRING_PTR(piece), length};
  int error = send_pieces(client, pieces, 3);
  client->sent = NIL_P(piece) && error == 0;
  RB_GC_GUARD(piece);
  return error < 0 ? Qfalse : Qtrue;
}

static void take_head(VALUE self, struct client *client, const struct gyre_http_head *head, const char *bytes) {
  RB_OBJ_WRITE(self, &client->headers, gyre_http_pack_fields(head, bytes, head->position));
  client->status = head->status;
  if (head->status < 200 && head->status != 101) return;
  client->body = (uint8_t)gyre_http1_reply_body(head, client->method);
  client->over = client->body == GYRE_REPLY_NONE;
  client->keep_alive = client->sent && (head->flags & GYRE_HTTP_HEAD_KEEP_ALIVE) &&
                       client->body != GYRE_REPLY_UNTIL_CLOSE && head->status != 101;
  client->remaining = head->content_length;
  client->piece_bytes = PIECE_BYTES_MIN;
  if (client->body == GYRE_REPLY_CHUNKED) gyre_http1_chunked_reset(&client->chunks);
}

/* Returns the status of the next head, interim or final. If a head comes in one piece, parses it in
 * lent memory and keeps only the bytes after it. */
static VALUE client_receive_head(VALUE self) {
  struct client *client = get(self);
  struct gyre_http_field fields[FIELDS_LIMIT];
  struct gyre_http_head head;
  const struct gyre_http_head_limits limits = {LINE_BYTES_LIMIT, client->limits.header_bytes,
                                               client->limits.header_count};
  char *lent = NULL;
  size_t received = 0; /* bytes in lent memory */
  client->head_until_ns = gyre_socket_now() + (int64_t)client->limits.ns[GYRE_CLIENT_AWAITS_HEAD];
  gyre_http1_head_reset(&head, fields, FIELDS_LIMIT);
  for (;;) {
    struct gyre_transport_object *object = gyre_transport_object_get(client->transport);
    struct gyre_transport *transport = &object->transport;
    const char *bytes = received ? lent : gyre_transport_input(transport);
    size_t available = received ? received : gyre_transport_available(transport);
    int length = bytes ? gyre_http1_reply_parse(&head, bytes, available, &limits) : 0;
    if (length < 0) protocol_error(object, head.reason);
    if (length > 0) take_head(self, client, &head, bytes);
    if (received && gyre_transport_keep(transport, lent + length, received - (size_t)length) < 0) rb_memerror();
    if (!received) gyre_transport_consume(transport, (size_t)length);
    if (length > 0) return UINT2NUM(client->status);
    bool begun = gyre_transport_available(transport) > 0;
    lent = NULL;
    received = receive(client, begun ? NULL : &lent, GYRE_LENT_BYTES, GYRE_CLIENT_AWAITS_HEAD);
    if (!received) cut(object, begun ? "within the head of its response" : "before its response");
    if (begun) received = 0;
  }
}

static VALUE read_trailers(VALUE self, struct client *client) {
  struct gyre_http_field fields[FIELDS_LIMIT];
  struct gyre_http_head trailers;
  const struct gyre_http_head_limits limits = {0, TRAILER_BYTES_LIMIT, client->limits.header_count};
  gyre_http1_trailers_reset(&trailers, fields, FIELDS_LIMIT);
  for (;;) {
    struct gyre_transport_object *object = gyre_transport_object_get(client->transport);
    const char *bytes = gyre_transport_input(&object->transport);
    int length =
        bytes ? gyre_http1_trailers_parse(&trailers, bytes, gyre_transport_available(&object->transport), &limits) : 0;
    if (length < 0) protocol_error(object, trailers.reason);
    if (length > 0) {
      if (trailers.field_count) RB_OBJ_WRITE(self, &client->trailers, gyre_http_field_hash(&trailers, bytes));
      gyre_transport_consume(&object->transport, (size_t)length);
      client->over = true;
      return Qnil;
    }
    if (receive(client, NULL, 0, GYRE_CLIENT_RECEIVES) == 0) cut(object, "within the body of its response");
  }
}

static VALUE read_chunked(VALUE self, struct client *client) {
  for (;;) {
    struct gyre_transport_object *object = gyre_transport_object_get(client->transport);
    struct gyre_transport *transport = &object->transport;
    size_t available = gyre_transport_available(transport), consumed = 0, length = 0;
    const char *data = NULL;
    switch (gyre_http1_chunked_step(&client->chunks, gyre_transport_input(transport), available, &consumed, &data,
                                    &length)) {
    case GYRE_HTTP1_CHUNKED_DATA: {
      VALUE piece = rb_str_new(data, (long)length);
      gyre_transport_consume(transport, consumed);
      return piece;
    }
    case GYRE_HTTP1_CHUNKED_TRAILERS: gyre_transport_consume(transport, consumed); return read_trailers(self, client);
    case GYRE_HTTP1_CHUNKED_MORE:
      gyre_transport_consume(transport, consumed);
      if (receive(client, NULL, 0, GYRE_CLIENT_RECEIVES) == 0) cut(object, "within the body of its response");
      break;
    default: protocol_error(object, client->chunks.reason);
    }
  }
}

/* Returns a String for a piece. Keeps the String at the highest address as spare. If it were freed,
 * the heap's end would go back to the kernel, and each page of the next piece would cost a
 * fault. */
static VALUE new_piece(VALUE self, struct client *client, size_t most) {
  VALUE piece = rb_str_buf_new((long)most), spare = client->spare;
  if (most < PIECE_BYTES_MAX || (!NIL_P(spare) && RSTRING_PTR(piece) < RSTRING_PTR(spare))) return piece;
  RB_OBJ_WRITE(self, &client->spare, rb_obj_hide(piece));
  return NIL_P(spare) ? new_piece(self, client, most) : rb_obj_reveal(spare, rb_cString);
}

/* Receives into the piece's own memory. */
static VALUE read_plain(VALUE self, struct client *client) {
  struct gyre_transport_object *object = gyre_transport_object_get(client->transport);
  bool sized = client->body == GYRE_REPLY_LENGTH;
  size_t most = client->piece_bytes;
  if (sized && (int64_t)most > client->remaining) most = (size_t)client->remaining;
  size_t length = gyre_transport_available(&object->transport);
  VALUE piece;
  if (length > 0) {
    if (length > most) length = most;
    piece = gyre_transport_object_take(object, length);
  } else {
    piece = new_piece(self, client, most);
    char *bytes = RSTRING_PTR(piece);
    length = receive(client, &bytes, most, GYRE_CLIENT_RECEIVES);
    rb_str_set_len(piece, (long)length);
    if (length == client->piece_bytes && length < PIECE_BYTES_MAX) client->piece_bytes *= 2;
    if (length < most / 4) {
      rb_str_resize(piece, (long)length); /* gives the rest of its memory back */
      if (client->piece_bytes > PIECE_BYTES_MIN) client->piece_bytes /= 2;
    }
  }
  if (length == 0 && sized) cut(object, "within the body of its response");
  if (sized) client->remaining -= (int64_t)length;
  client->over = sized ? client->remaining == 0 : length == 0;
  return length ? piece : Qnil;
}

/* Returns the body's next piece; nil at the end. */
static VALUE client_read(VALUE self) {
  struct client *client = get(self);
  if (client->over) return Qnil;
  gyre_socket_give_way();
  return client->body == GYRE_REPLY_CHUNKED ? read_chunked(self, client) : read_plain(self, client);
}

/* True if the connection may be kept. Makes no system call. */
static bool is_kept(const struct client *client, const struct gyre_transport *transport) {
  return client->over && client->keep_alive && transport->fd >= 0 && transport->read.state == GYRE_SIDE_OPEN &&
         !gyre_transport_available(transport);
}

/* True if another request may begin: neither a byte nor an end has come. Reads from the socket,
 * unless `lately` is true and the loop has looked within the last millisecond. */
static VALUE client_is_ready(VALUE self, VALUE lately) {
  struct client *client = get(self);
  struct gyre_transport_object *object = gyre_transport_object_get(client->transport);
  struct gyre_transport *transport = &object->transport;
  if (!is_kept(client, transport)) return Qfalse;
  if (client->until_ns >= 0 && gyre_socket_now() > client->until_ns) return Qfalse;
  if (RTEST(lately) && gyre_socket_looked_lately() && gyre_transport_object_is_drained(object)) return Qtrue;
  char byte;
  return gyre_transport_receive(transport, &byte, 1) == -EAGAIN ? Qtrue : Qfalse;
}

/* Begins the idle time. Returns false if no other request may begin. */
static VALUE client_rest(VALUE self) {
  struct client *client = get(self);
  client->until_ns = client->limits.keep_ns < 0 ? -1 : gyre_socket_now() + (int64_t)client->limits.keep_ns;
  client->headers = client->trailers = Qnil;
  return is_kept(client, gyre_transport_of(client->transport)) ? Qtrue : Qfalse;
}

static VALUE client_status(VALUE self) { return UINT2NUM(get(self)->status); }
static VALUE client_head(VALUE self) { return get(self)->headers; }

static VALUE client_headers(VALUE self) { return gyre_http_unpack_fields(get(self)->headers); }

static VALUE client_fields(VALUE class, VALUE packed) {
  (void)class;
  return gyre_http_unpack_fields(packed);
}

static VALUE client_trailers(VALUE self) { return get(self)->trailers; }
static VALUE client_is_over(VALUE self) { return get(self)->over ? Qtrue : Qfalse; }
static VALUE client_transport(VALUE self) { return get(self)->transport; }
static VALUE client_is_answered(VALUE self) { return get(self)->answered ? Qtrue : Qfalse; }

static VALUE client_initialize(VALUE self, VALUE transport, VALUE limits) {
  struct client *client = rb_check_typeddata(self, &client_type);
  gyre_transport_object_get(transport); /* checks it */
  client->limits = gyre_http_client_limits(limits);
  RB_OBJ_WRITE(self, &client->transport, transport);
  return self;
}

void gyre_init_http1_client(void) {
  VALUE http = rb_define_module_under(gyre_mGyre, "HTTP");
  VALUE outer = rb_define_class_under(http, "Client", rb_cObject);
  VALUE class = rb_define_class_under(outer, "H1Connection", rb_cObject);
  rb_define_alloc_func(class, client_allocate);
  rb_define_singleton_method(class, "fields", client_fields, 1);
  rb_define_method(class, "initialize", client_initialize, 2);
  rb_define_method(class, "status", client_status, 0);
  rb_define_method(class, "head", client_head, 0);
  rb_define_method(class, "headers", client_headers, 0);
  rb_define_method(class, "trailers", client_trailers, 0);
  rb_define_method(class, "read", client_read, 0);
  rb_define_method(class, "over?", client_is_over, 0);
  rb_define_method(class, "used?", client_is_answered, 0);
  rb_define_method(class, "ready?", client_is_ready, 1);
  rb_define_method(class, "rest", client_rest, 0);
  rb_define_method(class, "transport", client_transport, 0);
  rb_define_private_method(class, "send_request", client_send, 5);
  rb_define_private_method(class, "send_piece", client_send_piece, 2);
  rb_define_method(class, "receive_head", client_receive_head, 0);
  rb_define_private_method(class, "answered?", client_is_answered, 0);
}
