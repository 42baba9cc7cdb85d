/* One request of an HTTP/2 client (client.h): sends head and body, and waits for the response on
 * the caller's stack. lib/gyre/http/client/h2_connection.rb combines the steps. Never retries.
 *
 *   open --> SENDING --all is queued--> AWAITING --final head--> RECEIVING --body's end--> over
 *               |---final head of a refusal (300 and above), or the response's end: the rest stays
 *               |   unsent, and a reset follows the response---> RECEIVING
 *               \---another final head: the upload goes on, beginning of the body is kept
 *
 * The caller is told of an interim head (1xx), which changes no state. */
#include "http/exchange.h"
#include "http/h2/client.h"
#include "http/h2/lines.h"
#include "loop/forks.h"
#include "net/socket_wait.h"
#include "net/transport_object.h"

#define PIECE_BYTES (128 * 1024) /* maximum bytes of a body returned by one call */
#define EARLY_BYTES (32 << 20)   /* maximum bytes of a response kept until its request is sent */
#define INTERIM_LIMIT 16
#define CONTINUE_NS INT64_C(1000000000) /* time to wait for a 100, as in h1/client.c */
#define DOUBT_NS INT64_C(250000000)     /* silence after which an unanswered request's end is a sign */

static VALUE call_class, host;

GYRE_MARKER(call_mark, struct gyre_http2_call, own->self, own->client_object, own->headers, own->trailers, own->body,
            own->early, own->interim)

/* Gives up the stream. Its reset is sent with the next frames. */
static void let_go(struct gyre_http2_call *call) {
  struct gyre_http2_stream *stream = call->stream;
  if (!stream) return;
  call->stream = NULL;
  GYRE_CONTAINER(stream->session, struct gyre_http2_client, session)->calls--;
  gyre_http2_stream_release(stream);
}

static void call_free(void *opaque) {
  let_go(opaque);
  xfree(opaque);
}

GYRE_TYPE(call_type, "Gyre::HTTP::Client::H2Connection::Exchange", call_mark, call_free, NULL,
          RUBY_TYPED_FREE_IMMEDIATELY);

static VALUE call_new(VALUE connection) {
  struct gyre_http2_call *call;
  VALUE self = TypedData_Make_Struct(call_class, struct gyre_http2_call, &call_type, call);
  call->self = self;
  call->client_object = connection;
  call->headers = call->trailers = call->body = call->early = call->interim = Qnil;
  return self;
}

static struct gyre_http2_call *call_get(VALUE self) { return rb_check_typeddata(self, &call_type); }

static struct gyre_http2_client *client_of(const struct gyre_http2_call *call) {
  return gyre_http2_client_get(call->client_object);
}

static VALUE peer_of(const struct gyre_http2_client *client) {
  return rb_funcall(client->transport_object, rb_intern("peer"), 0);
}

_Noreturn static void protocol_error(const struct gyre_http2_client *client, const char *what, const char *detail) {
  rb_raise(rb_path2class("Gyre::ProtocolError"), "%" PRIsVALUE " %s%s", peer_of(client), what, detail);
}

_Noreturn static void ended(const struct gyre_http2_client *client) {
  VALUE peer = peer_of(client);
  if (client->entry.forks != gyre_forks)
    rb_raise(rb_eIOError, "a connection from before a fork is the parent process's");
  switch (client->state) {
  case GYRE_HTTP2_CLIENT_BROKEN: protocol_error(client, "sent frames that break HTTP/2", "");
  case GYRE_HTTP2_CLIENT_FAILED:
    gyre_transport_object_fail(gyre_transport_object_get(client->transport_object), client->error, "receive from");
  case GYRE_HTTP2_CLIENT_CLOSED: rb_raise(rb_eIOError, "the connection to %" PRIsVALUE " was closed", peer);
  default: break;
  }
  if (client->session.left_error)
    protocol_error(client, "ended the connection: ", gyre_http2_error_name(client->session.left_error));
  rb_raise(rb_eEOFError, "%" PRIsVALUE " closed the connection", peer);
}

