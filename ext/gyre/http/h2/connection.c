/* Runs an HTTP/2 connection on the loop: moves frames, wakes fibers, checks time limits, ends the
 * connection. Output is sent at the turn's end. Never waits. */
#include "http/h2/h2.h"

#define SENDS_AT_ONCE 8
#define BODIES_LOOKED_AT_NS INT64_C(500000000) /* interval of checks on awaited bodies */

static struct gyre_http2_connection *own(const struct gyre_http_connection *connection) { return connection->own; }

static bool is_open(const struct gyre_http_connection *connection) { return connection->state == GYRE_HTTP_SERVING; }

/* Returns the stream's exchange, or NULL. */
static struct gyre_http_exchange *exchange_of(const struct gyre_http2_stream *stream) {
  return stream->tunnel ? NULL : stream->owner;
}

/* The stream must have an owner. */
static void wake(struct gyre_http2_stream *stream) {
  struct gyre_http_exchange *exchange = exchange_of(stream);
  if (!exchange || exchange->hijacked) {
    struct gyre_http_connection *inner = exchange ? gyre_http2_of(exchange)->tunnel : stream->owner;
    if (stream->in.bytes || gyre_http2_stream_is_read(stream) || inner->transport.write.wants)
      gyre_http_connection_report_again(inner);
    return;
  }
  const struct gyre_http2_exchange *own = gyre_http2_of(exchange);
  gyre_http_exchange_wake_reader(exchange);
  if (own->writer) gyre_wake(exchange->connection->acceptor->scheduler, &own->writer->wait.parked);
  if (stream->closed && stream->departed && !stream->own_reset) gyre_http_exchange_peer_ended(exchange);
}

/* --- sending --- */

/* Interrupts all handlers, because the client has broken HTTP/2. */
static void interrupt_handlers(struct gyre_http_connection *connection) {
  const struct gyre_list *streams = &own(connection)->session.streams;
  GYRE_EACH(struct gyre_http2_stream, stream, streams, node) {
    const struct gyre_http_exchange *exchange = exchange_of(stream);
    if (exchange && !NIL_P(exchange->fiber))
      (void)gyre_http_cancel(connection->acceptor->scheduler, exchange->fiber, "Gyre::Stop",
                             "the client has broken HTTP/2, and its connection ends");
  }
}

/* Lingers if the client may still send: bytes that come after a close would cause a reset that
 * loses the last frames. */
static void close_or_linger(struct gyre_http_connection *connection) {
  if (own(connection)->session.failed) interrupt_handlers(connection);
  if (own(connection)->session.input_over) {
    gyre_http_connection_close(connection, false);
  } else {
    gyre_http_connection_linger(connection);
  }
}

static void wait_for_room(struct gyre_http_connection *connection) {
  struct gyre_http2_connection *http2 = connection->own;
  struct gyre_loop *loop = gyre_http_loop(connection);
  if (!http2->blocked_ns) http2->blocked_ns = gyre_loop_now(loop);
  if (gyre_loop_await(loop, &http2->room, connection->transport.fd, connection->transport.write.wants) < 0)
    gyre_http_connection_close(connection, true);
}

/* Returns false if no more bytes can be sent now. */
static bool send_some(struct gyre_http_connection *connection) {
  struct gyre_http2_connection *http2 = connection->own;
  struct gyre_transport *transport = &connection->transport;
  int error = gyre_transport_unsent(transport) > 0 ? gyre_transport_flush(transport) : 0;
  if (error == 0) {
    http2->blocked_ns = 0;
    char *bytes = gyre_lent_plain();
    size_t length = bytes ? gyre_http2_session_send(&http2->session, bytes, GYRE_LENT_BYTES,
                                                    gyre_loop_coarse_now(gyre_http_loop(connection)))
                          : 0;
    if (http2->session.broken) gyre_http_connection_close(connection, true);
    if (length == 0 || http2->session.broken) return false;
    error = gyre_transport_pass(transport, bytes, length);
  }
  if (error == -EAGAIN) {
    wait_for_room(connection);
  } else if (error < 0) {
    gyre_http_connection_close(connection, false);
  }
  return error == 0;
}

