/* Gyre::HTTP::Client::H1Connection: sends one request at a time over a Gyre::Transport
 * (lib/gyre/http/client/h1_connection.rb). Receives while it sends, whatever the body is: only a
 * final head ends an upload. Never repeats a request.
 *
 *   IDLE --begin--> SENDING --all is sent--> AWAITING --final head--> RECEIVING --body's end--> IDLE
 *                      \---final head: the rest stays unsent, and the connection---^
 *                           is not kept
 *
 * The caller is told of an interim head (1xx), which changes no state. */
#include "http/client_limits.h"
#include "http/exchange.h"
#include "http/h1/chunked.h"
#include "http/h1/reply.h"
#include "net/net.h"
#include "net/socket_wait.h"
#include "net/transport_object.h"

#include <ruby/io.h>

#define HEAD_BYTES 2048 /* longest request head that is built on the stack */
#define FIELDS_LIMIT 256
#define LINE_BYTES_LIMIT 8192
#define TRAILER_BYTES_LIMIT 16384
#define PIECE_BYTES_MIN 16384
#define PIECE_BYTES_MAX 262144
#define FILE_PIECE_BYTES (1 << 20)
#define INTERIM_LIMIT 16
/* Time to wait for a 100: the server may ignore Expect (RFC 9110, section 10.1.1). */
#define CONTINUE_NS INT64_C(1000000000)
#define KEEP_MARGIN_S 1 /* a connection is left so long before the server's own time is over */

enum state { IDLE, SENDING, AWAITING, RECEIVING };

struct client {
  VALUE transport, trailers;
  VALUE interim; /* gets status and headers of interim responses, or nil */
  VALUE headers; /* packed, or nil */
  VALUE spare;   /* memory for a later piece, or nil */
  union {
    struct gyre_http1_chunked chunks;
    int64_t remaining; /* bytes left of a body with a length */
  };
  int64_t until_ns;       /* when the request or the idle time must end; negative: no limit */
  int64_t piece_until_ns; /* when the next piece of the body must be there; negative: no limit */
  struct gyre_http_client_limits limits;
  float keep_ns;        /* longest idle time after this response; negative: no limit */
  uint32_t piece_bytes; /* size of the body's next read; doubled after a read that was full */
  uint16_t status : 10;
  uint16_t body : 2; /* enum gyre_http1_reply_body */
  uint8_t method;
  uint8_t state;    /* enum state */
  uint8_t interims; /* number of interim heads */
  bool keep_alive : 1;
  bool answered : 1;  /* a byte of the response has come */
  bool continued : 1; /* a 100 has come */
};

GYRE_MARKER(client_mark, struct client, own->transport, own->headers, own->trailers, own->spare, own->interim)

GYRE_TYPE(client_type, "Gyre::HTTP::Client::H1Connection", client_mark, RUBY_DEFAULT_FREE, NULL,
          RUBY_TYPED_FREE_IMMEDIATELY);

static VALUE client_allocate(VALUE class) {
  struct client *client;
  VALUE self = TypedData_Make_Struct(class, struct client, &client_type, client);
  client->transport = client->headers = client->trailers = client->spare = client->interim = Qnil;
  client->keep_alive = true;
  return self;
}

static struct client *get(VALUE self) {
  struct client *client = rb_check_typeddata(self, &client_type);
  if (NIL_P(client->transport)) rb_raise(rb_eIOError, "uninitialized connection");
  return client;
}

_Noreturn static void protocol_error(const struct gyre_transport_object *object, const char *reason) {
  rb_raise(rb_path2class("Gyre::ProtocolError"), "%" PRIsVALUE " sent %s", object->peer, reason);
}

_Noreturn static void cut(const struct gyre_transport_object *object, const char *where) {
  rb_raise(rb_eEOFError, "%" PRIsVALUE " closed the connection %s", object->peer, where);
}

/* Waits until one of the events is ready, within the limits of the step, which began at `since_ns`,
 * and of the request. */
