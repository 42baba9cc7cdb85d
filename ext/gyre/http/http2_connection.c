/*
 * One connection of HTTP/2 on the loop: its frames over the transport, the fibers that wait for
 * them, times, the end. What is to be sent goes out in one call at the turn's end. It never waits.
 */
#include "feature.h"

#ifdef GYRE_HAVE_NGHTTP2

#include "http/http2.h"

#include <errno.h>
#include <stdlib.h>

#define SENDS_AT_ONCE 8
#define BODIES_LOOKED_AT_NS INT64_C(500000000) /* how often awaited bodies are checked */

static struct gyre_loop *loop_of(const struct gyre_http1_connection *connection) {
  return &connection->acceptor->scheduler->loop;
}

static bool is_open(const struct gyre_http1_connection *connection) { return connection->state == GYRE_HTTP1_SERVING; }

static void wake(struct gyre_http1_connection *connection, struct gyre_http_exchange *exchange) {
  struct gyre_scheduler *scheduler = connection->acceptor->scheduler;
  if (exchange->reader) {
    if (exchange->reader->came_ns < 0) exchange->reader->came_ns = scheduler->loop.unseen_ns;
    gyre_wake(scheduler, &exchange->reader->wait.parked);
  }
  if (exchange->writer) gyre_wake(scheduler, &exchange->writer->wait.parked);
  const struct gyre_http2_stream *stream = exchange->stream;
  if (stream->closed && stream->departed && !stream->own_reset) gyre_http_exchange_peer_ended(exchange);
}

/* --- sending --- */

static VALUE make_stop(VALUE argument) {
  (void)argument;
  return gyre_http1_cancellation("Gyre::Stop", "the client has broken HTTP/2, and its connection ends");
}

/* The client has flooded the server: what runs for it ends. */
static void interrupt_handlers(struct gyre_http1_connection *connection) {
  const struct gyre_list *streams = &connection->http2->session.streams;
  int state = 0;
  if (!connection->http2->running) return;
  VALUE stop = rb_protect(make_stop, Qnil, &state);
  if (state) rb_set_errinfo(Qnil);
  for (struct gyre_list *node = streams->next; !state && node != streams; node = node->next) {
    const struct gyre_http_exchange *exchange = GYRE_CONTAINER(node, struct gyre_http2_stream, node)->owner;
    if (exchange && !NIL_P(exchange->fiber))
      gyre_interrupt_fiber(connection->acceptor->scheduler, exchange->fiber, stop);
  }
}

/* What was sent last is not to be lost to a reset: the client may send frames until it has read the
 * GOAWAY, and windows as it takes the last response. Where it has ended its side it sends nothing
 * more. */
static void close_or_linger(struct gyre_http1_connection *connection) {
  if (connection->http2->session.failed) interrupt_handlers(connection);
  if (connection->http2->session.input_over) {
    gyre_http1_connection_close(connection, false);
  } else {
    gyre_http1_connection_linger(connection);
  }
}

/* The socket takes no more: goes on when it does. */
static void wait_for_room(struct gyre_http1_connection *connection) {
  struct gyre_http2_connection *http2 = connection->http2;
  struct gyre_loop *loop = loop_of(connection);
  unsigned wants = connection->transport.write.wants;
  if (!http2->blocked_ns) http2->blocked_ns = gyre_loop_now(loop);
  gyre_loop_drained(loop, connection->transport.fd, wants);
  if (http2->room.fd >= 0 && http2->room.interest == wants) return;
  gyre_loop_unwatch(loop, &http2->room);
  if (gyre_loop_watch(loop, &http2->room, connection->transport.fd, wants) < 0)
    gyre_http1_connection_close(connection, true);
}

