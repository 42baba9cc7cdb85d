/* Gyre::WebSocket's methods (lib/gyre/websocket.rb), called in the app's fibers. Calls of other
 * threads are handed to the loop's thread. The socket may end during each wait. */
#include "http/thread_calls.h"
#include "websocket/websocket.h"

#include <ruby/encoding.h>

static VALUE closed_error;

static void websocket_mark(void *opaque) {
  const struct gyre_websocket *websocket = opaque;
  GYRE_MARK(websocket->self, websocket->run.session, websocket->run.fiber, websocket->protocol, websocket->topics,
            websocket->returned);
  if (websocket->acceptor) rb_gc_mark(websocket->acceptor->self);
}

static void websocket_free(void *opaque) {
  struct gyre_websocket *websocket = opaque;
  if (websocket->connection) websocket->connection->own = NULL; /* at exit either is freed first */
  gyre_websocket_deflate_free(&websocket->compression);
  free(websocket->backlog.slices);
  free(websocket->end.reason);
  free(websocket->room);
  xfree(websocket);
}

GYRE_TYPE(websocket_type, "Gyre::WebSocket", websocket_mark, websocket_free, NULL, 0);

static struct gyre_websocket *websocket_get(VALUE self) { return RTYPEDDATA_DATA(self); }

static const struct gyre_http_acceptor *websocket_elsewhere(VALUE self) {
  const struct gyre_websocket *websocket = websocket_get(self);
  return websocket->connection && gyre_thread_is_foreign(websocket->acceptor->scheduler) ? websocket->acceptor : NULL;
}

static VALUE wait_ensure(VALUE argument) {
  struct gyre_websocket_waiter *waiter = (struct gyre_websocket_waiter *)argument;
  gyre_list_remove(&waiter->node);
  gyre_wait_end(&waiter->wait);
  return Qnil;
}

/* Returns false after the timeout, true after a change or the socket's end. */
static bool wait_for(VALUE self, enum gyre_websocket_change change, int64_t timeout_ns) {
  struct gyre_websocket *websocket = websocket_get(self);
  struct gyre_websocket_waiter waiter = {.websocket = websocket, .change = change};
  gyre_wait_begin(websocket->acceptor->scheduler, &waiter.wait, self);
  gyre_wait_arm(&waiter.wait, timeout_ns);
  gyre_list_append(&websocket->waiters, &waiter.node);
  if (!websocket->run.wants && !websocket->run.waited && websocket->run.fiber == waiter.wait.parked.fiber) {
    websocket->run.waited = true;
    gyre_job_stays(websocket->acceptor->scheduler);
  }
  rb_ensure(gyre_wait_body, (VALUE)&waiter.wait, wait_ensure, (VALUE)&waiter);
  return !waiter.wait.timed_out;
}

/* Called when the server's budget of output is over no more, whichever protocol has given back. */
static void wake_publishers(struct gyre_http_budget *output) {
  struct gyre_http_acceptor *acceptor = GYRE_CONTAINER(output, struct gyre_http_acceptor, capacity.output);
  GYRE_EACH(struct gyre_websocket_waiter, waiter, &acceptor->websockets.publishers, node) {
    gyre_wake(acceptor->scheduler, &waiter->wait.parked);
  }
}

/* Waits while the server holds too much output and WebSockets have a part of it. For publishers,
 * after a message. */
static VALUE websocket_pace(VALUE self) {
  struct gyre_http_acceptor *acceptor = websocket_get(self)->acceptor;
  if (!gyre_websocket_is_behind(acceptor) || gyre_thread_is_foreign(acceptor->scheduler)) return Qnil;
  acceptor->statistics.publishers_held++;
  acceptor->capacity.output.relieved = wake_publishers;
  while (gyre_websocket_is_behind(acceptor)) {
    struct gyre_websocket_waiter waiter = {.websocket = websocket_get(self)};
    gyre_wait_begin(acceptor->scheduler, &waiter.wait, self);
    gyre_list_append(&acceptor->websockets.publishers, &waiter.node);
    rb_ensure(gyre_wait_body, (VALUE)&waiter.wait, wait_ensure, (VALUE)&waiter);
  }
  return Qnil;
}