static struct gyre_transport_object *await(struct client *client, struct gyre_transport_object *object, unsigned wants,
                                           enum gyre_http_client_step step, int64_t since_ns) {
  const struct gyre_transport *transport = &object->transport;
  if (transport->operations->held && transport->operations->held(transport)) wants |= GYRE_WRITABLE;
  const int64_t now_ns = gyre_socket_now(), limit_ns = (int64_t)client->limits.ns[step];
  int64_t until_ns = limit_ns < 0 ? INT64_MAX : since_ns + limit_ns;
  bool whole = client->until_ns >= 0 && client->until_ns < until_ns;
  if (whole) until_ns = client->until_ns;
  if (step == GYRE_CLIENT_RECEIVES && client->piece_until_ns >= 0 && client->piece_until_ns < until_ns)
    until_ns = client->piece_until_ns;
  int64_t left_ns = until_ns == INT64_MAX ? -1 : until_ns > now_ns ? until_ns - now_ns : 0;
  bool ready = gyre_socket_wait(object->io, transport->fd, wants, left_ns);
  object = gyre_transport_object_get(client->transport);
  if (!ready) gyre_http_client_time_out(object->peer, step, whole ? -1 : limit_ns);
  return object;
}

/* Receives into *bytes. If *bytes is NULL, sets it to lent memory; if `bytes` is NULL, receives
 * into the transport's input. Returns 0 at the end. Asks for lent memory again after a wait,
 * because a Ractor may wake in another native thread. If `since_ns` is negative, each wait has the
 * step's whole time. */
static size_t receive(struct client *client, char **bytes, size_t most, enum gyre_http_client_step step,
                      int64_t since_ns) {
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
    object = await(client, object, transport->read.wants, step, since_ns < 0 ? gyre_socket_now() : since_ns);
    waited = true;
  }
}