_Noreturn static void cut(const struct gyre_http2_client *client, const struct gyre_http2_stream *stream) {
  if (stream->head.status) protocol_error(client, "sent ", stream->head.reason);
  if (client->state != GYRE_HTTP2_CLIENT_OPEN || client->entry.forks != gyre_forks) ended(client);
  if (!stream->peer_reset && !client->session.left) protocol_error(client, "sent a response that breaks HTTP/2", "");
  protocol_error(client, "reset the stream: ", gyre_http2_error_name(stream->error));
}

struct waiting {
  struct gyre_wait wait, **place;
};

static VALUE end_wait(VALUE argument) {
  struct waiting *waiting = (struct waiting *)argument;
  *waiting->place = NULL;
  gyre_wait_end(&waiting->wait);
  return Qnil;
}

/* Waits up to `left_ns` for a change of the stream (negative: no limit). */
static void wait_for_change(struct gyre_http2_call *call, struct gyre_wait **place, int64_t left_ns) {
  struct gyre_http2_client *client = client_of(call);
  if (!client->linked || gyre_socket_scheduler() != client->scheduler) {
    gyre_http2_client_drive(client, left_ns);
  } else {
    struct waiting waiting = {.place = place};
    if (*place) rb_raise(rb_eThreadError, "another fiber waits for this part of the exchange");
    gyre_wait_begin(client->scheduler, &waiting.wait, call->client_object);
    gyre_wait_arm(&waiting.wait, left_ns);
    *place = &waiting.wait;
    rb_ensure(gyre_wait_body, (VALUE)&waiting.wait, end_wait, (VALUE)&waiting);
  }
  if (!call->stream) rb_raise(rb_eIOError, "the exchange was cancelled");
}

/* Called when a request ends without a response. If nothing has come since it began, the connection
 * may be dead. */
static void doubt(const struct gyre_http2_call *call) {
  struct gyre_http2_client *client = client_of(call);
  if (client->entry.forks != gyre_forks || client->received_ns > call->began_ns) return;
  if (gyre_http2_client_now(client) - call->began_ns >= DOUBT_NS) gyre_http2_client_doubt(client);
}

_Noreturn static void time_out(const struct gyre_http2_call *call, enum gyre_http_client_step step, int64_t limit_ns) {
  doubt(call);
  gyre_http_client_time_out(peer_of(client_of(call)), step, limit_ns);
}

/* Waits for a change of the stream. Raises when the step's time limit, counted from `since_ns`, or
 * the request's time is over. Returns the stream. */
static struct gyre_http2_stream *await(struct gyre_http2_call *call, struct gyre_wait **place, int64_t since_ns,
                                       enum gyre_http_client_step step) {
  const int64_t limit_ns = (int64_t)client_of(call)->own.ns[step];
  int64_t now_ns = gyre_socket_now(), left_ns = limit_ns < 0 ? INT64_MAX : since_ns + limit_ns - now_ns;
  bool whole = call->until_ns >= 0 && call->until_ns - now_ns < left_ns;
  if (whole) left_ns = call->until_ns - now_ns;
  if (step == GYRE_CLIENT_RECEIVES && call->piece_until_ns >= 0 && call->piece_until_ns - now_ns < left_ns)
    left_ns = call->piece_until_ns - now_ns;
  if (left_ns <= 0) time_out(call, step, whole ? -1 : limit_ns);
  wait_for_change(call, place, left_ns == INT64_MAX ? -1 : left_ns);
  return call->stream;
}

struct request {
  struct gyre_http2_lines lines;
  VALUE authority;
  bool streams; /* the body follows in pieces; only then is the app's content-length used */
  bool failed;  /* no memory */
  size_t bytes; /* of its fields */
};

static void push(struct request *request, VALUE name, VALUE value) {
  const char *bytes = RSTRING_PTR(value);
  size_t length = (size_t)RSTRING_LEN(value);
  while (length && (*bytes == ' ' || *bytes == '\t')) bytes++, length--; /* RFC 9113, section 8.2.1 */
  while (length && (bytes[length - 1] == ' ' || bytes[length - 1] == '\t')) length--;
  request->bytes += (size_t)RSTRING_LEN(name) + length + 4;
  request->failed |=
      !gyre_http2_lines_push(&request->lines, RSTRING_PTR(name), (size_t)RSTRING_LEN(name), bytes, length);
}