static VALUE websocket_behind_p(VALUE self) {
  return gyre_websocket_is_behind(websocket_get(self)->acceptor) ? Qtrue : Qfalse;
}

static VALUE websocket_read(VALUE self) {
  struct gyre_websocket *websocket = websocket_get(self);
  if (!NIL_P(websocket->returned) && RARRAY_LEN(websocket->returned) > 0) return rb_ary_shift(websocket->returned);
  if (!websocket->connection) return Qnil;
  gyre_yield_if_due(websocket->acceptor->scheduler); /* a peer may send as fast as the app reads */
  for (;;) {
    if (!websocket->unread) gyre_websocket_receive(websocket);
    VALUE message = websocket->unread ? gyre_websocket_take(websocket) : Qnil;
    if (!NIL_P(message)) return message;
    if (!NIL_P(websocket->returned) && RARRAY_LEN(websocket->returned) > 0) return rb_ary_shift(websocket->returned);
    if (!websocket->connection || websocket->discards) return Qnil;
    wait_for(self, GYRE_WEBSOCKET_INPUT, -1);
  }
}

/* Called by ThreadCalls: the next read returns the message again. */
static VALUE websocket_give_back(VALUE self, VALUE message) {
  struct gyre_websocket *websocket = websocket_get(self);
  if (NIL_P(websocket->returned)) websocket->returned = rb_ary_new();
  rb_ary_push(websocket->returned, message);
  gyre_websocket_wake(websocket, GYRE_WEBSOCKET_INPUT);
  return Qnil;
}

_Noreturn static void raise_closed(const struct gyre_websocket *websocket) {
  if (!websocket->end.code) rb_raise(closed_error, "the WebSocket was closed here");
  rb_raise(closed_error, "the WebSocket is closed: %u %.*s", websocket->end.code, websocket->end.length,
           websocket->end.reason ? websocket->end.reason : "");
}

static void check_open(const struct gyre_websocket *websocket) {
  if (!websocket->connection || websocket->times.closing_ns) raise_closed(websocket);
}

/* Returns the opcode for the String's encoding. */
static unsigned opcode_of(VALUE message) {
  int encoding = rb_enc_get_index(message);
  if (encoding == rb_ascii8bit_encindex()) return GYRE_WEBSOCKET_BINARY;
  if ((encoding != rb_utf8_encindex() && encoding != rb_usascii_encindex()) ||
      rb_enc_str_coderange(message) == ENC_CODERANGE_BROKEN)
    rb_raise(rb_eArgError, "a message must be valid UTF-8, or BINARY, and this one is %s",
             rb_enc_name(rb_enc_from_index(encoding)));
  return GYRE_WEBSOCKET_TEXT;
}

/* Returns the message itself if compression gains nothing. */
static VALUE deflated(struct gyre_websocket_compression *compression, VALUE message) {
  size_t length = (size_t)RSTRING_LEN(message);
  if (!gyre_websocket_deflates(compression, length)) return message;
  VALUE compressed = rb_str_buf_new((long)length);
  size_t size = gyre_websocket_deflate(compression, RSTRING_PTR(message), length, RSTRING_PTR(compressed));
  rb_str_set_len(compressed, (long)size);
  RB_GC_GUARD(message);
  return size > 0 ? compressed : message;
}

static bool has_more_than(const struct gyre_websocket *websocket, size_t bytes) {
  return gyre_websocket_unsent(websocket) > bytes || gyre_websocket_is_crowded(websocket);
}

/* If more than `output_bytes` are unsent, waits until only half of `output_bytes` are unsent. While
 * the server's budget is used up, waits until nothing is unsent. */