/* Wakes the owners of changed streams. `deliver` handles new streams. */
static void wake_changed(struct gyre_http_connection *connection) {
  struct gyre_http2_stream *stream;
  while ((stream = gyre_http2_session_changed(&own(connection)->session, false))) wake(stream);
}

/* Ends and frees the connection if it is over; otherwise sets its timer. */
static void settle(struct gyre_http_connection *connection);

/* `enter` and `leave` enclose each call from the loop: the connection is not freed between them.
 * `leave` passes on the exception whose state is `raised`. */
static void enter(struct gyre_http_connection *connection) { own(connection)->entered++; }

static void leave(struct gyre_http_connection *connection, int raised) {
  VALUE error = raised ? rb_errinfo() : Qnil;
  if (raised) gyre_loop_report_again(gyre_http_loop(connection), &connection->watch, GYRE_READABLE);
  own(connection)->entered--;
  settle(connection);
  if (!raised) return;
  if (rb_obj_is_kind_of(error, rb_eException)) rb_set_errinfo(error);
  rb_jump_tag(raised);
}

static void send_all(struct gyre_http_connection *connection) {
  int budget = SENDS_AT_ONCE;
  enter(connection);
  while (is_open(connection) && send_some(connection) && --budget > 0) continue;
  if (is_open(connection) && budget == 0) gyre_http2_connection_send(connection);
  wake_changed(connection);
  leave(connection, 0);
}

static void at_the_end(struct gyre_loop *loop, struct gyre_deferred *sending) {
  send_all(GYRE_CONTAINER(sending, struct gyre_http2_connection, sending)->connection);
}

static void on_room(struct gyre_loop *loop, struct gyre_watch *room, unsigned ready) {
  struct gyre_http_connection *connection = GYRE_CONTAINER(room, struct gyre_http2_connection, room)->connection;
  gyre_loop_unwatch(loop, room);
  send_all(connection);
}

void gyre_http2_connection_send(struct gyre_http_connection *connection) {
  if (is_open(connection)) gyre_loop_defer(gyre_http_loop(connection), &own(connection)->sending);
}

/* --- time --- */

static void schedule(struct gyre_http_connection *connection) {
  struct gyre_http2_connection *http2 = connection->own;
  const struct gyre_http2_session *session = &http2->session;
  const struct gyre_http_limits *limits = &connection->acceptor->limits;
  int64_t now_ns = gyre_loop_coarse_now(gyre_http_loop(connection)), due_ns = INT64_MAX;
  if (!session->settled) gyre_http_sooner(&due_ns, http2->began_ns, limits->first_byte_ns);
  if (session->head_since_ns && !session->failed) gyre_http_sooner(&due_ns, session->head_since_ns, limits->head_ns);
  if (http2->blocked_ns) gyre_http_sooner(&due_ns, http2->blocked_ns, limits->write_ns);
  if (http2->warned_ns) gyre_http_sooner(&due_ns, http2->warned_ns, GYRE_HTTP_GRACE_NS);
  if (session->awaited_count) gyre_http_sooner(&due_ns, http2->bodies_ns, BODIES_LOOKED_AT_NS);
  if (session->stream_count == 0 && !session->going) gyre_http_sooner(&due_ns, http2->idle_ns, limits->keep_alive_ns);
  /* Sets the next check of responses without a handler. No frame of the client delays it. */
  if (session->stream_count <= http2->running) {
    http2->looked_ns = 0;
  } else {
    if (!http2->looked_ns) http2->looked_ns = now_ns;
    gyre_http_sooner(&due_ns, http2->looked_ns, limits->write_ns);
  }
  gyre_http_connection_due(connection, due_ns);
}