/* A head's text: on the caller's stack, or in a hidden String. */
struct text {
  char *bytes;
  size_t length, capacity;
  VALUE memory;
  bool has_length, has_coding, expects;
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
  text->expects |= gyre_http_same_name(bytes, length, "expect", 6);
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

/* Heeds the server's own idle time (`Keep-Alive: timeout=5`). */
static float keep_ns(const struct client *client, const struct gyre_http_head *head, const char *bytes) {
  for (unsigned i = 0; i < head->field_count; i++) {
    const struct gyre_http_field *field = &head->fields[i];
    if (!gyre_http_same_name(bytes + field->name, field->name_length, "keep-alive", 10)) continue;
    const char *end = bytes + field->value + field->value_length;
    const char *at = memmem(bytes + field->value, field->value_length, "timeout=", 8);
    int64_t seconds = -1;
    for (at = at ? at + 8 : end; at < end && *at >= '0' && *at <= '9' && seconds < 1000000; at++)
      seconds = (seconds < 0 ? 0 : seconds * 10) + (*at - '0');
    if (seconds < 0) continue;
    float most_ns = (float)(seconds > 2 * KEEP_MARGIN_S ? seconds - KEEP_MARGIN_S : 0.5 * (double)seconds) * 1e9f;
    if (client->limits.keep_ns < 0 || most_ns < client->limits.keep_ns) return most_ns;
  }
  return client->limits.keep_ns;
}

/* Returns whether the head is final. */
static bool take_head(VALUE self, struct client *client, const struct gyre_http_head *head, const char *bytes) {
  RB_OBJ_WRITE(self, &client->headers, gyre_http_pack_fields(head, bytes, head->position));
  client->status = head->status;
  client->continued |= head->status == 100;
  if (head->status < 200 && head->status != 101) return false;
  client->body = (uint8_t)gyre_http1_reply_body(head, client->method);
  client->keep_alive = client->state == AWAITING && (head->flags & GYRE_HTTP_HEAD_KEEP_ALIVE) &&
                       client->body != GYRE_REPLY_UNTIL_CLOSE && head->status != 101;
  client->state = client->body == GYRE_REPLY_NONE ? IDLE : RECEIVING;
  client->keep_ns = keep_ns(client, head, bytes);
  client->remaining = head->content_length;
  client->piece_bytes = PIECE_BYTES_MIN;
  if (client->body == GYRE_REPLY_CHUNKED) gyre_http1_chunked_reset(&client->chunks);
  return true;
}

/* Tells the caller of an interim head. Runs Ruby code. */
static void tell(struct client *client) {
  if (client->interims++ == INTERIM_LIMIT)
    protocol_error(gyre_transport_object_get(client->transport), "more than 16 interim responses");
  if (NIL_P(client->interim)) return;
  rb_funcall(client->interim, rb_intern("call"), 2, UINT2NUM(client->status), gyre_http_unpack_fields(client->headers));
}

static struct gyre_http_head_limits head_limits(const struct client *client) {
  return (struct gyre_http_head_limits){LINE_BYTES_LIMIT, client->limits.header_bytes, client->limits.header_count};
}

/* Takes the heads that have come while a body is being sent. Never waits. Returns true once the
 * final one is there. Leaves an end or an error to receive_head: the server may still read. */
static bool look(VALUE self, struct client *client) {
  struct gyre_http_field fields[FIELDS_LIMIT];
  struct gyre_http_head head;
  const struct gyre_http_head_limits limits = head_limits(client);
  for (;;) {
    struct gyre_transport_object *object = gyre_transport_object_get(client->transport);
    struct gyre_transport *transport = &object->transport;
    size_t available = gyre_transport_available(transport);
    int length = 0;
    if (available) {
      gyre_http1_head_reset(&head, fields, FIELDS_LIMIT);
      length = gyre_http1_reply_parse(&head, gyre_transport_input(transport), available, &limits);
      if (length < 0) protocol_error(object, head.reason);
    }
    if (length > 0) {
      bool final = take_head(self, client, &head, gyre_transport_input(transport));
      gyre_transport_consume(transport, (size_t)length);
      if (final) return true;
      tell(client);
      continue;
    }
    if (gyre_transport_object_is_drained(object)) return false;
    ssize_t count = gyre_transport_fill(transport);
    if (count <= 0) return false;
    client->answered = true;
    if (gyre_transport_emptied(transport, (size_t)count, GYRE_LENT_BYTES))
      gyre_socket_drained(object->io, transport->fd, GYRE_READABLE);
  }
}

/* A part of a request: pieces of memory, or `left` bytes of a file. */
struct part {
  struct iovec *pieces;
  int count;
  int file;
  int64_t offset, left;
};

static bool is_sent(const struct part *part, const struct gyre_transport *transport) {
  return part->left == 0 && part->count == 0 && gyre_transport_unsent(transport) == 0;
}

/* Returns the number of bytes that the transport has taken; 0 at the file's end, or -errno. */
static ssize_t send_some(struct part *part, struct gyre_transport *transport) {
  if (part->left > 0) {
    size_t most = part->left < FILE_PIECE_BYTES ? (size_t)part->left : FILE_PIECE_BYTES;
    ssize_t count = gyre_transport_sendfile(transport, part->file, part->offset, most);
    if (count > 0) part->offset += count, part->left -= count;
    return count;
  }
  if (part->count == 0) return gyre_transport_flush(transport);
  ssize_t sent = gyre_transport_sendv(transport, part->pieces, part->count), rest = sent;
  while (part->count > 0 && rest >= (ssize_t)part->pieces->iov_len) {
    rest -= (ssize_t)part->pieces->iov_len;
    part->pieces++;
    part->count--;
  }
  if (part->count > 0 && rest > 0) {
    part->pieces->iov_base = (char *)part->pieces->iov_base + rest;
    part->pieces->iov_len -= (size_t)rest;
  }
  return sent;
}

static void check_time(const struct client *client, int64_t now_ns) {
  if (client->until_ns >= 0 && now_ns > client->until_ns)
    gyre_http_client_time_out(gyre_transport_object_get(client->transport)->peer, GYRE_CLIENT_SENDS, -1);
}

/* Sends the part. Returns false if the final head has come or the peer takes no more bytes; it may
 * still have responded. */
static bool send_part(VALUE self, struct client *client, struct part *part) {
  struct gyre_transport_object *object = gyre_transport_object_get(client->transport);
  int64_t since_ns = -1; /* of the last progress before a wait */
  while (!is_sent(part, &object->transport)) {
    ssize_t sent = send_some(part, &object->transport);
    if (sent == -EPIPE || sent == -ECONNRESET) return false;
    if (sent < 0 && sent != -EAGAIN) gyre_transport_object_fail(object, (int)sent, "send to");
    if (sent == 0 && part->left > 0) break;
    if (sent > 0) {
      since_ns = -1;
      if (is_sent(part, &object->transport)) break;
      gyre_socket_give_way();
      check_time(client, gyre_socket_now());
    } else if (sent == -EAGAIN) {
      if (look(self, client)) return false;
      if (since_ns < 0) since_ns = gyre_socket_now();
      object = gyre_transport_object_get(client->transport);
      bool reads = object->transport.read.state == GYRE_SIDE_OPEN;
      unsigned wants = object->transport.write.wants | (reads ? object->transport.read.wants : 0);
      (void)await(client, object, wants, GYRE_CLIENT_SENDS, since_ns);
    }
    object = gyre_transport_object_get(client->transport);
  }
  return true;
}

/* Waits for a 100. Returns false if the final head has come instead. */
static bool await_continue(VALUE self, struct client *client) {
  int64_t end_ns = gyre_socket_now() + CONTINUE_NS;
  if (client->until_ns >= 0 && client->until_ns < end_ns) end_ns = client->until_ns;
  while (!look(self, client)) {
    int64_t left_ns = end_ns - gyre_socket_now();
    struct gyre_transport_object *object = gyre_transport_object_get(client->transport);
    if (client->continued || left_ns <= 0 || object->transport.read.state != GYRE_SIDE_OPEN) return true;
    (void)gyre_socket_wait(object->io, object->transport.fd, object->transport.read.wants, left_ns);
  }
  return false;
}

/* Sends a head, and the body if it is a String; `body` is true if pieces follow. If the head has
 * an Expect, waits for a 100 before the body. Returns false if the body ends here (send_part). */
static VALUE client_begin(VALUE self, VALUE method, VALUE target, VALUE headers, VALUE body, VALUE until,
                          VALUE interim) {
  struct client *client = get(self);
  char bytes[HEAD_BYTES];
  struct text text = {.bytes = bytes, .capacity = sizeof(bytes), .memory = Qnil, .streams = body == Qtrue};
  if (client->state != IDLE) rb_raise(rb_eIOError, "the connection carries another request");
  Check_Type(headers, T_HASH);
  append_first_line(&text, method, target);
  client->method = gyre_http_method_number(RSTRING_PTR(method), (size_t)RSTRING_LEN(method));
  rb_hash_foreach(headers, append_field, (VALUE)&text);
  if (!NIL_P(body) && body != Qtrue) body = rb_str_new_frozen(StringValue(body));
  append_framing(&text, body, client->method);
  client->until_ns = NIL_P(until) ? -1 : (int64_t)(NUM2DBL(until) * 1e9);
  client->state = SENDING;
  client->keep_alive = client->answered = client->continued = false;
  client->interims = 0;
  client->status = 0;
  client->body = GYRE_REPLY_NONE;
  client->trailers = Qnil;
  RB_OBJ_WRITE(self, &client->interim, interim);
  bool whole = RB_TYPE_P(body, T_STRING), expects = text.expects && !NIL_P(body);
  struct iovec pieces[] = {{text.bytes, text.length}, {NULL, 0}};
  if (whole) pieces[1] = (struct iovec){RSTRING_PTR(body), (size_t)RSTRING_LEN(body)};
  struct part first = {.pieces = pieces, .count = whole && !expects ? 2 : 1};
  bool goes_on = send_part(self, client, &first);
  if (goes_on && expects) goes_on = await_continue(self, client);
  if (goes_on && expects && whole) goes_on = send_part(self, client, &(struct part){.pieces = pieces + 1, .count = 1});
  if (goes_on && body != Qtrue) client->state = AWAITING;
  RB_GC_GUARD(text.memory);
  RB_GC_GUARD(body);
  return goes_on ? Qtrue : Qfalse;
}

/* Sends a piece of the body, as a chunk if `chunked`; nil ends the body. Returns false if the body
 * ends here (send_part). */
static VALUE client_send_piece(VALUE self, VALUE piece, VALUE chunked) {
  struct client *client = get(self);
  char size[24];
  if (client->state != SENDING) return Qfalse;
  gyre_socket_give_way();
  check_time(client, gyre_socket_now());
  if (look(self, client)) return Qfalse;
  if (!NIL_P(piece)) piece = rb_str_new_frozen(StringValue(piece));
  size_t length = NIL_P(piece) ? 0 : (size_t)RSTRING_LEN(piece);
  if (!NIL_P(piece) && length == 0) return Qtrue;
  struct iovec pieces[] = {{size, 0}, {NULL, 0}, {(char *)"\r\n", 2}};
  if (RTEST(chunked)) pieces[0].iov_len = (size_t)snprintf(size, sizeof(size), "%zx\r\n", length);
  if (length) pieces[1] = (struct iovec){RSTRING_PTR(piece), length};
  struct part part = {.pieces = pieces, .count = RTEST(chunked) ? 3 : NIL_P(piece) ? 0 : 2};
  bool goes_on = send_part(self, client, &part);
  if (goes_on && NIL_P(piece)) client->state = AWAITING;
  RB_GC_GUARD(piece);
  return goes_on ? Qtrue : Qfalse;
}

/* Sends a part of a regular file. Returns the number of bytes left (more than 0 if the file is
 * shorter), or nil if the body ends here (send_part). */
static VALUE client_send_file(VALUE self, VALUE file, VALUE offset, VALUE length) {
  struct client *client = get(self);
  file = rb_io_get_io(file);
  struct part part = {.file = rb_io_descriptor(file), .offset = NUM2LL(offset), .left = NUM2LL(length)};
  if (part.offset < 0 || part.left < 0) rb_raise(rb_eArgError, "negative offset or length given");
  bool goes_on = send_part(self, client, &part);
  RB_GC_GUARD(file);
  return goes_on ? LL2NUM(part.left) : Qnil;
}

/* Returns the status of the final head, which may have come already. If a head comes in one piece,
 * parses it in lent memory and keeps only the bytes after it. */
static VALUE client_receive_head(VALUE self) {
  struct client *client = get(self);
  struct gyre_http_field fields[FIELDS_LIMIT];
  struct gyre_http_head head;
  const struct gyre_http_head_limits limits = head_limits(client);
  const int64_t since_ns = gyre_socket_now();
  char *lent = NULL;
  size_t received = 0; /* bytes in lent memory */
  gyre_http1_head_reset(&head, fields, FIELDS_LIMIT);
  while (client->state == SENDING || client->state == AWAITING) {
    struct gyre_transport_object *object = gyre_transport_object_get(client->transport);
    struct gyre_transport *transport = &object->transport;
    const char *bytes = received ? lent : gyre_transport_input(transport);
    size_t available = received ? received : gyre_transport_available(transport);
    int length = bytes ? gyre_http1_reply_parse(&head, bytes, available, &limits) : 0;
    if (length < 0) protocol_error(object, head.reason);
    bool final = length > 0 && take_head(self, client, &head, bytes);
    if (received && gyre_transport_keep(transport, lent + length, received - (size_t)length) < 0) rb_memerror();
    if (!received) gyre_transport_consume(transport, (size_t)length);
    received = 0;
    if (final) break;
    if (length > 0) {
      tell(client);
      gyre_http1_head_reset(&head, fields, FIELDS_LIMIT);
      continue;
    }
    bool begun = gyre_transport_available(transport) > 0;
    lent = NULL;
    received = receive(client, begun ? NULL : &lent, GYRE_LENT_BYTES, GYRE_CLIENT_AWAITS_HEAD, since_ns);
    if (!received) cut(object, begun ? "within the head of its response" : "before its response");
    if (begun) received = 0;
  }
  return UINT2NUM(client->status);
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
      client->state = IDLE;
      return Qnil;
    }
    if (receive(client, NULL, 0, GYRE_CLIENT_RECEIVES, -1) == 0) cut(object, "within the body of its response");
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
      if (receive(client, NULL, 0, GYRE_CLIENT_RECEIVES, -1) == 0) cut(object, "within the body of its response");
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
    length = receive(client, &bytes, most, GYRE_CLIENT_RECEIVES, -1);
    rb_str_set_len(piece, (long)length);
    if (length == client->piece_bytes && length < PIECE_BYTES_MAX) client->piece_bytes *= 2;
    if (length < most / 4) {
      rb_str_resize(piece, (long)length); /* gives the rest of its memory back */
      if (client->piece_bytes > PIECE_BYTES_MIN) client->piece_bytes /= 2;
    }
  }
  if (length == 0 && sized) cut(object, "within the body of its response");
  if (sized) client->remaining -= (int64_t)length;
  if (sized ? client->remaining == 0 : length == 0) client->state = IDLE;
  return length ? piece : Qnil;
}

