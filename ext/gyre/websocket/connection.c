/* A WebSocket as a protocol (http/connection.h): moves frames, answers pings and closes, handles
 * deadlines, drains at the server's stop. Runs on the loop's fiber and never waits. One fiber at a
 * time runs a socket's app code, which keeps messages in order. A session that reads by itself
 * keeps its fiber until it returns. Other sockets that are due in one turn share a fiber until code
 * waits. */
#include "websocket/websocket.h"

#define COPY_BYTES_LIMIT 1024          /* longest payload copied behind its frame's head */
#define CONTROLS_AT_ONCE 64            /* maximum control frames answered in a turn */
#define DRAIN_STEP_NS INT64_C(1000000) /* delay between two sockets' closes at the server's stop */
#define BURST_BYTES (64 * 1024)        /* maximum bytes that are queued without trying to send them */
#define STREAM_BYTES (64 * 1024)       /* maximum bytes that wait in an HTTP/2 stream */
#define PIECES 16

static VALUE session, on_open, on_drained, on_shutdown, on_close;

void gyre_websocket_wake(struct gyre_websocket *websocket, unsigned changes) {
  GYRE_EACH(struct gyre_websocket_waiter, waiter, &websocket->waiters, node) {
    if (waiter->change & changes) gyre_wake(websocket->acceptor->scheduler, &waiter->wait.parked);
  }
}

bool gyre_websocket_waits(const struct gyre_websocket *websocket, VALUE fiber) {
  GYRE_EACH(const struct gyre_websocket_waiter, waiter, &websocket->waiters, node) {
    if (waiter->wait.parked.fiber == fiber) return true;
  }
  return false;
}

/* Sets code and reason, unless they are set. */
static void note_end(struct gyre_websocket *websocket, unsigned code, const char *reason, size_t length) {
  if (websocket->end.code) return;
  websocket->end.code = (uint16_t)code;
  if (length > GYRE_WEBSOCKET_REASON_BYTES) length = GYRE_WEBSOCKET_REASON_BYTES;
  if (length == 0 || !(websocket->end.reason = malloc(length))) return;
  memcpy(websocket->end.reason, reason, length);
  websocket->end.length = (uint8_t)length;
}

static struct gyre_websocket_store store_of(struct gyre_websocket *websocket) {
  struct gyre_http_acceptor *acceptor = websocket->acceptor;
  return (struct gyre_websocket_store){&acceptor->capacity.output, &acceptor->websockets.block,
                                       &acceptor->websockets.unsent_bytes};
}

/* Gives the transport what is unsent, because a lingering connection still sends it. */
static void pass_backlog(struct gyre_websocket *websocket) {
  struct gyre_http_connection *connection = websocket->connection;
  struct gyre_websocket_store store = store_of(websocket);
  struct iovec piece;
  while (gyre_websocket_backlog_pieces(&websocket->backlog, &piece, 1) > 0) {
    ssize_t error = connection->inner ? gyre_transport_sendv(&connection->transport, &piece, 1)
                                      : gyre_transport_write(&connection->transport, piece.iov_base, piece.iov_len);
    if (error < 0) return;
    gyre_websocket_backlog_consume(&websocket->backlog, &store, piece.iov_len);
  }
}

/* Makes http/connection.c close the connection, or linger. */
static void finish(struct gyre_websocket *websocket, bool linger) {
  struct gyre_http_connection *connection = websocket->connection;
  if (linger) {
    pass_backlog(websocket);
    gyre_http_connection_linger(connection);
  } else {
    gyre_http_connection_close(connection, false);
  }
  if (connection->state == GYRE_HTTP_LINGERING && connection->readable) {
    gyre_http_connection_report_again(connection);
  } else if (connection->state == GYRE_HTTP_CLOSED) {
    gyre_http_connection_free(connection);
  }
}

/* Ends the socket without waiting for the peer. */
static void cut(struct gyre_websocket *websocket, unsigned code) {
  if (!websocket->connection) return;
  note_end(websocket, code, "", 0);
  finish(websocket, false);
}

/* Returns how long the next bytes of the unfinished message may take: an unfinished message has the
 * least rate of a request's body. */
static int64_t message_limit_ns(const struct gyre_websocket *websocket, int64_t now_ns) {
  const char *reason;
  return gyre_http_body_limit_ns(&websocket->acceptor->limits, websocket->input.held,
                                 now_ns - websocket->times.begun_ns, false, &reason);
}