static bool is_late(const struct gyre_http_limits *limits, const struct gyre_http2_stream *stream, int64_t now_ns) {
  if (gyre_http_is_over(stream->out.progress_ns, limits->write_ns, now_ns)) return true;
  if (!stream->out.left_ns || !limits->response_rate_bytes || limits->write_ns < 0) return false;
  int64_t taken = (int64_t)(stream->out.sent_bytes - stream->out.left_bytes);
  return now_ns - stream->out.left_ns - limits->write_ns >
         gyre_http_earned_ns(taken, limits->response_rate_bytes, false);
}

static void reset_late_streams(struct gyre_http_connection *connection, int64_t now_ns) {
  const struct gyre_list *streams = &own(connection)->session.streams;
  GYRE_EACH(struct gyre_http2_stream, stream, streams, node) {
    bool left = !stream->owner && stream->started && gyre_list_empty(&stream->waiter.node);
    if (left && is_late(&connection->acceptor->limits, stream, now_ns))
      gyre_http2_stream_reset(stream, GYRE_HTTP2_CANCEL);
  }
}

/* Marks requests whose bodies are late; `deliver` refuses them. */
static void refuse_late_bodies(struct gyre_http_connection *connection, int64_t now_ns) {
  const struct gyre_list *streams = &own(connection)->session.streams;
  const struct gyre_http_limits *limits = &connection->acceptor->limits;
  GYRE_EACH(struct gyre_http2_stream, stream, streams, node) {
    const char *reason;
    int64_t waited_ns = now_ns - stream->in.headed_ns;
    if (!stream->awaited || stream->head.status) continue;
    int64_t left_ns = gyre_http_body_limit_ns(limits, gyre_bytes_held(stream->in.bytes), waited_ns, false, &reason);
    if (left_ns != 0 && !gyre_http_is_over(stream->in.came_ns, limits->read_ns, now_ns)) continue;
    stream->head.status = 408;
    stream->head.reason = reason;
    gyre_http2_stream_note(stream);
  }
}

static int receive(struct gyre_http_connection *connection);
static int deliver(struct gyre_http_connection *connection);

static void late(struct gyre_http_connection *connection) {
  struct gyre_http2_connection *http2 = connection->own;
  struct gyre_http2_session *session = &http2->session;
  const struct gyre_http_limits *limits = &connection->acceptor->limits;
  int64_t now_ns = gyre_http_loop(connection)->now_ns;
  int raised = 0;
  enter(connection);
  /* Bytes in the socket are not late, even if the loop has not reported them. */
  if (!http2->blocked_ns && gyre_transport_input_waits(&connection->transport)) {
    connection->readable = true;
    raised = receive(connection);
  }
  if (is_open(connection)) {
    if (gyre_http_is_over(http2->blocked_ns, limits->write_ns, now_ns) ||
        (!session->settled && gyre_http_is_over(http2->began_ns, limits->first_byte_ns, now_ns))) {
      gyre_http_connection_close(connection, http2->blocked_ns != 0);
    } else if (gyre_http_is_over(session->head_since_ns, limits->head_ns, now_ns)) {
      gyre_http2_session_terminate(session, GYRE_HTTP2_ENHANCE_YOUR_CALM);
    } else if (gyre_http_is_over(http2->warned_ns, GYRE_HTTP_GRACE_NS, now_ns) ||
               (session->stream_count == 0 && gyre_http_is_over(http2->idle_ns, limits->keep_alive_ns, now_ns))) {
      http2->warned_ns = 0;
      gyre_http2_session_go(session);
    }
    if (session->awaited_count && gyre_http_is_over(http2->bodies_ns, BODIES_LOOKED_AT_NS, now_ns)) {
      http2->bodies_ns = now_ns;
      refuse_late_bodies(connection, now_ns);
      if (!raised) raised = deliver(connection);
    }
    if (gyre_http_is_over(http2->looked_ns, limits->write_ns, now_ns)) {
      http2->looked_ns = now_ns;
      reset_late_streams(connection, now_ns);
    }
    gyre_http2_connection_send(connection);
  }
  leave(connection, raised);
}