static int push_field(VALUE name, VALUE value, VALUE argument) {
  struct request *request = (struct request *)argument;
  const char *text = RSTRING_PTR(name);
  size_t length = (size_t)RSTRING_LEN(name);
  if (!request->streams && gyre_http_same_name(text, length, "content-length", 14)) return ST_CONTINUE;
  if (gyre_http2_is_of_connection(text, length) || gyre_http_same_name(text, length, "host", 4)) return ST_CONTINUE;
  if (!RB_TYPE_P(value, T_ARRAY)) push(request, name, value);
  for (long i = 0; RB_TYPE_P(value, T_ARRAY) && i < RARRAY_LEN(value); i++) push(request, name, RARRAY_AREF(value, i));
  return ST_CONTINUE;
}

/* Returns the stream, or NULL if memory is short or the connection takes no more streams.
 * libnghttp2 copies the lines and lower-cases names. */
static struct gyre_http2_stream *begin(struct gyre_http2_client *client, struct request *request, VALUE method,
                                       VALUE target, VALUE headers, VALUE body) {
  bool tls = client->transport->operations != &gyre_transport_plain;
  struct gyre_http2_stream *stream = NULL;
  char length[24];
  gyre_http2_lines_init(&request->lines);
  gyre_http2_lines_push(&request->lines, ":method", 7, RSTRING_PTR(method), (size_t)RSTRING_LEN(method));
  gyre_http2_lines_push(&request->lines, ":scheme", 7, tls ? "https" : "http", tls ? 5 : 4);
  gyre_http2_lines_push(&request->lines, ":authority", 10, RSTRING_PTR(request->authority),
                        (size_t)RSTRING_LEN(request->authority));
  gyre_http2_lines_push(&request->lines, ":path", 5, RSTRING_PTR(target), (size_t)RSTRING_LEN(target));
  rb_hash_foreach(headers, push_field, (VALUE)request);
  if (RB_TYPE_P(body, T_STRING)) {
    int digits = snprintf(length, sizeof(length), "%ld", RSTRING_LEN(body));
    request->failed |= !gyre_http2_lines_push(&request->lines, "content-length", 14, length, (size_t)digits);
  }
  bool ends = NIL_P(body) || (RB_TYPE_P(body, T_STRING) && RSTRING_LEN(body) == 0);
  if (!request->failed && request->bytes <= GYRE_HTTP2_SENT_HEAD_BYTES)
    stream = gyre_http2_session_request(&client->session, &request->lines, ends);
  gyre_http2_lines_free(&request->lines);
  if (stream && !ends && RB_TYPE_P(body, T_STRING))
    gyre_http2_stream_lend(stream, RSTRING_PTR(body), (size_t)RSTRING_LEN(body));
  return stream;
}

/* open(method, target, headers, body, until_s, interim): sends a request; `body` is nil, a String,
 * or true if pieces follow. Returns the exchange, or nil if the connection takes no more
 * requests. */