/* Sends what is queued in the transport, and fills it again; false: no more can be sent now. */
static bool send_some(struct gyre_http1_connection *connection) {
  struct gyre_http2_connection *http2 = connection->http2;
  struct gyre_transport *transport = &connection->transport;
  int error = gyre_transport_unsent(transport) > 0 ? gyre_transport_flush(transport) : 0;
  if (error == 0) {
    http2->blocked_ns = 0;
    char *bytes = gyre_lent_plain();
    size_t length = bytes ? gyre_http2_session_send(&http2->session, bytes, GYRE_LENT_BYTES,
                                                    gyre_loop_coarse_now(loop_of(connection)))
                          : 0;
    if (http2->session.broken) gyre_http1_connection_close(connection, true);
    if (length == 0 || http2->session.broken) return false;
    ssize_t sent = gyre_transport_sendv(transport, &(struct iovec){bytes, length}, 1);
    if (sent == -EAGAIN) sent = 0;
    error = sent < 0 ? (int)sent : 0;
    if (error == 0 && (size_t)sent < length)
      error = gyre_transport_write(transport, bytes + sent, length - (size_t)sent);
    if (error == 0 && gyre_transport_unsent(transport) > 0) error = gyre_transport_flush(transport);
  }
  if (error == -EAGAIN) {
    wait_for_room(connection);
  } else if (error < 0) {
    gyre_http1_connection_close(connection, false);
  }
  return error == 0;
}

/* Fibers that wait for room, or whose stream has ended. New streams are left to `deliver`. */
static void wake_changed(struct gyre_http1_connection *connection) {
  struct gyre_http2_stream *stream;
  while ((stream = gyre_http2_session_changed(&connection->http2->session, false))) wake(connection, stream->owner);
}

/* What is called from the loop is between these two: within, the connection is not freed. `raised`
 * goes on to the loop then. */
static void enter(struct gyre_http1_connection *connection) { connection->http2->entered++; }

static void leave(struct gyre_http1_connection *connection, int raised) {
  VALUE error = raised ? rb_errinfo() : Qnil;
  if (raised) gyre_loop_report_again(loop_of(connection), &connection->watch, GYRE_READABLE); /* what it has left */
  connection->http2->entered--;
  gyre_http2_connection_settle(connection);
  if (!raised) return;
  if (rb_obj_is_kind_of(error, rb_eException)) rb_set_errinfo(error);
  rb_jump_tag(raised);
}

static void send_all(struct gyre_http1_connection *connection) {
  int budget = SENDS_AT_ONCE;
  enter(connection);
  while (is_open(connection) && send_some(connection) && --budget > 0) continue;
  if (is_open(connection) && budget == 0) gyre_http2_connection_send(connection);
  wake_changed(connection);
  leave(connection, 0);
}

static void at_the_end(struct gyre_loop *loop, struct gyre_deferred *sending) {
  (void)loop;
  send_all(GYRE_CONTAINER(sending, struct gyre_http2_connection, sending)->connection);
}

static void on_room(struct gyre_loop *loop, struct gyre_watch *room, unsigned ready) {
  struct gyre_http1_connection *connection = GYRE_CONTAINER(room, struct gyre_http2_connection, room)->connection;
  (void)ready;
  gyre_loop_unwatch(loop, room);
  send_all(connection);
}

void gyre_http2_connection_send(struct gyre_http1_connection *connection) {
  if (is_open(connection)) gyre_loop_defer(loop_of(connection), &connection->http2->sending);
}

/* --- time --- */

static void sooner(int64_t *due_ns, int64_t from_ns, int64_t timeout_ns) {
  if (timeout_ns >= 0 && from_ns + timeout_ns < *due_ns) *due_ns = from_ns + timeout_ns;
}

/* When something has to be looked at next. */
static void schedule(struct gyre_http1_connection *connection) {
  struct gyre_http2_connection *http2 = connection->http2;
  const struct gyre_http2_session *session = &http2->session;
  const struct gyre_http1_limits_table *limits = &connection->acceptor->limits;
  int64_t now_ns = gyre_loop_coarse_now(loop_of(connection)), due_ns = INT64_MAX;
  if (!session->settled) sooner(&due_ns, http2->began_ns, limits->first_byte_ns);
  if (session->head_since_ns) sooner(&due_ns, session->head_since_ns, limits->head_ns);
  if (http2->blocked_ns) sooner(&due_ns, http2->blocked_ns, limits->write_ns);
  if (http2->warned_ns) sooner(&due_ns, http2->warned_ns, GYRE_HTTP1_NEW_NS);
  if (session->awaited_count) sooner(&due_ns, http2->bodies_ns, BODIES_LOOKED_AT_NS);
  if (session->stream_count == 0) sooner(&due_ns, http2->idle_ns, limits->keep_alive_ns);
  /* Responses whose handlers are done. Other frames of the client do not put this off. */
  if (session->stream_count <= http2->running) {
    http2->looked_ns = 0;
  } else {
    if (!http2->looked_ns) http2->looked_ns = now_ns;
    sooner(&due_ns, http2->looked_ns, limits->write_ns);
  }
  gyre_http1_connection_deadline(connection, due_ns == INT64_MAX ? -1 : due_ns > now_ns ? due_ns - now_ns : 0);
}