/* --- receiving --- */

static struct gyre_http_request request_of(struct gyre_http2_stream *stream) {
  return (struct gyre_http_request){.head = &stream->head,
                                    .bytes = stream->block.text ? stream->block.text->bytes : NULL,
                                    .stream = stream,
                                    .status = stream->head.status,
                                    .reason = stream->head.reason,
                                    .placed = stream->placed,
                                    .since_ns = stream->waiter.since_ns};
}

/* Returns 0, or the state of an exception that the caller passes on after cleaning up. */
static int serve(struct gyre_http_connection *connection, struct gyre_http2_stream *stream) {
  struct gyre_http_request request = request_of(stream);
  return gyre_http_handler_start(connection, &request, &gyre_http2_exchange_operations);
}

static void refuse(struct gyre_http2_stream *stream, const char *reason) {
  stream->head.status = 503;
  stream->head.reason = reason;
}

static void on_verdict(struct gyre_admission_waiter *waiter, bool placed) {
  struct gyre_http2_stream *stream = GYRE_CONTAINER(waiter, struct gyre_http2_stream, waiter);
  struct gyre_http_connection *connection =
      GYRE_CONTAINER(stream->session, struct gyre_http2_connection, session)->connection;
  stream->placed = placed;
  if (!placed) refuse(stream, GYRE_HTTP_WAITED_TOO_LONG);
  gyre_http2_stream_uncount_head(stream);
  enter(connection);
  leave(connection, serve(connection, stream));
}

/* False if the stream waits for a place. */
static bool is_admitted(struct gyre_http_connection *connection, struct gyre_http2_stream *stream) {
  struct gyre_http_acceptor *acceptor = connection->acceptor;
  struct gyre_http_request request = request_of(stream);
  if (request.status || gyre_http_admit(acceptor, &request)) {
    stream->placed = request.placed;
    return true;
  }
  stream->waiter.decided = on_verdict;
  const char *reason =
      gyre_http_capacity_enter(&acceptor->capacity, &stream->waiter, &stream->counted,
                               gyre_http2_stream_head_bytes(stream), own(connection)->session.input_over);
  if (reason) refuse(stream, reason);
  return reason;
}

/* Counts a partial head's memory. If the budget is exceeded, the complete head will be refused. */
static void count_partial(struct gyre_http_connection *connection) {
  struct gyre_http_acceptor *acceptor = connection->acceptor;
  struct gyre_http2_stream *stream = gyre_http2_session_partial(&own(connection)->session);
  if (!stream || gyre_http2_stream_count_head(stream)) return;
  acceptor->statistics.refused++;
  stream->head = (struct gyre_http_head){0}; /* its parts were in the block */
  stream->scheme = stream->protocol = (struct gyre_http_slice){0};
  refuse(stream, "too many requests have come in part");
  gyre_http2_stream_drop_head(stream);
}

static void start(struct gyre_http2_stream *stream) {
  stream->started = true;
  gyre_http2_stream_await(stream, false);
  gyre_http2_stream_uncount_head(stream);
}

/* Accepts a new request, or refuses it if the connection has too many streams or is ending. Reset
 * streams count while their handlers run (CVE-2023-44487). */
static bool is_taken(struct gyre_http_connection *connection, struct gyre_http2_stream *stream) {
  struct gyre_http2_session *session = &own(connection)->session;
  struct gyre_http_acceptor *acceptor = connection->acceptor;
  if (session->stream_count > session->limits->streams || stream->id > session->ids.served) {
    start(stream);
    gyre_http2_stream_refuse(stream);
    return false;
  }
  stream->counts = true;
  stream->in.headed_ns = stream->in.came_ns = session->now_ns;
  gyre_http_connection_set_idle(connection, false);
  if (++connection->requests >= acceptor->limits.keep_alive_requests) gyre_http2_session_go(session);
  return true;
}

