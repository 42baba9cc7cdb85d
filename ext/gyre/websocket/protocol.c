/* WebSocket as a protocol (http/connection.h): begins, receives, handles deadlines, drains at the
 * server's stop, ends. Runs on the loop's fiber and never waits. */
#include "websocket/websocket.h"

#define DRAIN_STEP_NS INT64_C(1000000) /* time between two sockets' ends at the server's stop */
#define DRAIN_STEPS 5000

static void tell(struct gyre_websocket *websocket) {
  if (websocket->unread) gyre_websocket_wake(websocket, GYRE_WEBSOCKET_INPUT);
  if (gyre_websocket_is_due(websocket)) gyre_websocket_start(websocket);
}

static void readable(struct gyre_http_connection *connection) {
  struct gyre_websocket *websocket = connection->own;
  if (!websocket || connection->exchange) return; /* the handshake's request is not over */
  VALUE self = websocket->self;
  websocket->run.begun = true;
  if (gyre_websocket_is_due(websocket)) { /* the session soon receives by itself */
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
  if (websocket) gyre_websocket_have_room(websocket);
}

/* Pings a peer after half of its idle time, and closes after all of it. Silence does not count
 * while the app leaves a message unread, or while answers fill the output. An event stream gets a
 * comment after half of its idle time. */
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
  bool open = websocket->connection && !websocket->times.closing_ns;
  if (open && websocket->times.drain_ns && now_ns >= websocket->times.drain_ns) {
    gyre_websocket_close(websocket, GYRE_WEBSOCKET_GOING_AWAY, "", 0);
  } else if (gyre_http_is_over(websocket->times.closing_ns, websocket->limits.close_ns, now_ns) ||
             gyre_http_is_over(websocket->times.blocked_ns, websocket->acceptor->limits.write_ns, now_ns) ||
             (!websocket->events && gyre_http_is_over(websocket->times.heard_ns, websocket->limits.idle_ns, now_ns))) {
    gyre_websocket_cut(websocket, GYRE_WEBSOCKET_ABNORMAL);
  } else if (open && websocket->pings.sent == websocket->pings.answered &&
             gyre_http_is_over(websocket->times.heard_ns, gyre_websocket_half(websocket->limits.idle_ns), now_ns)) {
    gyre_websocket_deflate_forget(&websocket->compression);
    gyre_websocket_ping(websocket);
  }
  if (websocket->connection) gyre_websocket_schedule(websocket);
  tell(websocket);
  RB_GC_GUARD(self);
}

/* At the server's stop, ends the session's fiber at its wait, unless that wait is for this
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
  websocket->unread = websocket->drained = false;
  gyre_websocket_deflate_free(&websocket->compression);
  gyre_websocket_count_input(websocket);
  gyre_websocket_count_output(websocket);
  gyre_deferred_cancel(&websocket->sending);
  websocket->abandoned = connection->abandoned;
  if (websocket->room && websocket->abandoned) websocket->room->watch.fd = -1;
  if (websocket->room) gyre_loop_unwatch(gyre_websocket_loop(websocket), &websocket->room->watch);
  gyre_websocket_note_end(websocket, GYRE_WEBSOCKET_ABNORMAL, "", 0);
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
    if (gyre_websocket_is_due(websocket)) gyre_websocket_start(websocket);
  }
  gyre_websocket_settle(websocket);
}

static bool free_own(struct gyre_http_connection *connection, bool gone) {
  struct gyre_websocket *websocket = connection->own;
  if (websocket) websocket->connection = NULL;
  connection->own = NULL;
  return true;
}

/* Spreads the ends, so that peers do not reconnect all at once. */
static void drain(struct gyre_http_connection *connection) {
  struct gyre_websocket *websocket = connection->own;
  if (!websocket || websocket->times.closing_ns || websocket->times.drain_ns) return;
  uint32_t step = connection->acceptor->counts.upgraded_drained++ % DRAIN_STEPS;
  websocket->times.drain_ns = gyre_loop_now(gyre_websocket_loop(websocket)) + step * DRAIN_STEP_NS;
  gyre_websocket_schedule(websocket);
}

static void begin(struct gyre_http_connection *connection, const char *bytes, size_t length) {
  struct gyre_websocket *websocket = connection->own;
  gyre_websocket_connection_init(websocket);
  gyre_websocket_session_init(websocket);
  connection->state = GYRE_HTTP_BETWEEN;
  gyre_http_connection_set_idle(connection, true);
  gyre_websocket_schedule(websocket);
  if (connection->acceptor->draining) drain(connection);
}

const struct gyre_http_protocol gyre_websocket_protocol = {.begin = begin,
                                                           .readable = readable,
                                                           .late = late,
                                                           .drain = drain,
                                                           .detached = detached,
                                                           .free = free_own,
                                                           .room = room};