static VALUE connection_open(VALUE self, VALUE method, VALUE target, VALUE headers, VALUE body, VALUE until,
                             VALUE interim) {
  struct gyre_http2_client *client = gyre_http2_client_get(self);
  struct request request = {.streams = body == Qtrue};
  if (client->scheduler && gyre_thread_is_foreign(client->scheduler))
    rb_raise(rb_eThreadError, "a connection belongs to the thread that has opened it");
  gyre_http_check_request(method, target);
  method = rb_str_new_frozen(method);
  target = rb_str_new_frozen(target);
  if (!NIL_P(body) && body != Qtrue) body = rb_str_new_frozen(StringValue(body));
  VALUE object = call_new(self);
  struct gyre_http2_call *call = call_get(object);
  call->until_ns = NIL_P(until) ? -1 : (int64_t)(NUM2DBL(until) * 1e9);
  call->interim = interim;
  call->began_ns = gyre_http2_client_now(client);
  /* Checks headers last: the conversions above may run Ruby code, which could change them. */
  Check_Type(headers, T_HASH);
  rb_hash_foreach(headers, gyre_http_check_field, Qnil);
  request.authority = rb_hash_lookup2(headers, host, Qnil);
  if (!RB_TYPE_P(request.authority, T_STRING)) rb_raise(rb_eArgError, "header host: missing");
  if (gyre_http2_client_is_open(client)) gyre_http2_client_begin(client);
  if (!gyre_http2_client_is_open(client)) return Qnil;
  call->body = body;
  call->stream = begin(client, &request, method, target, headers, body);
  if (request.failed) rb_memerror();
  if (request.bytes > GYRE_HTTP2_SENT_HEAD_BYTES) rb_raise(rb_eArgError, "the request's headers have more than 1 MB");
  if (!call->stream) return Qnil;
  call->stream->owner = call;
  client->calls++;
  gyre_http2_client_send(client);
  RB_GC_GUARD(method);
  RB_GC_GUARD(target);
  RB_GC_GUARD(object);
  return object;
}

static void finish(struct gyre_http2_call *call) {
  const struct gyre_http2_stream *stream = call->stream;
  bool wrong = stream->trailers_wrong;
  const struct gyre_http_head trailers = {.fields = stream->trailers.fields, .field_count = stream->trailers.count};
  if (trailers.field_count) call->trailers = gyre_http_field_hash(&trailers, stream->trailers.text->bytes);
  let_go(call);
  call->body = Qnil;
  gyre_http2_client_send(client_of(call));
  if (wrong) protocol_error(client_of(call), "sent trailer fields that are too long in all", "");
}

static bool take_head(struct gyre_http2_call *call) {
  struct gyre_http2_stream *stream = call->stream;
  const struct gyre_http2_block *block = &stream->block;
  unsigned at = stream->heads_taken;
  if (at == stream->heads_whole) return false;
  const char *bytes = block->text->bytes;
  const struct gyre_http_field *status = &block->fields[at++];
  call->status = (uint16_t)gyre_http_number(bytes + status->value, status->value_length);
  unsigned from = at;
  while (at < stream->heads_whole && bytes[block->fields[at].name] != ':') at++;
  stream->heads_taken = (uint16_t)at;
  struct gyre_http_head head = {.fields = block->fields + from, .field_count = (uint16_t)(at - from)};
  call->headers = gyre_http_pack_fields(&head, bytes, block->text->length);
  if (call->status < 200) return true;
  gyre_http2_stream_drop_head(stream);
  if (stream->in.ended && !stream->in.bytes) finish(call);
  return true;
}

/* Takes the heads that have come, and tells the caller of interim ones, which runs Ruby code.
 * Returns true once the final one is there. */
static bool look(struct gyre_http2_call *call) {
  while (call->status < 200) {
    if (!call->stream) rb_raise(rb_eIOError, "the exchange is over");
    if (!take_head(call)) return false;
    if (call->status >= 200) break;
    if (call->interims++ == INTERIM_LIMIT) protocol_error(client_of(call), "sent more than 16 interim responses", "");
    if (!NIL_P(call->interim))
      rb_funcall(call->interim, rb_intern("call"), 2, UINT2NUM(call->status), gyre_http_unpack_fields(call->headers));
  }
  return true;
}

/* Moves received bytes of the response to call->early: a server that cannot send more of its
 * response would not take more of the request. Returns false if there are no such bytes. */
static bool keep_response(struct gyre_http2_call *call) {
  struct gyre_http2_stream *stream = call->stream;
  size_t held = gyre_bytes_held(stream->in.bytes);
  if (!held) return false;
  if (NIL_P(call->early)) call->early = rb_str_buf_new((long)held);
  if ((size_t)RSTRING_LEN(call->early) + held > EARLY_BYTES)
    rb_raise(rb_eIOError, "the response has more than 32 MB before the request's end");
  rb_str_cat(call->early, stream->in.bytes->bytes + stream->in.bytes->offset, (long)held);
  gyre_http2_stream_taken(stream, held);
  call->received += (int64_t)held;
  gyre_http2_client_send(client_of(call));
  return true;
}