/* Sets the connection's deadline to the socket's earliest deadline. */
static void schedule(struct gyre_websocket *websocket) {
  int64_t due_ns = INT64_MAX;
  if (websocket->times.window_ns) gyre_http_sooner(&due_ns, websocket->times.judged_ns, websocket->limits.backlog_ns);
  if (websocket->times.begun_ns) {
    int64_t now_ns = gyre_loop_now(gyre_websocket_loop(websocket));
    gyre_http_sooner(&due_ns, now_ns, message_limit_ns(websocket, now_ns));
  }
  if (websocket->times.blocked_ns)
    gyre_http_sooner(&due_ns, websocket->times.blocked_ns, websocket->acceptor->limits.write_ns);
  if (websocket->times.closing_ns) {
    gyre_http_sooner(&due_ns, websocket->times.closing_ns, websocket->limits.close_ns);
  } else {
    if (websocket->times.drain_ns) gyre_http_sooner(&due_ns, websocket->times.drain_ns, 0);
    bool pinged = websocket->pings.sent != websocket->pings.answered;
    gyre_http_sooner(&due_ns, websocket->times.heard_ns,
                     pinged ? websocket->limits.idle_ns : gyre_websocket_half(websocket->limits.idle_ns));
  }
  gyre_http_connection_due(websocket->connection, due_ns);
}

static void flush(struct gyre_websocket *websocket);

static void begin_window(struct gyre_websocket *websocket, int64_t now_ns) {
  websocket->times.window_ns = now_ns;
  websocket->times.judged_ns = now_ns;
  websocket->output.window = websocket->output.given - gyre_websocket_unsent(websocket);
}

/* Begins a new window if the peer has taken `backlog_bytes` in the present one. */
static bool is_slow(struct gyre_websocket *websocket, int64_t now_ns) {
  int64_t taken = (int64_t)(websocket->output.given - gyre_websocket_unsent(websocket) - websocket->output.window);
  if (taken < (int64_t)websocket->limits.backlog_bytes) return true;
  begin_window(websocket, now_ns);
  return false;
}

/* Cuts a peer that is slow in a whole window, after a last try. Returns false if the socket has
 * ended. Time of the present turn does not count, because the loop has not tried to send then. */
static bool judge(struct gyre_websocket *websocket) {
  int64_t now_ns = gyre_websocket_loop(websocket)->now_ns;
  if (!gyre_http_is_over(websocket->times.window_ns, websocket->limits.backlog_ns, now_ns)) return true;
  if (!is_slow(websocket, now_ns)) return true;
  flush(websocket);
  if (!websocket->connection) return false;
  if (!websocket->times.window_ns || !is_slow(websocket, now_ns)) return true;
  websocket->acceptor->statistics.slow_sockets++;
  cut(websocket, GYRE_WEBSOCKET_TRY_LATER);
  return false;
}

static void have_room(struct gyre_websocket *websocket);
static void on_room(struct gyre_loop *loop, struct gyre_watch *watch, unsigned ready) {
  gyre_loop_unwatch(loop, watch);
  have_room(GYRE_CONTAINER(watch, struct gyre_websocket_room, watch)->websocket);
}

static struct gyre_websocket_room *room_of(struct gyre_websocket *websocket) {
  if (websocket->room || !(websocket->room = calloc(1, sizeof(*websocket->room)))) return websocket->room;
  websocket->room->websocket = websocket;
  websocket->room->watch.fd = -1;
  websocket->room->watch.ready = on_room;
  return websocket->room;
}

static void wait_for_room(struct gyre_websocket *websocket) {
  struct gyre_loop *loop = gyre_websocket_loop(websocket);
  const struct gyre_transport *transport = &websocket->connection->transport;
  websocket->backed_up = true;
  if (!websocket->connection->inner) {
    struct gyre_websocket_room *room = room_of(websocket);
    if (!room || gyre_loop_await(loop, &room->watch, transport->fd, transport->write.wants) < 0) {
      cut(websocket, GYRE_WEBSOCKET_ABNORMAL);
      return;
    }
  }
  int64_t now_ns = gyre_loop_now(loop);
  if (!websocket->times.blocked_ns) websocket->times.blocked_ns = now_ns;
  if (!websocket->times.window_ns) begin_window(websocket, now_ns);
  schedule(websocket);
}

/* Counts the memory that this socket alone takes: its slices, and what TLS holds. The blocks are
 * counted by backlog.c, and an HTTP/2 stream's output by h2/session.c. */
static void count_output(struct gyre_websocket *websocket) {
  struct gyre_http_acceptor *acceptor = websocket->acceptor;
  const struct gyre_http_connection *connection = websocket->connection;
  size_t held = connection && !connection->inner ? gyre_transport_unsent(&connection->transport) : 0;
  gyre_http_budget_hold(&acceptor->capacity.output, &websocket->counted.output,
                        held + websocket->backlog.capacity * sizeof(*websocket->backlog.slices));
}

/* An HTTP/2 stream takes a part of the backlog at a time, because it copies. */
static bool stream_is_full(const struct gyre_http_connection *connection) {
  return connection->inner && gyre_transport_unsent(&connection->transport) > STREAM_BYTES;
}