static void wait_for_room(VALUE self) {
  struct gyre_websocket *websocket = websocket_get(self);
  if (!has_more_than(websocket, websocket->limits.output_bytes)) return;
  while (has_more_than(websocket, websocket->limits.output_bytes / 2)) wait_for(self, GYRE_WEBSOCKET_ROOM, -1);
  if (!websocket->connection) raise_closed(websocket);
}

static VALUE websocket_transmit(VALUE self, VALUE message) {
  struct gyre_websocket *websocket = websocket_get(self);
  StringValue(message);
  unsigned opcode = opcode_of(message);
  check_open(websocket); /* first: with a closed socket, other threads come here, too */
  if (gyre_clock_is_due(websocket->acceptor->scheduler)) {
    gyre_yield_if_due(websocket->acceptor->scheduler);
    check_open(websocket);
  }
  long length = RSTRING_LEN(message);
  VALUE payload = deflated(&websocket->compression, message);
  gyre_websocket_send(websocket, opcode, payload != message, RSTRING_PTR(payload), (size_t)RSTRING_LEN(payload));
  RB_GC_GUARD(payload);
  if (!websocket->connection) raise_closed(websocket);
  websocket->acceptor->statistics.messages_sent++;
  wait_for_room(self);
  return LONG2NUM(length);
}

/* Returns a message's frame for all sockets with these window bits. */
static VALUE websocket_frame(VALUE class, VALUE message, VALUE window_bits) {
  uint8_t head[GYRE_WEBSOCKET_HEAD_BYTES];
  struct gyre_websocket_compression alone = {.sent_bits = (uint8_t)NUM2UINT(window_bits)};
  StringValue(message);
  unsigned opcode = opcode_of(message);
  VALUE payload = deflated(&alone, message);
  size_t size = gyre_websocket_frame_head(head, opcode, payload != message, (uint64_t)RSTRING_LEN(payload));
  VALUE frame = rb_str_buf_new((long)size + RSTRING_LEN(payload));
  rb_str_cat(frame, (const char *)head, (long)size);
  rb_str_cat(frame, RSTRING_PTR(payload), RSTRING_LEN(payload));
  return rb_obj_freeze(frame);
}

/* Sends a frame without waiting. Closes a client that has too much unsent. Returns false if the
 * frame was not sent, nil outside the loop's thread. */
static VALUE websocket_offer(VALUE self, VALUE frame) {
  struct gyre_websocket *websocket = websocket_get(self);
  Check_Type(frame, T_STRING);
  if (!websocket->connection || websocket->times.closing_ns) return Qfalse;
  if (gyre_thread_is_foreign(websocket->acceptor->scheduler)) return Qnil;
  if (!gyre_websocket_keeps_up(websocket)) return Qfalse;
  if (RSTRING_LEN(frame) > 0 && RSTRING_PTR(frame)[0] & 0x40) gyre_websocket_deflate_forget(&websocket->compression);
  gyre_websocket_send_framed(websocket, RSTRING_PTR(frame), (size_t)RSTRING_LEN(frame));
  RB_GC_GUARD(frame);
  if (!websocket->connection) return Qfalse;
  websocket->acceptor->statistics.messages_sent++;
  return Qtrue;
}

/* Prefetches the memory of the next sockets during earlier sockets' system calls: with 10,000
 * sockets it is in no cache. Inline, because GCC drops calls of a function that only prefetches. */
__attribute__((always_inline)) static inline void fetch_ahead(VALUE class, VALUE subscribers, long place) {
  VALUE near = rb_ary_entry(subscribers, place + 2), far = rb_ary_entry(subscribers, place + 4);
  __builtin_prefetch((const void *)rb_ary_entry(subscribers, place + 6));
  for (size_t i = 0; rb_class_of(far) == class && i < sizeof(struct gyre_websocket); i += 64)
    __builtin_prefetch((const char *)websocket_get(far) + i);
  if (rb_class_of(near) == class && websocket_get(near)->connection)
    __builtin_prefetch(&websocket_get(near)->connection->transport);
}