/* Waits for a 100 or the final head, a second at most. */
static VALUE call_await_continue(VALUE self) {
  struct gyre_http2_call *call = call_get(self);
  int64_t end_ns = gyre_socket_now() + CONTINUE_NS, left_ns;
  if (call->until_ns >= 0 && call->until_ns < end_ns) end_ns = call->until_ns;
  while (!look(call) && call->status != 100 && !call->stream->closed && (left_ns = end_ns - gyre_socket_now()) > 0)
    wait_for_change(call, &call->reader, left_ns);
  return Qnil;
}

/* True if the server takes no more of the body. */
static bool is_refused(struct gyre_http2_call *call) {
  bool final = look(call);
  const struct gyre_http2_stream *stream = call->stream;
  return !stream || stream->closed || stream->in.ended || (final && call->status >= 300);
}

/* Queues a piece; waits for room. Returns false if the body ends here. */
static VALUE call_write(VALUE self, VALUE piece) {
  struct gyre_http2_call *call = call_get(self);
  struct gyre_http2_client *client = client_of(call);
  piece = rb_str_new_frozen(StringValue(piece));
  size_t length = (size_t)RSTRING_LEN(piece), offset = 0;
  int64_t since_ns = gyre_socket_now();
  gyre_socket_give_way();
  if (call->until_ns >= 0 && since_ns > call->until_ns) time_out(call, GYRE_CLIENT_SENDS, -1);
  while (offset < length) {
    if (is_refused(call)) return Qfalse;
    struct gyre_http2_stream *stream = call->stream;
    size_t queued = gyre_http2_stream_queued(stream), room = client->limits.output;
    if (queued >= room && keep_response(call)) continue;
    if (queued >= room) {
      if (stream->out.progress_ns > since_ns) since_ns = stream->out.progress_ns;
      await(call, &call->writer, since_ns, GYRE_CLIENT_SENDS);
      continue;
    }
    room = room - queued < length - offset ? room - queued : length - offset;
    int error = gyre_http2_stream_write(stream, RSTRING_PTR(piece) + offset, room);
    if (error == -ENOMEM) rb_memerror();
    if (error < 0) return Qfalse;
    offset += room;
    gyre_http2_client_send(client);
  }
  RB_GC_GUARD(piece);
  return Qtrue;
}

static VALUE call_finish(VALUE self) {
  struct gyre_http2_call *call = call_get(self);
  if (call->stream) (void)gyre_http2_stream_finish(call->stream, NULL, 0);
  gyre_http2_client_send(client_of(call));
  return Qnil;
}

/* Waits for the final head. Returns its status. */
static VALUE call_receive_head(VALUE self) {
  struct gyre_http2_call *call = call_get(self);
  int64_t since_ns = gyre_socket_now();
  while (!look(call)) {
    const struct gyre_http2_stream *stream = call->stream;
    if (!stream) continue; /* raises */
    bool sent = stream->out.sent;
    if (stream->closed || stream->head.status) cut(client_of(call), stream);
    if (stream->out.progress_ns > since_ns) since_ns = stream->out.progress_ns;
    (void)await(call, &call->reader, since_ns, sent ? GYRE_CLIENT_AWAITS_HEAD : GYRE_CLIENT_SENDS);
  }
  return UINT2NUM(call->status);
}

/* Returns the body's next piece; nil at the end. Its time may be limited to some seconds. */
static VALUE call_read(int count, VALUE *arguments, VALUE self) {
  struct gyre_http2_call *call = call_get(self);
  rb_check_arity(count, 0, 1);
  call->piece_until_ns = count ? gyre_socket_now() + (int64_t)(NUM2DBL(arguments[0]) * 1e9) : -1;
  struct gyre_http2_client *client = client_of(call);
  VALUE early = call->early;
  call->early = Qnil;
  if (!NIL_P(early) || !call->stream) return early;
  gyre_socket_give_way();
  for (int64_t since_ns = -1;;) {
    struct gyre_http2_stream *stream = call->stream;
    if (!stream) return Qnil;
    size_t held = gyre_bytes_held(stream->in.bytes);
    if (held > PIECE_BYTES) held = PIECE_BYTES;
    if (held) {
      VALUE piece = rb_str_new(stream->in.bytes->bytes + stream->in.bytes->offset, (long)held);
      gyre_http2_stream_taken(stream, held);
      call->received += (int64_t)held;
      gyre_http2_client_send(client); /* the server's window grows */
      if (stream->in.ended && !stream->in.bytes) finish(call);
      return piece;
    }
    if (stream->in.ended) {
      finish(call);
      return Qnil;
    }
    if (stream->closed) cut(client, stream);
    if (since_ns < 0) since_ns = gyre_socket_now();
    await(call, &call->reader, since_ns, GYRE_CLIENT_RECEIVES);
  }
}