static bool is_over(int64_t since_ns, int64_t timeout_ns, int64_t now_ns) {
  return since_ns && timeout_ns >= 0 && now_ns - since_ns >= timeout_ns;
}

/* Nothing of the response was taken for too long, or too little of it. */
static bool is_late(const struct gyre_http1_limits_table *limits, const struct gyre_http2_stream *stream,
                    int64_t now_ns) {
  if (is_over(stream->progress_ns, limits->write_ns, now_ns)) return true;
  if (!stream->left_ns || !limits->response_rate || limits->write_ns < 0) return false;
  int64_t taken = (int64_t)(stream->sent_bytes - stream->left_bytes);
  return now_ns - stream->left_ns - limits->write_ns > gyre_http_earned_ns(taken, limits->response_rate, false);
}

/* Clients that do not take what is left of their responses. */
static void reset_late_streams(struct gyre_http1_connection *connection, int64_t now_ns) {
  const struct gyre_list *streams = &connection->http2->session.streams;
  for (struct gyre_list *node = streams->next; node != streams; node = node->next) {
    struct gyre_http2_stream *stream = GYRE_CONTAINER(node, struct gyre_http2_stream, node);
    bool left = !stream->owner && stream->started && gyre_list_empty(&stream->waiter.node);
    if (left && is_late(&connection->acceptor->limits, stream, now_ns))
      gyre_http2_stream_reset(stream, GYRE_HTTP2_CANCEL);
  }
}

/* Clients that do not send the bodies that are awaited: these requests are refused by `deliver`. */
static void refuse_late_bodies(struct gyre_http1_connection *connection, int64_t now_ns) {
  const struct gyre_list *streams = &connection->http2->session.streams;
  const struct gyre_http1_limits_table *limits = &connection->acceptor->limits;
  for (struct gyre_list *node = streams->next; node != streams; node = node->next) {
    struct gyre_http2_stream *stream = GYRE_CONTAINER(node, struct gyre_http2_stream, node);
    const char *reason;
    int64_t waited_ns = now_ns - stream->headed_ns;
    if (!stream->awaited || stream->head.status) continue;
    int64_t left_ns = gyre_http_body_limit_ns(limits, gyre_bytes_held(stream->input), waited_ns, false, &reason);
    if (left_ns != 0 && !is_over(stream->came_ns, limits->read_ns, now_ns)) continue;
    stream->head.status = 408;
    stream->head.reason = reason;
    gyre_http2_stream_note(stream);
  }
}

static int receive(struct gyre_http1_connection *connection);
static int deliver(struct gyre_http1_connection *connection);

static void timed(struct gyre_http1_connection *connection) {
  struct gyre_http2_connection *http2 = connection->http2;
  struct gyre_http2_session *session = &http2->session;
  const struct gyre_http1_limits_table *limits = &connection->acceptor->limits;
  int64_t now_ns = loop_of(connection)->now_ns;
  int raised = 0;
  enter(connection);
  /* What is there has come in time, reported or not. */
  if (!http2->blocked_ns && gyre_transport_input_waits(&connection->transport)) {
    connection->readable = true;
    raised = receive(connection);
  }
  if (is_open(connection)) {
    if (is_over(http2->blocked_ns, limits->write_ns, now_ns) ||
        (!session->settled && is_over(http2->began_ns, limits->first_byte_ns, now_ns))) {
      gyre_http1_connection_close(connection, http2->blocked_ns != 0);
    } else if (is_over(session->head_since_ns, limits->head_ns, now_ns)) {
      gyre_http2_session_terminate(session, GYRE_HTTP2_ENHANCE_YOUR_CALM);
    } else if (is_over(http2->warned_ns, GYRE_HTTP1_NEW_NS, now_ns) ||
               (session->stream_count == 0 && is_over(http2->idle_ns, limits->keep_alive_ns, now_ns))) {
      http2->warned_ns = 0;
      gyre_http2_session_go(session);
    }
    if (session->awaited_count && is_over(http2->bodies_ns, BODIES_LOOKED_AT_NS, now_ns)) {
      http2->bodies_ns = now_ns;
      refuse_late_bodies(connection, now_ns);
      if (!raised) raised = deliver(connection);
    }
    if (is_over(http2->looked_ns, limits->write_ns, now_ns)) {
      http2->looked_ns = now_ns;
      reset_late_streams(connection, now_ns);
    }
    gyre_http2_connection_send(connection);
  }
  leave(connection, raised);
}