/* Sends a Broadcast::Message to subscribers. Adds subscribers of other threads' loops to
 * `elsewhere`. Returns the number of subscribers that took it. */
static VALUE websocket_deliver_all(VALUE class, VALUE message, VALUE subscribers, VALUE elsewhere) {
  VALUE frame = Qnil;
  unsigned bits = 0;
  long taken = 0;
  Check_Type(subscribers, T_ARRAY);
  Check_Type(elsewhere, T_ARRAY);
  for (long i = 0; i < RARRAY_LEN(subscribers); i++) {
    VALUE subscriber = RARRAY_AREF(subscribers, i), result;
    fetch_ahead(class, subscribers, i);
    /* The second check is for a socket that the program has extended. */
    if (rb_class_of(subscriber) == class || rb_obj_class(subscriber) == class) {
      unsigned its_bits = websocket_get(subscriber)->compression.sent_bits;
      if (NIL_P(frame) || its_bits != bits)
        frame = rb_funcall(message, rb_intern("frame"), 1, UINT2NUM(bits = its_bits));
      result = websocket_offer(subscriber, frame);
    } else {
      result = rb_funcall(subscriber, rb_intern("deliver"), 1, message);
    }
    if (NIL_P(result)) rb_ary_push(elsewhere, subscriber);
    if (RTEST(result)) taken++;
  }
  return LONG2NUM(taken);
}

/* Adds the socket to a topic's Hash, until the socket ends. Returns false if it has ended. */
static VALUE websocket_join(VALUE self, VALUE topic) {
  struct gyre_websocket *websocket = websocket_get(self);
  Check_Type(topic, T_HASH);
  if (!websocket->connection) return Qfalse;
  if (RTEST(rb_hash_lookup(topic, self))) return Qtrue;
  if (NIL_P(websocket->topics)) websocket->topics = rb_ary_new();
  rb_ary_push(websocket->topics, topic);
  rb_hash_aset(topic, self, Qtrue);
  return Qtrue;
}

static VALUE websocket_leave(VALUE self, VALUE topic) {
  VALUE topics = websocket_get(self)->topics;
  Check_Type(topic, T_HASH);
  rb_hash_delete(topic, self);
  for (long i = NIL_P(topics) ? 0 : RARRAY_LEN(topics); i-- > 0;) {
    if (RARRAY_AREF(topics, i) == topic) rb_ary_delete_at(topics, i);
  }
  return Qnil;
}

/* True outside the loop's thread. */
static VALUE websocket_foreign_p(VALUE self) { return websocket_elsewhere(self) ? Qtrue : Qfalse; }

static VALUE websocket_stopping_p(VALUE self) { return websocket_get(self)->acceptor->draining ? Qtrue : Qfalse; }

static VALUE websocket_thread_calls(VALUE self) { return websocket_get(self)->acceptor->thread_calls.object; }

static VALUE websocket_ping_within(VALUE self, VALUE timeout) {
  struct gyre_websocket *websocket = websocket_get(self);
  int64_t timeout_ns = gyre_duration_ns(timeout);
  check_open(websocket);
  struct gyre_loop *loop = &websocket->acceptor->scheduler->loop;
  int64_t from_ns = gyre_loop_now(loop), until_ns = from_ns + timeout_ns;
  gyre_websocket_ping(websocket);
  uint32_t number = websocket->pings.sent;
  while (websocket->connection && (int32_t)(websocket->pings.answered - number) < 0) {
    int64_t left_ns = timeout_ns < 0 ? -1 : until_ns - gyre_loop_now(loop);
    if ((timeout_ns >= 0 && left_ns <= 0) || !wait_for(self, GYRE_WEBSOCKET_PONGS, left_ns))
      rb_raise(rb_path2class("Gyre::TimeoutError"), "no pong came in time");
  }
  if (!websocket->connection) raise_closed(websocket);
  return DBL2NUM((double)(gyre_loop_now(loop) - from_ns) / 1e9);
}