/* Returns 0 if the socket or stream took all bytes, -EAGAIN or -errno. */
static int send_backlog(struct gyre_websocket *websocket) {
  struct gyre_http_connection *connection = websocket->connection;
  struct gyre_websocket_store store = store_of(websocket);
  struct iovec pieces[PIECES];
  while (websocket->backlog.bytes > 0 && !stream_is_full(connection)) {
    int count = gyre_websocket_backlog_pieces(&websocket->backlog, pieces, connection->inner ? 1 : PIECES);
    ssize_t sent = gyre_transport_sendv(&connection->transport, pieces, count);
    if (sent < 0) return (int)sent;
    gyre_websocket_backlog_consume(&websocket->backlog, &store, (size_t)sent);
  }
  return gyre_transport_flush(&connection->transport);
}

static void flush(struct gyre_websocket *websocket) {
  int error = send_backlog(websocket);
  if (error == -EAGAIN || (error == 0 && gyre_websocket_unsent(websocket) > 0)) { /* 0: a stream holds the rest */
    wait_for_room(websocket);
  } else if (error < 0) {
    cut(websocket, GYRE_WEBSOCKET_ABNORMAL);
  }
  if (!websocket->connection) return;
  count_output(websocket);
  size_t unsent = gyre_websocket_unsent(websocket);
  if (unsent <= websocket->limits.output_bytes / 2) gyre_websocket_wake(websocket, GYRE_WEBSOCKET_ROOM);
  if (unsent > 0) return;
  if (websocket->backed_up && websocket->run.wants & GYRE_WEBSOCKET_WANTS_DRAINED) {
    websocket->drained = true;
    gyre_websocket_start(websocket);
  }
  websocket->backed_up = false;
  websocket->times.window_ns = 0;
  if (websocket->choked) gyre_http_connection_report_again(websocket->connection);
  websocket->choked = false;
  if (websocket->events && websocket->times.closing_ns) finish(websocket, true);
}

static void at_the_end(struct gyre_loop *loop, struct gyre_deferred *sending) {
  flush(GYRE_CONTAINER(sending, struct gyre_websocket, sending));
}

/* Called when the peer has taken output. */
static void have_room(struct gyre_websocket *websocket) {
  websocket->times.blocked_ns = 0;
  flush(websocket);
}

/* Returns the number of sent bytes, or -errno. */
static ssize_t send_at_once(struct gyre_transport *transport, const struct iovec *head, const struct iovec *payload) {
  char copy[GYRE_WEBSOCKET_HEAD_BYTES + COPY_BYTES_LIMIT];
  struct iovec pieces[] = {*head, *payload};
  bool copies = head->iov_len && payload->iov_len <= COPY_BYTES_LIMIT;
  if (copies) {
    memcpy(copy, head->iov_base, head->iov_len);
    if (payload->iov_len) memcpy(copy + head->iov_len, payload->iov_base, payload->iov_len);
    pieces[0] = (struct iovec){copy, head->iov_len + payload->iov_len};
  }
  bool skips = head->iov_len == 0;
  ssize_t sent = gyre_transport_sendv(transport, pieces + skips, copies || skips ? 1 : 2);
  return sent == -EAGAIN ? 0 : sent;
}

/* Sends a turn's first frame at once, and later frames together: when they are many bytes, or at
 * the turn's end. An HTTP/2 stream collects frames by itself. */
static void send_pieces(struct gyre_websocket *websocket, struct iovec head, struct iovec payload, bool shared) {
  struct gyre_loop *loop = gyre_websocket_loop(websocket);
  struct gyre_http_connection *connection = websocket->connection;
  struct iovec pieces[] = {head, payload};
  size_t length = head.iov_len + payload.iov_len;
  struct gyre_websocket_store store = store_of(websocket);
  ssize_t sent = 0;
  websocket->output.given += length;
  if (connection->inner ? websocket->backlog.bytes == 0 && !stream_is_full(connection)
                        : gyre_websocket_unsent(websocket) == 0 &&
                              (websocket->sent_turn != loop->statistics.turns || length > BURST_BYTES)) {
    websocket->sent_turn = loop->statistics.turns;
    sent = send_at_once(&connection->transport, &head, &payload);
  }
  if (sent < 0 || ((size_t)sent < length &&
                   !gyre_websocket_backlog_put(&websocket->backlog, &store, pieces, (size_t)sent, shared))) {
    cut(websocket, GYRE_WEBSOCKET_ABNORMAL);
  } else if (gyre_websocket_unsent(websocket) > 0) {
    count_output(websocket);
    if (websocket->backed_up) return;
    if (websocket->backlog.bytes > BURST_BYTES) {
      flush(websocket);
    } else {
      gyre_loop_defer(loop, &websocket->sending);
    }
  }
}

void gyre_websocket_send(struct gyre_websocket *websocket, unsigned opcode, bool compressed, const char *bytes,
                         size_t length) {
  uint8_t head[GYRE_WEBSOCKET_HEAD_BYTES];
  if (!websocket->connection) return;
  size_t head_bytes = websocket->events ? 0 : gyre_websocket_frame_head(head, opcode, compressed, length);
  send_pieces(websocket, (struct iovec){head, head_bytes}, (struct iovec){(char *)bytes, length}, false);
}