static VALUE call_cancel(VALUE self) {
  struct gyre_http2_call *call = call_get(self);
  struct gyre_http2_client *client = client_of(call);
  struct gyre_wait *waits[] = {call->reader, call->writer};
  call->early = Qnil;
  if (!call->stream) return Qnil;
  if (!call->status) doubt(call);
  let_go(call);
  call->body = Qnil;
  if (client->entry.forks != gyre_forks) return Qnil;
  for (int i = 0; i < 2; i++) {
    if (waits[i]) gyre_wake(waits[i]->parked.scheduler, &waits[i]->parked);
  }
  gyre_http2_client_send(client);
  if (client->linked && gyre_thread_is_foreign(client->scheduler)) gyre_loop_wake(&client->scheduler->loop);
  return Qnil;
}

/* Tells whether the server may have processed an unanswered request. False: the head was not sent,
 * or the server has refused the stream, by a reset or a GOAWAY, whatever came after it. True: the
 * connection has ended. Otherwise nil. */
static VALUE call_unanswered(VALUE self) {
  const struct gyre_http2_call *call = call_get(self);
  const struct gyre_http2_stream *stream = call->stream;
  if (!stream || !stream->closed || stream->headed || stream->head.status) return Qnil;
  if (!stream->out.headed || stream->error == GYRE_HTTP2_REFUSED_STREAM) return Qfalse;
  return client_of(call)->state != GYRE_HTTP2_CLIENT_OPEN ? Qtrue : Qnil;
}

static VALUE call_status(VALUE self) { return UINT2NUM(call_get(self)->status); }
static VALUE call_head(VALUE self) { return call_get(self)->headers; }
static VALUE call_headers(VALUE self) { return gyre_http_unpack_fields(call_get(self)->headers); }
static VALUE call_trailers(VALUE self) { return call_get(self)->trailers; }

static VALUE call_is_over(VALUE self) {
  const struct gyre_http2_call *call = call_get(self);
  return call->stream || !NIL_P(call->early) ? Qfalse : Qtrue;
}

/* Raises an error that tells why no more requests can begin. */
static VALUE connection_refuse(VALUE self) { ended(gyre_http2_client_get(self)); }

void gyre_init_http2_client_call(void) {
  VALUE connection = rb_path2class("Gyre::HTTP::Client::H2Connection");
  call_class = gyre_class(connection, "Exchange", NULL);
  host = gyre_kept(rb_obj_freeze(rb_str_new_lit("host")));
  rb_define_private_method(connection, "open", connection_open, 6);
  rb_define_private_method(connection, "refuse", connection_refuse, 0);
  rb_define_method(call_class, "await_continue", call_await_continue, 0);
  rb_define_method(call_class, "write", call_write, 1);
  rb_define_method(call_class, "finish", call_finish, 0);
  rb_define_method(call_class, "receive_head", call_receive_head, 0);
  rb_define_method(call_class, "read", call_read, -1);
  rb_define_method(call_class, "cancel", call_cancel, 0);
  rb_define_method(call_class, "unanswered", call_unanswered, 0);
  rb_define_method(call_class, "status", call_status, 0);
  rb_define_method(call_class, "head", call_head, 0);
  rb_define_method(call_class, "headers", call_headers, 0);
  rb_define_method(call_class, "trailers", call_trailers, 0);
  rb_define_method(call_class, "over?", call_is_over, 0);
}