/* True if the body, or enough of it, must still come before the request takes a limited place. */
static bool lacks_body(struct gyre_http_connection *connection, const struct gyre_http2_stream *stream) {
  const struct gyre_http_limits *limits = &connection->acceptor->limits;
  const struct gyre_http_head *head = &stream->head;
  if (!connection->acceptor->capacity.admission.running_limit || head->status || stream->in.ended ||
      stream->session->input_over)
    return false;
  if (head->content_length > limits->body_bytes || head->method_number == GYRE_HTTP_METHOD_CONNECT) return false;
  size_t needed = limits->body_ahead_bytes < limits->http2.stream_window_bytes ? limits->body_ahead_bytes
                                                                               : limits->http2.stream_window_bytes;
  return gyre_bytes_held(stream->in.bytes) < needed;
}

/* Makes the stream wait for its body. Returns false if waiting heads hold too much memory. */
static bool await_body(struct gyre_http_connection *connection, struct gyre_http2_stream *stream) {
  if (stream->awaited) return true;
  if (!stream->session->awaited_count) own(connection)->bodies_ns = stream->in.headed_ns;
  gyre_http2_stream_await(stream, true);
  if (!gyre_http2_stream_count_head(stream)) {
    connection->acceptor->statistics.shed++;
    refuse(stream, GYRE_HTTP_WAITING_HOLD_TOO_MUCH);
    return false;
  }
  if (stream->head.flags & GYRE_HTTP_HEAD_EXPECT_CONTINUE && !stream->in.bytes)
    (void)gyre_http2_stream_respond(stream, 100, NULL, 0, false);
  return true;
}

/* True if bodies exceed their budget and the app does not read this body. */
static bool holds_too_much(struct gyre_http_connection *connection, const struct gyre_http2_stream *stream) {
  const struct gyre_http_connection *tunnel = stream->tunnel ? stream->owner : NULL;
  const struct gyre_http_exchange *exchange = exchange_of(stream);
  bool reads = tunnel ? !tunnel->transport.input : exchange && exchange->reader;
  return !reads && gyre_http_budget_is_over(&connection->acceptor->capacity.input) && stream->in.counted &&
         !stream->closed;
}

/* Drops the body's bytes. Returns false if the caller must send a refusal. */
static bool drop_body(struct gyre_http_connection *connection, struct gyre_http2_stream *stream) {
  struct gyre_http_acceptor *acceptor = connection->acceptor;
  acceptor->statistics.refused++;
  gyre_http2_stream_discard(stream);
  if (stream->owner) {
    gyre_http2_stream_reset(stream, GYRE_HTTP2_ENHANCE_YOUR_CALM);
    wake(stream);
    return true;
  }
  if (stream->started && gyre_list_empty(&stream->waiter.node)) return true; /* already refused */
  gyre_admission_withdraw(&acceptor->capacity.admission, &stream->waiter);
  refuse(stream, GYRE_HTTP_BODIES_HOLD_TOO_MUCH);
  return false;
}

static int deliver(struct gyre_http_connection *connection) {
  struct gyre_http2_stream *stream;
  int raised = 0;
  while (!raised && is_open(connection) && (stream = gyre_http2_session_changed(&own(connection)->session, true))) {
    if (holds_too_much(connection, stream) && !drop_body(connection, stream)) {
      start(stream);
      raised = serve(connection, stream);
    } else if (stream->started) {
      if (stream->owner) wake(stream);
    } else if (stream->counts || is_taken(connection, stream)) {
      if (lacks_body(connection, stream) && await_body(connection, stream)) continue;
      start(stream);
      if (is_admitted(connection, stream)) raised = serve(connection, stream);
    }
  }
  return raised;
}