void gyre_websocket_send_framed(struct gyre_websocket *websocket, const char *bytes, size_t length) {
  if (websocket->connection) send_pieces(websocket, (struct iovec){0}, (struct iovec){(char *)bytes, length}, true);
}

bool gyre_websocket_is_crowded(const struct gyre_websocket *websocket) {
  return gyre_websocket_unsent(websocket) > 0 && gyre_http_budget_is_over(&websocket->acceptor->capacity.output);
}

bool gyre_websocket_keeps_up(struct gyre_websocket *websocket) {
  bool much = gyre_websocket_unsent(websocket) > websocket->limits.backlog_bytes;
  return !(much || gyre_websocket_is_crowded(websocket)) || judge(websocket);
}

void gyre_websocket_close(struct gyre_websocket *websocket, unsigned code, const char *reason, size_t length) {
  char payload[GYRE_WEBSOCKET_CONTROL_BYTES] = {(char)(code >> 8), (char)code};
  if (!websocket->connection || websocket->times.closing_ns) return;
  if (length > GYRE_WEBSOCKET_REASON_BYTES) length = GYRE_WEBSOCKET_REASON_BYTES;
  if (length) memcpy(payload + 2, reason, length);
  websocket->times.closing_ns = gyre_loop_now(gyre_websocket_loop(websocket));
  if (websocket->events) { /* ends once the client has taken everything */
    note_end(websocket, code, reason, length);
    if (gyre_websocket_unsent(websocket) == 0) finish(websocket, true);
  } else {
    gyre_websocket_send(websocket, GYRE_WEBSOCKET_CLOSE, false, payload,
                        code == GYRE_WEBSOCKET_NO_CODE ? 0 : 2 + length);
  }
  if (websocket->connection) schedule(websocket);
}

void gyre_websocket_ping(struct gyre_websocket *websocket) {
  if (websocket->events) {
    websocket->times.heard_ns = gyre_loop_now(gyre_websocket_loop(websocket));
    gyre_websocket_send_framed(websocket, ":\n\n", 3);
  } else {
    uint32_t number = ++websocket->pings.sent;
    gyre_websocket_send(websocket, GYRE_WEBSOCKET_PING, false, (const char *)&number, sizeof(number));
  }
  if (websocket->connection) schedule(websocket);
}

/* Answers a ping, or notes an answered ping. Ignores other pongs (RFC 6455, section 5.5.3). */
static void take_control(struct gyre_websocket *websocket, const struct gyre_websocket_event *event) {
  if (event->opcode == GYRE_WEBSOCKET_PING) {
    if (!websocket->times.closing_ns)
      gyre_websocket_send(websocket, GYRE_WEBSOCKET_PONG, false, event->payload, event->length);
    return;
  }
  uint32_t number;
  if (event->length != sizeof(number)) return;
  memcpy(&number, event->payload, sizeof(number));
  if (number - websocket->pings.answered > websocket->pings.sent - websocket->pings.answered) return;
  websocket->pings.answered = number;
  gyre_websocket_wake(websocket, GYRE_WEBSOCKET_PONGS);
}

/* Closes after the peer's close or fault. Lingers, unless the peer has answered our close: such a
 * peer sends no more bytes that could cause a reset. If our close is still
 * queued, the peer has not answered it: the two have crossed. */
static void end(struct gyre_websocket *websocket, const struct gyre_websocket_event *event) {
  bool broken = event->kind == GYRE_WEBSOCKET_BROKEN;
  bool answered = websocket->times.closing_ns && !broken && gyre_websocket_unsent(websocket) == 0;
  note_end(websocket, event->code, event->payload, event->length);
  gyre_websocket_close(websocket, event->code, event->payload, broken ? event->length : 0);
  if (websocket->connection) finish(websocket, !answered);
}

/* Closes the socket with this code and reason, because of the peer's fault. */
static void fail(struct gyre_websocket *websocket, unsigned code, const char *reason) {
  struct gyre_websocket_event event = {
      .kind = GYRE_WEBSOCKET_BROKEN, .code = (uint16_t)code, .payload = reason, .length = (uint32_t)strlen(reason)};
  end(websocket, &event);
}

/* Counts the input's memory, and a socket with an unfinished message. */
static void count_input(struct gyre_websocket *websocket) {
  struct gyre_http_acceptor *acceptor = websocket->acceptor;
  const struct gyre_http_connection *connection = websocket->connection;
  const struct gyre_bytes *input = connection ? connection->transport.input : NULL;
  uint32_t bytes = input ? input->capacity : 0;
  bool unfinished = bytes && websocket->input.opcode && !websocket->unread;
  gyre_http_budget_hold(&acceptor->capacity.input, &websocket->counted.input, bytes);
  acceptor->websockets.unfinished_bytes += (unfinished ? bytes : 0) - (uint64_t)websocket->counted.unfinished;
  websocket->counted.unfinished = unfinished ? bytes : 0;
  if (unfinished == !gyre_list_empty(&websocket->unfinished)) return;
  gyre_list_remove(&websocket->unfinished);
  websocket->times.begun_ns = unfinished ? gyre_loop_now(gyre_websocket_loop(websocket)) : 0;
  if (!unfinished) return;
  gyre_list_append(&acceptor->websockets.unfinished, &websocket->unfinished);
  schedule(websocket);
}