/* --- receiving --- */

/* Functions that may begin a handler return 0, or with what it raises to end the program: the
 * callers leave in order first. */
static int serve(struct gyre_http1_connection *connection, struct gyre_http2_stream *stream) {
  return connection->acceptor->serve_stream(connection, stream);
}

static void serve_waiting(struct gyre_http1_connection *connection, struct gyre_http2_stream *stream) {
  gyre_http2_stream_uncount_head(stream);
  enter(connection);
  leave(connection, serve(connection, stream));
}

static struct gyre_http1_connection *waiting(struct gyre_admission_waiter *waiter, struct gyre_http2_stream **stream) {
  *stream = GYRE_CONTAINER(waiter, struct gyre_http2_stream, waiter);
  return GYRE_CONTAINER((*stream)->session, struct gyre_http2_connection, session)->connection;
}

static void on_place(struct gyre_admission_waiter *waiter) {
  struct gyre_http2_stream *stream;
  struct gyre_http1_connection *connection = waiting(waiter, &stream);
  stream->placed = true;
  serve_waiting(connection, stream);
}

static void refuse(struct gyre_http2_stream *stream, const char *reason) {
  stream->head.status = 503;
  stream->head.reason = reason;
}

static void on_late(struct gyre_admission_waiter *waiter) {
  struct gyre_http2_stream *stream;
  struct gyre_http1_connection *connection = waiting(waiter, &stream);
  refuse(stream, "the server has too many requests, and this one waited for its turn too long");
  serve_waiting(connection, stream);
}

/* False: it waits for a place. */
static bool is_admitted(struct gyre_http1_connection *connection, struct gyre_http2_stream *stream) {
  struct gyre_http1_request request = {.head = &stream->head,
                                       .bytes = stream->block.text ? stream->block.text->bytes : NULL,
                                       .status = stream->head.status};
  bool admitted = gyre_http1_connection_admit(connection, &request);
  stream->placed = request.placed;
  if (admitted) return true;
  stream->waiter.start = on_place;
  stream->waiter.refuse = on_late;
  struct gyre_http1_acceptor *acceptor = connection->acceptor;
  gyre_http2_stream_count_head(stream);
  if (acceptor->capacity->heads.used > acceptor->capacity->heads.limit) {
    acceptor->capacity->admission.refused++;
    refuse(stream, "the requests that wait hold too much memory");
  } else if (gyre_admission_enter(&acceptor->capacity->admission, &stream->waiter) == GYRE_ADMISSION_REFUSED) {
    refuse(stream, "too many requests wait already");
  } else {
    if (connection->http2->session.input_over) gyre_admission_put_last(&acceptor->capacity->admission, &stream->waiter);
    return false;
  }
  gyre_http2_stream_uncount_head(stream);
  return true;
}

/* Of a head that has come in part the memory is counted. Where all of them hold too much this one
 * is refused, once it is there. */
static void count_partial(struct gyre_http1_connection *connection) {
  struct gyre_http1_acceptor *acceptor = connection->acceptor;
  struct gyre_http2_stream *stream = gyre_http2_session_partial(&connection->http2->session);
  if (!stream || !gyre_http2_stream_count_head(stream) ||
      acceptor->capacity->heads.used <= acceptor->capacity->heads.limit)
    return;
  acceptor->refused++;
  stream->head = (struct gyre_http1_head){0}; /* it points into the block */
  stream->scheme = stream->protocol = (struct gyre_http1_slice){0};
  refuse(stream, "too many requests have come in part");
  gyre_http2_stream_drop_head(stream);
}

/* The request is served from now on, or never. */
static void start(struct gyre_http2_stream *stream) {
  stream->started = true;
  gyre_http2_stream_await(stream, false);
  gyre_http2_stream_uncount_head(stream);
}

/* Whether the request counts among the connection's; asked once. Streams that the client has reset
 * count as long as their handlers run (CVE-2023-44487). */