/* `bytes` may be in the transport's input, which this function frees. */
static int take(struct gyre_http_connection *connection, const char *bytes, size_t length) {
  struct gyre_http2_session *session = &own(connection)->session;
  uint64_t malformed = session->malformed;
  gyre_http2_session_receive(session, bytes, length, gyre_loop_coarse_now(gyre_http_loop(connection)));
  gyre_bytes_free(&connection->transport.input);
  /* Sends resets first, so that no handler starts for an invalid stream (CVE-2025-8671). */
  if (gyre_http2_session_has_output(session) && !gyre_transport_unsent(&connection->transport))
    (void)send_some(connection);
  connection->acceptor->statistics.malformed += session->malformed - malformed;
  int raised = deliver(connection);
  count_partial(connection);
  gyre_http2_connection_send(connection);
  return raised;
}

/* Serves the remaining requests, because a half-closed client may still read. If the client is
 * gone, a reset will follow. */
static int end_input(struct gyre_http_connection *connection) {
  struct gyre_http2_session *session = &own(connection)->session;
  connection->readable = false;
  if (session->stream_count == 0 || gyre_transport_is_reset(&connection->transport)) {
    gyre_http_connection_close(connection, false);
    return 0;
  }
  if (session->input_over) return 0;
  connection->hung_up = true;
  gyre_http2_session_end_input(session);
  GYRE_EACH(struct gyre_http2_stream, stream, &session->streams, node) {
    if (!gyre_list_empty(&stream->waiter.node))
      gyre_admission_put_last(&connection->acceptor->capacity.admission, &stream->waiter);
    if (exchange_of(stream)) gyre_http_exchange_peer_ended(stream->owner);
  }
  gyre_http2_connection_send(connection);
  return deliver(connection);
}

/* First delivers streams that an exception has left undelivered. */
static int receive(struct gyre_http_connection *connection) {
  struct gyre_http2_connection *http2 = connection->own;
  int receptions = 0;
  int raised = deliver(connection);
  while (!raised && is_open(connection) && connection->readable && !http2->session.failed &&
         !gyre_http_connection_gives_way(connection, &receptions)) {
    const char *bytes;
    ssize_t count = gyre_http_connection_receive(connection, &bytes);
    if (count == -EAGAIN) break;
    if (count < 0) {
      gyre_http_connection_close(connection, true);
    } else {
      raised = count == 0 ? end_input(connection) : take(connection, bytes, (size_t)count);
    }
  }
  if (is_open(connection) && http2->session.failed) send_all(connection);
  return raised;
}

static void readable(struct gyre_http_connection *connection) {
  enter(connection);
  leave(connection, receive(connection));
}

/* --- life --- */

static void settle(struct gyre_http_connection *connection) {
  struct gyre_http2_connection *http2 = connection->own;
  if (http2->entered) return;
  bool over = is_open(connection) && !gyre_deferred_waits(&http2->sending) &&
              gyre_transport_unsent(&connection->transport) == 0 && gyre_http2_session_is_over(&http2->session);
  if (over && !http2->session.going) { /* sends GOAWAY with the last request's number */
    gyre_http2_session_go(&http2->session);
    gyre_http2_connection_send(connection);
  } else if (over) {
    close_or_linger(connection);
    if (connection->state == GYRE_HTTP_LINGERING && connection->readable) {
      connection->watch.ready(gyre_http_loop(connection), &connection->watch,
                              GYRE_READABLE); /* may free the connection */
      return;
    }
  }
  if (connection->state == GYRE_HTTP_CLOSED) {
    gyre_http_connection_free(connection);
    return;
  }
  if (!is_open(connection)) return;
  if (!connection->is_idle && http2->session.stream_count == 0) {
    gyre_http_connection_set_idle(connection, true);
    http2->idle_ns = gyre_loop_coarse_now(gyre_http_loop(connection));
  }
  schedule(connection);
}