static VALUE websocket_close_with(VALUE self, VALUE code, VALUE reason) {
  struct gyre_websocket *websocket = websocket_get(self);
  Check_Type(reason, T_STRING);
  gyre_websocket_close(websocket, NUM2UINT(code), RSTRING_PTR(reason), (size_t)RSTRING_LEN(reason));
  RB_GC_GUARD(reason);
  if (!websocket->connection) return Qnil;
  websocket->discards = true;
  if (websocket->unread) gyre_websocket_taken(websocket);
  gyre_websocket_wake(websocket, ~0u);
  /* The peer's close may have come already. */
  gyre_http_connection_report_again(websocket->connection);
  return Qnil;
}

static VALUE websocket_closed_p(VALUE self) {
  const struct gyre_websocket *websocket = websocket_get(self);
  return websocket->connection && !websocket->times.closing_ns ? Qfalse : Qtrue;
}

static VALUE websocket_code(VALUE self) {
  const struct gyre_websocket *websocket = websocket_get(self);
  return websocket->end.code ? UINT2NUM(websocket->end.code) : Qnil;
}

static VALUE websocket_reason(VALUE self) {
  const struct gyre_websocket *websocket = websocket_get(self);
  return websocket->end.code ? rb_utf8_str_new(websocket->end.reason, websocket->end.length) : Qnil;
}

static VALUE websocket_pending(VALUE self) { return SIZET2NUM(gyre_websocket_unsent(websocket_get(self))); }

static VALUE websocket_protocol(VALUE self) { return websocket_get(self)->protocol; }

/* Called by the acceptor to end the session's code. Returns true if the code runs. */
static VALUE websocket_interrupt(VALUE self, VALUE exception) {
  const struct gyre_websocket *websocket = websocket_get(self);
  if (NIL_P(websocket->run.fiber)) return Qfalse;
  gyre_interrupt_fiber(websocket->acceptor->scheduler, websocket->run.fiber, exception);
  return Qtrue;
}

/* Called by ThreadCalls to end the fiber's wait for this socket. */
static VALUE websocket_interrupt_reader(VALUE self, VALUE fiber, VALUE exception) {
  const struct gyre_websocket *websocket = websocket_get(self);
  if (gyre_websocket_waits(websocket, fiber)) gyre_interrupt_fiber(websocket->acceptor->scheduler, fiber, exception);
  return Qnil;
}

/* Writes to the server's log. */
static VALUE websocket_error(VALUE self, VALUE message) {
  return rb_funcall(websocket_get(self)->acceptor->handler, rb_intern("error"), 1, message);
}

/* Takes `agreed` of lib/gyre/websocket/compression.rb, or nil. */
static void agree(struct gyre_websocket *websocket, VALUE compression) {
  if (NIL_P(compression)) return;
  Check_Type(compression, T_ARRAY);
  websocket->compression.sent_bits = (uint8_t)NUM2UINT(rb_ary_entry(compression, 0));
  websocket->compression.sent_keeps = RTEST(rb_ary_entry(compression, 1));
  websocket->compression.received_bits = (uint8_t)NUM2UINT(rb_ary_entry(compression, 2));
  websocket->compression.received_keeps = RTEST(rb_ary_entry(compression, 3));
  websocket->input.may_compress = true;
}

/* Takes over a request's connection after its response: 101, or 200 in a stream and for events. The
 * session begins once the request's exchange has ended. */