static bool is_taken(struct gyre_http1_connection *connection, struct gyre_http2_stream *stream) {
  struct gyre_http2_session *session = &connection->http2->session;
  struct gyre_http1_acceptor *acceptor = connection->acceptor;
  if (session->stream_count > session->limits->streams || stream->id > session->served_id) {
    start(stream);
    stream->discards = true;
    gyre_http2_stream_refuse(stream);
    return false;
  }
  stream->counts = true;
  stream->headed_ns = stream->came_ns = session->now_ns;
  if (connection->is_idle) {
    connection->is_idle = false;
    acceptor->idle--;
  }
  if (++connection->requests >= acceptor->limits.requests) gyre_http2_session_go(session);
  return true;
}

/* Where places are few, a body is there before one is taken: all of it, or as much as is read
 * ahead. */
static bool lacks_body(struct gyre_http1_connection *connection, const struct gyre_http2_stream *stream) {
  const struct gyre_http1_limits_table *limits = &connection->acceptor->limits;
  const struct gyre_http1_head *head = &stream->head;
  if (!limits->running || head->status || stream->input_ended || stream->session->input_over) return false;
  if (head->content_length > limits->body_bytes || head->method_number == GYRE_HTTP1_METHOD_CONNECT) return false;
  size_t needed = limits->body_ahead < limits->http2.stream_window ? limits->body_ahead : limits->http2.stream_window;
  return gyre_bytes_held(stream->input) < needed;
}

/* False: the memory of its head is too much. */
static bool await_body(struct gyre_http1_connection *connection, struct gyre_http2_stream *stream) {
  struct gyre_http1_acceptor *acceptor = connection->acceptor;
  if (stream->awaited) return true;
  if (!stream->session->awaited_count) connection->http2->bodies_ns = stream->headed_ns;
  gyre_http2_stream_await(stream, true);
  gyre_http2_stream_count_head(stream);
  if (gyre_http_budget_is_over(&acceptor->capacity->heads)) {
    acceptor->capacity->admission.refused++;
    refuse(stream, "the requests that wait hold too much memory");
    return false;
  }
  if (stream->head.flags & GYRE_HTTP1_EXPECT_CONTINUE && !stream->input)
    (void)gyre_http2_stream_interim(stream, 100, NULL, 0);
  return true;
}

/* All bodies together hold too much, and of this one more has come, which the app does not read. */
static bool holds_too_much(struct gyre_http1_connection *connection, const struct gyre_http2_stream *stream) {
  const struct gyre_http_exchange *exchange = stream->owner;
  return gyre_http_budget_is_over(&connection->acceptor->capacity->input) && stream->input && !stream->closed &&
         !(exchange && exchange->reader);
}

/* False: it is to be served, with the refusal. */
static bool drop_body(struct gyre_http1_connection *connection, struct gyre_http2_stream *stream) {
  struct gyre_http1_acceptor *acceptor = connection->acceptor;
  acceptor->refused++;
  gyre_http2_stream_discard(stream);
  if (stream->owner) {
    gyre_http2_stream_reset(stream, GYRE_HTTP2_ENHANCE_YOUR_CALM);
    wake(connection, stream->owner);
    return true;
  }
  if (stream->started && gyre_list_empty(&stream->waiter.node)) return true; /* refused before */
  gyre_admission_withdraw(&acceptor->capacity->admission, &stream->waiter);
  refuse(stream, "the bodies of requests hold too much memory");
  return false;
}

/* Begins what has arrived, and wakes what waited for it. */
static int deliver(struct gyre_http1_connection *connection) {
  struct gyre_http2_stream *stream;
  int raised = 0;
  while (!raised && is_open(connection) && (stream = gyre_http2_session_changed(&connection->http2->session, true))) {
    if (holds_too_much(connection, stream) && !drop_body(connection, stream)) {
      start(stream);
      raised = serve(connection, stream);
    } else if (stream->started) {
      if (stream->owner) wake(connection, stream->owner);
    } else if (stream->counts || is_taken(connection, stream)) {
      if (lacks_body(connection, stream) && await_body(connection, stream)) continue;
      start(stream);
      if (is_admitted(connection, stream)) raised = serve(connection, stream);
    }
  }
  return raised;
}