/* Keeps unfinished messages within half of the server's input budget, so that uploads have room:
 * ends the sockets whose messages began first. Returns false if this socket has ended. */
static bool fits(struct gyre_websocket *websocket) {
  struct gyre_http_acceptor *acceptor = websocket->acceptor;
  const struct gyre_http_budget *budget = &acceptor->capacity.input;
  while (acceptor->websockets.unfinished_bytes > (uint64_t)budget->limit / 2) {
    struct gyre_list *oldest = acceptor->websockets.unfinished.next;
    fail(GYRE_CONTAINER(oldest, struct gyre_websocket, unfinished), GYRE_WEBSOCKET_TRY_LATER,
         "the server holds too many unfinished messages");
  }
  if (websocket->counted.unfinished && gyre_http_budget_is_over(budget))
    fail(websocket, GYRE_WEBSOCKET_TRY_LATER, "the server holds too much");
  return websocket->connection;
}

static void release(struct gyre_websocket *websocket) {
  struct gyre_transport *transport = &websocket->connection->transport;
  gyre_transport_consume(transport, gyre_websocket_input_release(&websocket->input));
  count_input(websocket);
}

void gyre_websocket_taken(struct gyre_websocket *websocket) {
  websocket->unread = false;
  gyre_websocket_input_taken(&websocket->input);
  release(websocket);
}

/* Parses received bytes. Returns false if the caller must not receive more now. */
static bool look(struct gyre_websocket *websocket) {
  struct gyre_transport *transport = &websocket->connection->transport;
  unsigned controls = 0;
  while (transport->input) {
    char *bytes = transport->input->bytes + transport->input->offset;
    uint32_t length = gyre_transport_available(transport);
    struct gyre_websocket_event event = gyre_websocket_input_next(&websocket->input, bytes, length);
    switch (event.kind) {
    case GYRE_WEBSOCKET_CONTROL:
      take_control(websocket, &event);
      if (!websocket->connection) return false;
      websocket->choked = gyre_websocket_unsent(websocket) > websocket->limits.output_bytes;
      if (websocket->choked) return false;
      if (++controls < CONTROLS_AT_ONCE) break;
      gyre_http_connection_report_again(websocket->connection);
      return false;
    case GYRE_WEBSOCKET_MESSAGE:
      websocket->unread = !websocket->discards;
      if (websocket->unread && websocket->times.begun_ns) count_input(websocket);
      if (websocket->unread) return false;
      gyre_websocket_taken(websocket);
      break;
    case GYRE_WEBSOCKET_INCOMPLETE:
      transport->input->length =
          transport->input->offset + gyre_websocket_input_close_gap(&websocket->input, bytes, length);
      release(websocket);
      return true;
    default: end(websocket, &event); return false;
    }
  }
  return true;
}

/* Reads and drops bytes of an event stream's client, to notice its end. In HTTP/2 the client's side
 * has ended with the request. */
static void watch_for_end(struct gyre_websocket *websocket) {
  struct gyre_http_connection *connection = websocket->connection;
  const char *bytes;
  ssize_t count = 1;
  gyre_bytes_free(&connection->transport.input);
  if (connection->inner) {
    count = gyre_transport_flush(&connection->transport) < 0 ? 0 : -EAGAIN;
  } else {
    int receptions = 0;
    while (count > 0 && connection->readable && !gyre_http_connection_gives_way(connection, &receptions))
      count = gyre_http_connection_receive(connection, &bytes);
  }
  if (count <= 0 && count != -EAGAIN) cut(websocket, GYRE_WEBSOCKET_ABNORMAL);
}

void gyre_websocket_receive(struct gyre_websocket *websocket) {
  int receptions = 0;
  if (websocket->events && websocket->connection) watch_for_end(websocket);
  if (websocket->events) return;
  while (websocket->connection && !websocket->unread && !websocket->choked && look(websocket) && fits(websocket)) {
    struct gyre_http_connection *connection = websocket->connection;
    if (!connection->readable || gyre_http_connection_gives_way(connection, &receptions)) return;
    ssize_t count = gyre_http_connection_fill(connection);
    if (count == -EAGAIN) return;
    if (count <= 0) {
      cut(websocket, GYRE_WEBSOCKET_ABNORMAL);
    } else {
      websocket->times.heard_ns = gyre_loop_coarse_now(gyre_websocket_loop(websocket));
    }
  }
}

/* --- the app's code --- */

static bool is_due(const struct gyre_websocket *websocket) {
  if (websocket->run.busy || websocket->run.told || !websocket->run.begun) return false;
  if (!websocket->run.opened) return websocket->connection;
  if (!websocket->connection) return websocket->run.wants & GYRE_WEBSOCKET_WANTS_CLOSE;
  return websocket->run.wants &&
         (websocket->unread || websocket->drained || websocket->run.warns || websocket->connection->readable);
}