/* Returns the body's next piece; nil at the end. Its time may be limited to some seconds. */
static VALUE client_read(int count, VALUE *arguments, VALUE self) {
  struct client *client = get(self);
  rb_check_arity(count, 0, 1);
  client->piece_until_ns = count ? gyre_socket_now() + (int64_t)(NUM2DBL(arguments[0]) * 1e9) : -1;
  if (client->state != RECEIVING) return Qnil;
  gyre_socket_give_way();
  return client->body == GYRE_REPLY_CHUNKED ? read_chunked(self, client) : read_plain(self, client);
}

/* True if the connection may be kept. Makes no system call. */
static bool is_kept(const struct client *client, const struct gyre_transport *transport) {
  return client->state == IDLE && client->keep_alive && transport->fd >= 0 && transport->read.state == GYRE_SIDE_OPEN &&
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
  client->until_ns = client->keep_ns < 0 ? -1 : gyre_socket_now() + (int64_t)client->keep_ns;
  client->headers = client->trailers = client->interim = Qnil;
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
static VALUE client_is_over(VALUE self) { return get(self)->state == IDLE ? Qtrue : Qfalse; }
static VALUE client_transport(VALUE self) { return get(self)->transport; }
static VALUE client_is_answered(VALUE self) { return get(self)->answered ? Qtrue : Qfalse; }

static VALUE client_initialize(VALUE self, VALUE transport, VALUE limits) {
  struct client *client = rb_check_typeddata(self, &client_type);
  gyre_transport_object_get(transport); /* checks it */
  client->limits = gyre_http_client_limits(limits);
  client->keep_ns = client->limits.keep_ns;
  RB_OBJ_WRITE(self, &client->transport, transport);
  return self;
}

void gyre_init_http1_client(void) {
  VALUE http = rb_define_module_under(gyre_mGyre, "HTTP");
  VALUE outer = rb_define_class_under(http, "Client", rb_cObject);
  VALUE class = gyre_class(outer, "H1Connection", client_allocate);
  rb_define_singleton_method(class, "fields", client_fields, 1);
  rb_define_method(class, "initialize", client_initialize, 2);
  rb_define_method(class, "status", client_status, 0);
  rb_define_method(class, "head", client_head, 0);
  rb_define_method(class, "headers", client_headers, 0);
  rb_define_method(class, "trailers", client_trailers, 0);
  rb_define_method(class, "read", client_read, -1);
  rb_define_method(class, "over?", client_is_over, 0);
  rb_define_method(class, "used?", client_is_answered, 0);
  rb_define_method(class, "ready?", client_is_ready, 1);
  rb_define_method(class, "rest", client_rest, 0);
  rb_define_method(class, "transport", client_transport, 0);
  rb_define_private_method(class, "begin", client_begin, 6);
  rb_define_private_method(class, "send_piece", client_send_piece, 2);
  rb_define_private_method(class, "send_file", client_send_file, 3);
  rb_define_private_method(class, "receive_head", client_receive_head, 0);
  rb_define_private_method(class, "answered?", client_is_answered, 0);
}