void gyre_http2_connection_leave_stream(struct gyre_http_connection *connection, struct gyre_http2_stream *stream) {
  struct gyre_http2_connection *http2 = connection->own;
  stream->out.progress_ns = stream->out.left_ns = gyre_loop_coarse_now(gyre_http_loop(connection));
  stream->out.left_bytes = stream->out.sent_bytes;
  gyre_http2_stream_release(stream);
  http2->running--;
  gyre_http2_connection_send(connection);
  settle(connection);
}

static void drain(struct gyre_http_connection *connection) {
  struct gyre_http2_connection *http2 = connection->own;
  if (!is_open(connection) || http2->warned_ns || http2->session.going) return;
  http2->warned_ns = gyre_loop_now(gyre_http_loop(connection));
  gyre_http2_session_warn(&http2->session);
  gyre_http2_connection_send(connection);
  schedule(connection);
}

static void begin(struct gyre_http_connection *connection, const char *bytes, size_t length) {
  struct gyre_http_acceptor *acceptor = connection->acceptor;
  struct gyre_http2_connection *http2 = calloc(1, sizeof(*http2));
  int64_t now_ns = gyre_loop_coarse_now(gyre_http_loop(connection));
  if (!http2 ||
      gyre_http2_session_init(&http2->session, &acceptor->limits.http2, &acceptor->capacity, false, now_ns) < 0) {
    free(http2);
    gyre_http_connection_end(connection, true);
    return;
  }
  http2->connection = connection;
  http2->room.fd = -1;
  http2->room.ready = on_room;
  http2->began_ns = http2->idle_ns = now_ns;
  gyre_deferred_init(&http2->sending, at_the_end);
  connection->own = http2;
  connection->state = GYRE_HTTP_SERVING;
  connection->readable = true;
  gyre_http_connection_set_idle(connection, true);
  gyre_http2_connection_send(connection);
  schedule(connection);
  if (acceptor->draining) drain(connection);
  enter(connection);
  int raised = length ? take(connection, bytes, length) : 0;
  leave(connection, raised || !is_open(connection) ? raised : receive(connection));
}

/* Closes all streams and wakes the fibers that wait for them. */
static void detached(struct gyre_http_connection *connection) {
  struct gyre_http2_connection *http2 = connection->own;
  if (!http2) return;
  struct gyre_list *streams = &http2->session.streams;
  gyre_deferred_cancel(&http2->sending);
  if (connection->abandoned) http2->room.fd = -1;
  gyre_loop_unwatch(gyre_http_loop(connection), &http2->room);
  GYRE_EACH(struct gyre_http2_stream, stream, streams, node) {
    struct gyre_http_exchange *exchange = exchange_of(stream);
    stream->closed = true;
    gyre_admission_withdraw(&connection->acceptor->capacity.admission, &stream->waiter);
    if (stream->tunnel && connection->abandoned) {
      stream->tunnel = false;
      stream->owner = NULL;
      http2->running--;
    }
    if (stream->owner && !connection->abandoned) wake(stream);
    if (!exchange) continue;
    if (!connection->abandoned && !stream->out.over) gyre_http_exchange_peer_ended(exchange);
    exchange->reader = gyre_http2_of(exchange)->writer = NULL;
  }
}

static bool free_own(struct gyre_http_connection *connection, bool gone) {
  struct gyre_http2_connection *http2 = connection->own;
  if (!http2) return true;
  if (!gone && (http2->running || http2->entered)) return false;
  gyre_http2_session_free(&http2->session);
  free(http2);
  connection->own = NULL;
  return true;
}

void gyre_init_http2_connection(void) {
  static const struct gyre_http_protocol protocol = {GYRE_HTTP_PROTOCOL, .alpn = "h2", .preface = GYRE_HTTP2_PREFACE};
  gyre_http_protocols.http2 = &protocol;
}