/* Releases the Ruby object once nothing is left to do. */
static void settle(struct gyre_websocket *websocket) {
  if (websocket->connection || websocket->run.busy || is_due(websocket)) return;
  gyre_list_remove(&websocket->run.starting.node); /* linked if output drained before the end */
  rb_hash_delete(websocket->acceptor->upgraded, websocket->self);
  if (!websocket->abandoned) gyre_http_acceptor_settle(websocket->acceptor);
}

VALUE gyre_websocket_take(struct gyre_websocket *websocket) {
  int fault = 0;
  VALUE message = gyre_websocket_message(websocket, &fault);
  if (fault) {
    bool long_one = fault == -GYRE_WEBSOCKET_TOO_BIG;
    fail(websocket, (unsigned)-fault, long_one ? "the message is too long" : "the message cannot be inflated");
    return Qnil;
  }
  gyre_websocket_taken(websocket);
  websocket->acceptor->statistics.messages_received++;
  return message;
}

static VALUE begin_code(struct gyre_websocket *websocket) {
  websocket->run.busy = true;
  websocket->run.fiber = rb_fiber_current();
  gyre_sight_enter_row(websocket->acceptor->scheduler, websocket->row);
  return websocket->self;
}

static void start_due(struct gyre_scheduler *scheduler, struct gyre_post *post);

/* Begins the code of this turn's next due socket. Returns the socket; nil if there is none. */
static VALUE take_due(struct gyre_scheduler *scheduler) {
  GYRE_EACH_FIRST(struct gyre_post, post, &scheduler->due_posts, node) {
    struct gyre_websocket *websocket = GYRE_CONTAINER(post, struct gyre_websocket, run.starting);
    if (post->run != start_due) break;
    gyre_list_remove(&post->node);
    if (is_due(websocket)) return begin_code(websocket);
  }
  return Qnil;
}

static VALUE fiber_main(VALUE self) {
  if (!session) session = gyre_kept(rb_path2class("Gyre::WebSocket::Session"));
  return rb_funcall(session, rb_intern("serve"), 1, begin_code(RTYPEDDATA_DATA(self)));
}

static VALUE websocket_handler(VALUE self) {
  return ((const struct gyre_websocket *)RTYPEDDATA_DATA(self))->run.session;
}

/* Returns a message, the name of the handler's next method, or nil if nothing is due. The order is
 * on_open, messages and on_drained as they come, on_shutdown, on_close. */
static VALUE websocket_event(VALUE self) {
  struct gyre_websocket *websocket = RTYPEDDATA_DATA(self);
  if (!websocket->run.opened) {
    websocket->run.opened = true;
    return on_open;
  }
  if (!websocket->run.wants) return Qnil;
  gyre_yield_if_due(websocket->acceptor->scheduler);
  for (gyre_websocket_receive(websocket); websocket->unread; gyre_websocket_receive(websocket)) {
    VALUE message = gyre_websocket_take(websocket);
    if (!NIL_P(message)) return message;
  }
  if (websocket->drained) {
    websocket->drained = false;
    return on_drained;
  }
  if (websocket->run.warns) {
    websocket->run.warns = false;
    return on_shutdown;
  }
  if (websocket->connection || websocket->run.told || !(websocket->run.wants & GYRE_WEBSOCKET_WANTS_CLOSE)) return Qnil;
  websocket->run.told = true;
  return on_close;
}

/* Ends the code's run. Returns the turn's next due socket, or nil. `done` is nil if an interrupt
 * has ended the code; the socket is then closed, too. */
static VALUE websocket_over(VALUE self, VALUE done) {
  struct gyre_websocket *websocket = RTYPEDDATA_DATA(self);
  struct gyre_scheduler *scheduler = websocket->acceptor->scheduler;
  websocket->run.busy = false;
  websocket->run.fiber = Qnil;
  if (NIL_P(done)) {
    websocket->run.told = websocket->discards = true;
    gyre_websocket_close(
        websocket, websocket->acceptor->draining ? GYRE_WEBSOCKET_GOING_AWAY : GYRE_WEBSOCKET_SERVER_ERROR, "", 0);
  }
  settle(websocket);
  if (NIL_P(done) || gyre_list_empty(&scheduler->due_posts)) return Qnil;
  gyre_job_is_over(scheduler);
  return take_due(scheduler);
}

static VALUE spawn(VALUE self) {
  const struct gyre_websocket *websocket = RTYPEDDATA_DATA(self);
  return gyre_spawn(websocket->acceptor->scheduler, fiber_main, self, Qnil);
}