/* The bytes may be those of the transport's input. */
static int take(struct gyre_http1_connection *connection, const char *bytes, size_t length) {
  struct gyre_http2_session *session = &connection->http2->session;
  uint64_t malformed = session->malformed;
  gyre_http2_session_receive(session, bytes, length, gyre_loop_coarse_now(loop_of(connection)));
  gyre_bytes_free(&connection->transport.input);
  /* What is wrong with a stream is known when its reset is out: then no handler begins for it
   * (CVE-2025-8671). */
  if (gyre_http2_session_has_output(session) && !gyre_transport_unsent(&connection->transport))
    (void)send_some(connection);
  connection->acceptor->malformed += session->malformed - malformed;
  int raised = deliver(connection);
  count_partial(connection);
  gyre_http2_connection_send(connection);
  return raised;
}

/* An end is reported once; where a backend registers for each report again (poll), a reset that
 * follows is reported only to a watch that still stands: one for urgent data, which never comes. */
static void watch_for_reset(struct gyre_http1_connection *connection) {
  struct gyre_loop *loop = loop_of(connection);
  int fd = connection->transport.fd;
  gyre_loop_unwatch(loop, &connection->watch);
  if (gyre_loop_watch(loop, &connection->watch, fd, GYRE_PRIORITY | GYRE_STANDING) < 0)
    gyre_http1_connection_close(connection, true);
}

/* The client sends no more. It may still read: what it has asked for is served. Where it is gone
 * the GOAWAY meets a reset, which is reported. */
static int end_input(struct gyre_http1_connection *connection) {
  struct gyre_http2_session *session = &connection->http2->session;
  connection->readable = false;
  if (session->stream_count == 0 || gyre_transport_is_reset(&connection->transport)) {
    gyre_http1_connection_close(connection, false);
    return 0;
  }
  if (session->input_over) return 0;
  connection->hung_up = true;
  watch_for_reset(connection);
  gyre_http2_session_end_input(session);
  for (struct gyre_list *node = session->streams.next; node != &session->streams; node = node->next) {
    struct gyre_http2_stream *stream = GYRE_CONTAINER(node, struct gyre_http2_stream, node);
    if (!gyre_list_empty(&stream->waiter.node))
      gyre_admission_put_last(&connection->acceptor->capacity->admission, &stream->waiter);
    if (stream->owner) gyre_http_exchange_peer_ended(stream->owner);
  }
  gyre_http2_connection_send(connection);
  return deliver(connection);
}

/* Streams come first that an exception has kept from being delivered. */
static int receive(struct gyre_http1_connection *connection) {
  struct gyre_http2_connection *http2 = connection->http2;
  int budget = GYRE_HTTP_RECEIVES_AT_ONCE;
  int raised = deliver(connection);
  while (!raised && is_open(connection) && connection->readable && !http2->session.failed) {
    if (budget-- == 0) {
      gyre_loop_report_again(loop_of(connection), &connection->watch, GYRE_READABLE);
      break;
    }
    const char *bytes;
    ssize_t count = gyre_http1_connection_receive(connection, &bytes);
    if (count == -EAGAIN) break;
    if (count < 0) {
      gyre_http1_connection_close(connection, true);
    } else {
      raised = count == 0 ? end_input(connection) : take(connection, bytes, (size_t)count);
    }
  }
  if (is_open(connection) && http2->session.failed) send_all(connection);
  return raised;
}

static void ready(struct gyre_http1_connection *connection) {
  enter(connection);
  leave(connection, receive(connection));
}

/* --- life --- */

void gyre_http2_connection_settle(struct gyre_http1_connection *connection) {
  struct gyre_http2_connection *http2 = connection->http2;
  struct gyre_http1_acceptor *acceptor = connection->acceptor;
  if (http2->entered) return;
  bool over = is_open(connection) && !gyre_deferred_waits(&http2->sending) &&
              gyre_transport_unsent(&connection->transport) == 0 && gyre_http2_session_is_over(&http2->session);
  if (over && !http2->session.going) { /* after the client's GOAWAY: it is told which of its requests were the last */
    gyre_http2_session_go(&http2->session);
    gyre_http2_connection_send(connection);
  } else if (over) {
    close_or_linger(connection);
    if (connection->state == GYRE_HTTP1_LINGERING && connection->readable) {
      connection->watch.ready(loop_of(connection), &connection->watch, GYRE_READABLE); /* it may be freed there */
      return;
    }
  }
  if (connection->state == GYRE_HTTP1_CLOSED) {
    gyre_http1_connection_free(connection);
    return;
  }
  if (!is_open(connection)) return;
  if (!connection->is_idle && http2->session.stream_count == 0) {
    connection->is_idle = true;
    acceptor->idle++;
    http2->idle_ns = gyre_loop_coarse_now(loop_of(connection));
  }
  schedule(connection);
}