static VALUE websocket_take_over(VALUE class, VALUE exchange, VALUE session, VALUE wants, VALUE limits, VALUE protocol,
                                 VALUE compression, VALUE events) {
  struct gyre_http_exchange *handshake = gyre_http_exchange_open(exchange);
  if (!handshake) rb_raise(closed_error, "the client has left");
  struct gyre_websocket *websocket;
  VALUE self = TypedData_Make_Struct(class, struct gyre_websocket, &websocket_type, websocket);
  websocket->self = self;
  websocket->run.fiber = websocket->topics = websocket->returned = Qnil;
  websocket->run.session = session;
  websocket->events = RTEST(events);
  websocket->protocol = protocol;
  websocket->run.wants = (uint8_t)NUM2UINT(wants);
  websocket->limits = handshake->connection->acceptor->limits.websocket;
  if (!NIL_P(limits)) gyre_websocket_limits_read(&websocket->limits, limits);
  websocket->input.message_bytes = websocket->limits.message_bytes;
  agree(websocket, compression);
  struct gyre_sight_account *row = gyre_http_route_upgrade(exchange, websocket->events);
  handshake = gyre_http_exchange_open(exchange);
  if (!handshake || gyre_http_exchange_is_over(handshake)) rb_raise(closed_error, "the client has left");
  websocket->acceptor = handshake->connection->acceptor;
  websocket->row = row;
  rb_hash_aset(websocket->acceptor->upgraded, self, Qtrue);
  gyre_http_exchange_leave_place(handshake);
  struct gyre_http_connection *connection =
      handshake->operations->upgrade ? handshake->operations->upgrade(handshake) : handshake->connection;
  if (!connection) {
    rb_hash_delete(websocket->acceptor->upgraded, self);
    rb_memerror();
  }
  websocket->acceptor->statistics.upgrades++;
  connection->own = websocket;
  websocket->connection = connection;
  gyre_http_connection_enter(connection, &gyre_websocket_protocol, NULL, 0);
  return self;
}

/* clang-format off */
#define METHODS(METHOD) \
  METHOD(websocket, read, 0) METHOD(websocket, transmit, 1) METHOD(websocket, ping_within, 1) \
  METHOD(websocket, close_with, 2) METHOD(websocket, pace, 0)
/* clang-format on */
METHODS(GYRE_HTTP_TRAMPOLINE)

void gyre_init_websocket(void) {
  VALUE class = gyre_class(gyre_mGyre, "WebSocket", NULL);
  closed_error = rb_define_class_under(class, "ClosedError", rb_eIOError);
  gyre_init_websocket_connection(class);
#ifdef GYRE_HAVE_ZLIB
  rb_define_const(class, "COMPRESSES", Qtrue);
#endif
  rb_define_private_method(rb_singleton_class(class), "take_over", websocket_take_over, 7);
  rb_define_method(class, "give_back", websocket_give_back, 1);
  rb_define_method(class, "write", websocket_anywhere_transmit, 1); /* subclasses may have another */
  rb_define_method(class, "closed?", websocket_closed_p, 0);
  rb_define_method(class, "code", websocket_code, 0);
  rb_define_method(class, "reason", websocket_reason, 0);
  rb_define_method(class, "pending", websocket_pending, 0);
  rb_define_method(class, "protocol", websocket_protocol, 0);
  rb_define_singleton_method(class, "frame", websocket_frame, 2);
  rb_define_singleton_method(class, "deliver_all", websocket_deliver_all, 3);
  rb_define_method(class, "offer", websocket_offer, 1);
  rb_define_method(class, "behind?", websocket_behind_p, 0);
  rb_define_method(class, "join", websocket_join, 1);
  rb_define_method(class, "leave", websocket_leave, 1);
  rb_define_method(class, "foreign?", websocket_foreign_p, 0);
  rb_define_method(class, "stopping?", websocket_stopping_p, 0);
  rb_define_method(class, "thread_calls", websocket_thread_calls, 0);
  rb_define_method(class, "interrupt", websocket_interrupt, 1);
  rb_define_method(class, "interrupt_reader", websocket_interrupt_reader, 2);
  rb_define_method(class, "report", websocket_error, 1);
  METHODS(GYRE_HTTP_DEFINE)
}