/* Starts the due code in a fiber. If no fiber can be made, ends only this socket. */
static void start_due(struct gyre_scheduler *scheduler, struct gyre_post *post) {
  struct gyre_websocket *websocket = GYRE_CONTAINER(post, struct gyre_websocket, run.starting);
  if (!is_due(websocket)) return;
  VALUE self = websocket->self;
  int state = 0;
  websocket->run.busy = true;
  rb_protect(spawn, self, &state);
  if (state) {
    bool begun = !websocket->run.busy || !NIL_P(websocket->run.fiber);
    if (!begun) {
      websocket->run.busy = false;
      websocket->run.told = true;
      cut(websocket, GYRE_WEBSOCKET_SERVER_ERROR);
      settle(websocket);
    }
    state = gyre_http_handler_failed(websocket->acceptor, state, begun);
  }
  RB_GC_GUARD(self);
  if (state) rb_jump_tag(state);
}

/* --- the protocol --- */

static void tell(struct gyre_websocket *websocket) {
  if (websocket->unread) gyre_websocket_wake(websocket, GYRE_WEBSOCKET_INPUT);
  if (is_due(websocket)) gyre_websocket_start(websocket);
}

static void readable(struct gyre_http_connection *connection) {
  struct gyre_websocket *websocket = connection->own;
  if (!websocket || connection->exchange) return; /* the handshake's request is not over */
  VALUE self = websocket->self;
  websocket->run.begun = true;
  if (is_due(websocket)) { /* the session soon receives by itself */
    gyre_websocket_start(websocket);
    __builtin_prefetch((const void *)self);
    __builtin_prefetch(&websocket->input);
    return;
  }
  if (websocket->run.opened) gyre_websocket_receive(websocket);
  tell(websocket);
  RB_GC_GUARD(self);
}

static void room(struct gyre_http_connection *connection) {
  struct gyre_websocket *websocket = connection->own;
  if (websocket) have_room(websocket);
}

/* Judges a peer that is blocked while the budget is used up. If this comes late, the loop has not
 * tried to send for a while, and a new window begins. */
static void judge_at(struct gyre_websocket *websocket, int64_t now_ns) {
  int64_t limit_ns = websocket->limits.backlog_ns, late_ns = now_ns - websocket->times.judged_ns - limit_ns;
  if (!websocket->times.window_ns || limit_ns < 0 || late_ns < 0) return;
  websocket->times.judged_ns = now_ns;
  if (late_ns > limit_ns / 4) {
    begin_window(websocket, now_ns);
  } else if (gyre_websocket_is_crowded(websocket)) {
    (void)judge(websocket);
  }
}

/* Closes the socket at the server's stop; first lets on_shutdown do it within close_timeout_s. */
static void go_away(struct gyre_websocket *websocket, int64_t now_ns) {
  if (!(websocket->run.wants & GYRE_WEBSOCKET_WANTS_SHUTDOWN) || websocket->run.warned ||
      websocket->limits.close_ns < 0) {
    gyre_websocket_close(websocket, GYRE_WEBSOCKET_GOING_AWAY, "", 0);
    return;
  }
  websocket->run.warns = websocket->run.warned = true;
  websocket->times.drain_ns = now_ns + websocket->limits.close_ns;
}

/* Returns whether the peer has taken output since the last call. TLS records are longer than their
 * payload: sending alone makes `taken` smaller. `left`: whether the peer has more to take. */
static bool takes_output(struct gyre_websocket *websocket, bool *left) {
  size_t waiting = gyre_websocket_unsent(websocket) + gyre_transport_untaken(&websocket->connection->transport);
  uint64_t before = websocket->output.taken;
  websocket->output.taken = websocket->output.given - waiting;
  *left = waiting > 0;
  return (int64_t)(websocket->output.taken - before) > 0;
}

/* Pings a peer after half of the idle time, and closes the socket after all of it. Silence does not
 * count while the app leaves a message unread, while answers fill the output, or while the peer
 * takes output. An event stream gets a comment instead of a ping, and may stay silent. */
static void late(struct gyre_http_connection *connection) {
  struct gyre_websocket *websocket = connection->own;
  if (!websocket) return;
  VALUE self = websocket->self;
  int64_t now_ns = gyre_loop_now(gyre_websocket_loop(websocket));
  if (websocket->unread || websocket->choked) {
    websocket->times.heard_ns = now_ns;
  } else {
    gyre_websocket_receive(websocket);
  }
  bool left = false, takes = websocket->connection && takes_output(websocket, &left);
  if (takes && left) websocket->times.heard_ns = now_ns;
  if (takes && websocket->times.closing_ns) websocket->times.closing_ns = now_ns;
  if (websocket->connection) judge_at(websocket, now_ns);
  if (websocket->connection && websocket->times.begun_ns && message_limit_ns(websocket, now_ns) == 0)
    fail(websocket, GYRE_WEBSOCKET_TRY_LATER, "the message comes too slowly");
  bool open = websocket->connection && !websocket->times.closing_ns;
  if (open && websocket->times.drain_ns && now_ns >= websocket->times.drain_ns) {
    go_away(websocket, now_ns);
  } else if (gyre_http_is_over(websocket->times.closing_ns, websocket->limits.close_ns, now_ns) ||
             gyre_http_is_over(websocket->times.blocked_ns, websocket->acceptor->limits.write_ns, now_ns) ||
             (!websocket->events && gyre_http_is_over(websocket->times.heard_ns, websocket->limits.idle_ns, now_ns))) {
    cut(websocket, GYRE_WEBSOCKET_ABNORMAL);
  } else if (open && websocket->pings.sent == websocket->pings.answered &&
             gyre_http_is_over(websocket->times.heard_ns, gyre_websocket_half(websocket->limits.idle_ns), now_ns)) {
    gyre_websocket_deflate_forget(&websocket->compression);
    gyre_websocket_ping(websocket);
  }
  if (websocket->connection) schedule(websocket);
  tell(websocket);
  RB_GC_GUARD(self);
}