static void drain(struct gyre_http1_connection *connection) {
  struct gyre_http2_connection *http2 = connection->http2;
  if (!is_open(connection) || http2->warned_ns || http2->session.going) return;
  http2->warned_ns = gyre_loop_now(loop_of(connection));
  gyre_http2_session_warn(&http2->session);
  gyre_http2_connection_send(connection);
  schedule(connection);
}

static void begin(struct gyre_http1_connection *connection, const char *bytes, size_t length) {
  struct gyre_http1_acceptor *acceptor = connection->acceptor;
  struct gyre_http2_connection *http2 = calloc(1, sizeof(*http2));
  int64_t now_ns = gyre_loop_coarse_now(loop_of(connection));
  if (!http2 || gyre_http2_session_init(&http2->session, &acceptor->limits.http2, now_ns) < 0) {
    free(http2);
    gyre_http1_connection_close(connection, true);
    gyre_http1_connection_free(connection);
    return;
  }
  http2->connection = connection;
  http2->session.capacity = acceptor->capacity;
  http2->room.fd = -1;
  http2->room.ready = on_room;
  http2->began_ns = http2->idle_ns = now_ns;
  gyre_deferred_init(&http2->sending, at_the_end);
  connection->http2 = http2;
  if (!connection->is_idle) {
    connection->is_idle = true;
    acceptor->idle++;
  }
  gyre_http2_connection_send(connection);
  schedule(connection);
  if (acceptor->draining) drain(connection);
  enter(connection);
  int raised = length ? take(connection, bytes, length) : 0;
  leave(connection, raised || !is_open(connection) ? raised : receive(connection));
}

/* Off the loop: all that waits for its streams goes on, and meets its end. */
static void detached(struct gyre_http1_connection *connection) {
  struct gyre_http2_connection *http2 = connection->http2;
  struct gyre_list *streams = &http2->session.streams;
  gyre_deferred_cancel(&http2->sending);
  gyre_loop_unwatch(loop_of(connection), &http2->room);
  for (struct gyre_list *node = streams->next; node != streams; node = node->next) {
    struct gyre_http2_stream *stream = GYRE_CONTAINER(node, struct gyre_http2_stream, node);
    struct gyre_http_exchange *exchange = stream->owner;
    stream->closed = true;
    gyre_admission_withdraw(&connection->acceptor->capacity->admission, &stream->waiter);
    if (!exchange || http2->left) continue;
    wake(connection, exchange);
    if (!stream->output_over) gyre_http_exchange_peer_ended(exchange);
    exchange->reader = exchange->writer = NULL;
  }
}

static void forked(struct gyre_http1_connection *connection) {
  struct gyre_list *streams = &connection->http2->session.streams;
  connection->http2->room.fd = -1;
  connection->http2->left = true;
  for (struct gyre_list *node = streams->next; node != streams; node = node->next) {
    struct gyre_http_exchange *exchange = GYRE_CONTAINER(node, struct gyre_http2_stream, node)->owner;
    if (!exchange) continue;
    exchange->reader = exchange->writer = NULL;
    exchange->limit.place = 0;
  }
}

static bool free_connection(struct gyre_http1_connection *connection, bool exchanges) {
  struct gyre_http2_connection *http2 = connection->http2;
  struct gyre_list *streams = &http2->session.streams;
  if (!exchanges && (http2->running || http2->entered)) return false;
  if (exchanges) http2->session.capacity = NULL; /* gone with the acceptor */
  for (struct gyre_list *node = streams->next; exchanges && node != streams; node = node->next)
    free(GYRE_CONTAINER(node, struct gyre_http2_stream, node)->owner);
  gyre_http2_session_free(&http2->session);
  free(http2);
  connection->http2 = NULL;
  return true;
}

const struct gyre_http2_operations gyre_http2_operations = {.begin = begin,
                                                            .ready = ready,
                                                            .timed = timed,
                                                            .drain = drain,
                                                            .detached = detached,
                                                            .forked = forked,
                                                            .free = free_connection};

#endif