/* At the server's stop, interrupts the session's fiber at its wait, unless it waits for this
 * socket. */
static void stop_session(struct gyre_websocket *websocket) {
  if (!websocket->acceptor->draining || NIL_P(websocket->run.fiber) || websocket->run.fiber == rb_fiber_current() ||
      gyre_websocket_waits(websocket, websocket->run.fiber))
    return;
  (void)gyre_http_cancel(websocket->acceptor->scheduler, websocket->run.fiber, "Gyre::Stop", "the server stops");
}

static void detached(struct gyre_http_connection *connection) {
  struct gyre_websocket *websocket = connection->own;
  if (!websocket) return;
  connection->own = NULL;
  websocket->connection = NULL;
  websocket->unread = websocket->drained = websocket->run.warns = false;
  gyre_websocket_deflate_free(&websocket->compression);
  struct gyre_websocket_store store = store_of(websocket);
  gyre_websocket_backlog_consume(&websocket->backlog, &store, websocket->backlog.bytes);
  count_input(websocket);
  count_output(websocket);
  gyre_deferred_cancel(&websocket->sending);
  websocket->abandoned = connection->abandoned;
  if (websocket->room && websocket->abandoned) websocket->room->watch.fd = -1;
  if (websocket->room) gyre_loop_unwatch(gyre_websocket_loop(websocket), &websocket->room->watch);
  note_end(websocket, GYRE_WEBSOCKET_ABNORMAL, "", 0);
  for (long i = NIL_P(websocket->topics) ? 0 : RARRAY_LEN(websocket->topics); i-- > 0;)
    rb_hash_delete(RARRAY_AREF(websocket->topics, i), websocket->self);
  if (websocket->abandoned) { /* the fibers and their stacks are the parent's */
    gyre_list_init(&websocket->waiters);
    gyre_list_init(&websocket->run.starting.node);
    websocket->run.busy = false;
    websocket->run.told = true;
  } else {
    stop_session(websocket);
    gyre_websocket_wake(websocket, ~0u);
    if (is_due(websocket)) gyre_websocket_start(websocket);
  }
  settle(websocket);
}

static bool free_own(struct gyre_http_connection *connection, bool gone) {
  struct gyre_websocket *websocket = connection->own;
  if (websocket) websocket->connection = NULL;
  connection->own = NULL;
  return true;
}

/* Spreads the closes over time, so that peers do not reconnect all at once. */
static void drain(struct gyre_http_connection *connection) {
  struct gyre_websocket *websocket = connection->own;
  if (!websocket || websocket->times.closing_ns || websocket->times.drain_ns) return;
  uint32_t step = connection->acceptor->counts.upgraded_drained++;
  websocket->times.drain_ns = gyre_loop_now(gyre_websocket_loop(websocket)) + step * DRAIN_STEP_NS;
  schedule(websocket);
}

static void begin(struct gyre_http_connection *connection, const char *bytes, size_t length) {
  struct gyre_websocket *websocket = connection->own;
  gyre_list_init(&websocket->waiters);
  gyre_list_init(&websocket->unfinished);
  gyre_deferred_init(&websocket->sending, at_the_end);
  websocket->times.heard_ns = gyre_loop_now(gyre_websocket_loop(websocket));
  gyre_list_init(&websocket->run.starting.node);
  websocket->run.starting.run = start_due;
  connection->state = GYRE_HTTP_BETWEEN;
  gyre_http_connection_set_idle(connection, true);
  schedule(websocket);
  if (connection->acceptor->draining) drain(connection);
}

const struct gyre_http_protocol gyre_websocket_protocol = {GYRE_HTTP_PROTOCOL, .room = room};

void gyre_init_websocket_connection(VALUE class) {
  on_open = ID2SYM(rb_intern("on_open"));
  on_drained = ID2SYM(rb_intern("on_drained"));
  on_shutdown = ID2SYM(rb_intern("on_shutdown"));
  on_close = ID2SYM(rb_intern("on_close"));
  rb_define_method(class, "handler", websocket_handler, 0);
  rb_define_method(class, "event", websocket_event, 0);
  rb_define_method(class, "over", websocket_over, 1);
}
