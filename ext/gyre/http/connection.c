/* Runs a connection on the loop's fiber before and after its protocol: PROXY header, TLS, choice of
 * the protocol, deadline, end. Never waits. */
#include "http/exchange.h"
#include "loop/direct_calls.h"
#include "net/tls.h"

/* A proxy or client that still sends its upload reads the response only later, and a reset would
 * lose it. So lingering goes on while many bytes come. A time is limits.linger_ns. */
#define LINGER_BYTES_LIMIT (UINT32_C(1) << 30) /* maximum bytes discarded */
#define LINGER_BYTES_LEAST 16384               /* in a time; fewer end the lingering */
#define LINGER_TIMES 15
#define HANDSHAKES_A_TURN 16
#define LOOKED INT64_MIN /* deadline_ns after the deadline, during the last read */

struct gyre_http_protocols gyre_http_protocols;

static ssize_t received(struct gyre_http_connection *connection, ssize_t count) {
  if (count < 0 && count != -EAGAIN) return count;
  /* Stays readable if the peer's end was reported, because the end is reported only once. */
  connection->readable = count >= 0 && (connection->hung_up || !gyre_transport_emptied(&connection->transport,
                                                                                       (size_t)count, GYRE_LENT_BYTES));
  if (!connection->readable && !connection->inner)
    gyre_loop_drained(gyre_http_loop(connection), connection->transport.fd, GYRE_READABLE);
  return count;
}

ssize_t gyre_http_connection_fill(struct gyre_http_connection *connection) {
  return received(connection, gyre_transport_fill(&connection->transport));
}

ssize_t gyre_http_connection_receive(struct gyre_http_connection *connection, const char **bytes) {
  char *lent = gyre_lent_plain();
  *bytes = lent;
  if (!lent) return -ENOMEM;
  return received(connection, gyre_transport_receive(&connection->transport, lent, GYRE_LENT_BYTES));
}

bool gyre_http_connection_gives_way(struct gyre_http_connection *connection, int *receptions) {
  if (++*receptions <= GYRE_HTTP_RECEIVES_AT_ONCE) return false;
  gyre_http_connection_report_again(connection);
  return true;
}

void gyre_http_connection_report_again(struct gyre_http_connection *connection) {
  if (connection->inner) {
    gyre_http_protocols.inner->report(connection);
  } else {
    gyre_loop_report_again(gyre_http_loop(connection), &connection->watch, GYRE_READABLE);
  }
}

/* Discards the client's bytes: a close with unread bytes would lose the response. */
static void read_off(struct gyre_http_connection *connection) {
  const char *bytes;
  int receptions = 0;
  while (connection->readable && !gyre_http_connection_gives_way(connection, &receptions)) {
    ssize_t count = gyre_http_connection_receive(connection, &bytes);
    if (count == -EAGAIN) return;
    if (count > 0) connection->lingered += (uint32_t)count;
    if (count <= 0 || connection->lingered > LINGER_BYTES_LIMIT) {
      gyre_http_connection_end(connection, false);
      return;
    }
  }
}

void gyre_http_connection_enter(struct gyre_http_connection *connection, const struct gyre_http_protocol *protocol,
                                const char *bytes, size_t length) {
  connection->protocol = protocol;
  protocol->begin(connection, bytes, length);
}

/* Returns the protocol, or NULL for a part of HTTP/2's preface (RFC 9113, section 3.4). */
static const struct gyre_http_protocol *find_protocol(const char *bytes, size_t length) {
  const struct gyre_http_protocol *http2 = gyre_http_protocols.http2;
  if (!http2 || bytes[0] != http2->preface[0]) return gyre_http_protocols.http1;
  size_t whole = strlen(http2->preface);
  if (memcmp(bytes, http2->preface, length < whole ? length : whole) != 0) return gyre_http_protocols.http1;
  return length < whole ? NULL : http2;
}

/* Receives the first bytes, usually a whole head in lent memory, and enters their protocol. */
static void read_first(struct gyre_http_connection *connection) {
  while (connection->readable) {
    bool kept = connection->transport.input;
    const char *bytes;
    ssize_t count = kept ? gyre_http_connection_fill(connection) : gyre_http_connection_receive(connection, &bytes);
    if (count == -EAGAIN) return;
    if (count <= 0) {
      gyre_http_connection_end(connection, kept && count < 0);
      return;
    }
    size_t length = (size_t)count;
    if (kept) {
      bytes = gyre_transport_input(&connection->transport);
      length = gyre_transport_available(&connection->transport);
    }
    const struct gyre_http_protocol *protocol = find_protocol(bytes, length);
    if (protocol) {
      gyre_http_connection_enter(connection, protocol, bytes, length);
      return;
    }
    if (!kept && gyre_transport_keep(&connection->transport, bytes, length) < 0) {
      gyre_http_connection_end(connection, true);
      return;
    }
    gyre_http_connection_set_idle(connection, false);
    gyre_http_connection_deadline(connection, connection->acceptor->limits.head_ns);
  }
}

static void await_first(struct gyre_http_connection *connection) {
  const struct gyre_http_acceptor *acceptor = connection->acceptor;
  connection->state = GYRE_HTTP_FIRST_BYTE;
  connection->readable = true; /* more bytes may have come with the PROXY header or handshake */
  gyre_http_connection_deadline(connection, acceptor->draining ? GYRE_HTTP_GRACE_NS : acceptor->limits.first_byte_ns);
}

/* --- TLS and the PROXY header --- */

/* Changes the watched events. Events that are already there are reported again. */
static bool watch(struct gyre_http_connection *connection, unsigned interest) {
  struct gyre_loop *loop = gyre_http_loop(connection);
  int fd = connection->transport.fd;
  gyre_loop_unwatch(loop, &connection->watch);
  gyre_loop_forget_unwatched(loop, fd);
  return gyre_loop_watch(loop, &connection->watch, fd, interest | GYRE_STANDING) == 0;
}

/* Responds in plain HTTP if the client does not speak TLS. Does not count a failure if no byte
 * came, as in a proxy's health check. */
static void handshake_failed(struct gyre_http_connection *connection) {
  static char response[] = "HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain\r\ncontent-length: 36\r\n"
                           "connection: close\r\n\r\nthis port speaks TLS: use https://\r\n";
  bool begun = gyre_tls_begun(&connection->transport);
  if (begun) connection->acceptor->statistics.handshakes_failed++;
  if (!begun || !gyre_tls_leave(&connection->transport)) {
    gyre_http_connection_end(connection, false);
    return;
  }
  if (gyre_transport_sendv(&connection->transport, &(struct iovec){response, sizeof(response) - 1}, 1) > 0)
    gyre_http_connection_linger(connection);
  if (connection->state != GYRE_HTTP_LINGERING) {
    gyre_http_connection_end(connection, false);
    return;
  }
  connection->readable = true; /* more bytes may have come with the first bytes */
  read_off(connection);
}

/* Runs a step of the handshake. Steps per turn are limited, because a step may take half a ms. */
static void shake_hands(struct gyre_http_connection *connection) {
  struct gyre_http_acceptor *acceptor = connection->acceptor;
  struct gyre_loop *loop = gyre_http_loop(connection);
  const struct gyre_http_protocol *http2 = gyre_http_protocols.http2;
  if (acceptor->counts.handshake_turn != loop->statistics.turns) acceptor->counts.handshakes = 0;
  acceptor->counts.handshake_turn = loop->statistics.turns;
  if (++acceptor->counts.handshakes > HANDSHAKES_A_TURN) {
    if (connection->deadline_ns == LOOKED) gyre_http_connection_deadline(connection, acceptor->limits.handshake_ns);
    gyre_loop_report_again(loop, &connection->watch, GYRE_READABLE);
    return;
  }
  int error = gyre_transport_handshake(&connection->transport);
  unsigned wants = error == -EAGAIN ? connection->transport.read.wants : GYRE_READABLE;
  if (error < 0 && error != -EAGAIN) {
    handshake_failed(connection);
  } else if ((connection->watch.interest & (GYRE_READABLE | GYRE_WRITABLE)) != wants && !watch(connection, wants)) {
    gyre_http_connection_end(connection, true);
  } else if (error == -EAGAIN) {
    gyre_loop_drained(loop, connection->transport.fd, wants);
  } else {
    acceptor->statistics.handshakes++;
    if (gyre_tls_resumed(&connection->transport)) acceptor->statistics.handshakes_resumed++;
    if (gyre_tls_agreed(&connection->transport, GYRE_TLS_CHALLENGE)) {
      gyre_http_connection_end(connection, false);
      return;
    }
    await_first(connection);
    if (http2 && gyre_tls_agreed(&connection->transport, http2->alpn)) {
      gyre_http_connection_enter(connection, http2, NULL, 0);
    } else {
      read_first(connection);
    }
  }
}

static ssize_t proxy_receive(int fd, void *bytes, size_t length, int flags) {
  ssize_t count = GYRE_RETRY(recv(fd, bytes, length, flags | MSG_DONTWAIT));
  if (count >= 0) return count;
  return errno == EWOULDBLOCK ? -EAGAIN : -errno;
}

/* Peeks at a PROXY header (MSG_PEEK), then receives the header and no byte after it, because the
 * next byte may be TLS's. A partial header is kept in the transport's input. Returns 1 for a
 * complete header, -EAGAIN for a partial one, 0 at the peer's end, or -errno (-EPROTO: invalid
 * header). */
static int proxy_header_take(struct gyre_transport *transport, unsigned versions, struct gyre_proxy_source *source) {
  uint8_t bytes[GYRE_PROXY_BYTES];
  for (;;) {
    size_t held = gyre_transport_available(transport);
    if (held) memcpy(bytes, gyre_transport_input(transport), held);
    ssize_t count = proxy_receive(transport->fd, bytes + held, sizeof(bytes) - held, MSG_PEEK);
    if (count <= 0) return (int)count;
    int length = gyre_proxy_parse(bytes, held + (size_t)count, versions, source);
    if (length < 0) return -EPROTO;
    /* Takes the rest of a complete header, or all bytes of a partial header. */
    size_t taken = length > 0 ? (size_t)length - held : (size_t)count;
    ssize_t received = proxy_receive(transport->fd, bytes + held, taken, 0);
    if (received != (ssize_t)taken) return received < 0 ? (int)received : -EPROTO;
    if (length > 0) {
      gyre_transport_consume(transport, held);
      return 1;
    }
    int error = gyre_transport_keep(transport, bytes + held, taken);
    if (error < 0) return error;
  }
}

/* Takes the client's address from the PROXY header, which precedes TLS. */
static void take_proxy_header(struct gyre_http_connection *connection) {
  struct gyre_proxy_source source;
  int result = proxy_header_take(&connection->transport, connection->proxy, &source);
  if (result == -EAGAIN) {
    gyre_loop_drained(gyre_http_loop(connection), connection->transport.fd, GYRE_READABLE);
    return;
  }
  if (result <= 0) {
    if (result == -EPROTO) connection->acceptor->statistics.malformed++;
    gyre_http_connection_end(connection, false);
    return;
  }
  if (source.family) {
    connection->peer.family = source.family;
    memcpy(connection->peer.address, source.address, sizeof(source.address));
  }
  if (!connection->transport.handshaken) {
    connection->state = GYRE_HTTP_HANDSHAKE;
    shake_hands(connection);
    return;
  }
  await_first(connection);
  read_first(connection);
}

static void on_ready(struct gyre_loop *loop, struct gyre_watch *watch, unsigned ready) {
  struct gyre_http_connection *connection = GYRE_CONTAINER(watch, struct gyre_http_connection, watch);
  if (ready & GYRE_READ_ENDED) connection->hung_up = true;
  if (ready & GYRE_READABLE) {
    connection->readable = true;
  } else if (connection->state > GYRE_HTTP_HANDSHAKE) {
    return;
  }
  switch (connection->state) {
  case GYRE_HTTP_BETWEEN:
  case GYRE_HTTP_SERVING: connection->protocol->readable(connection); break;
  case GYRE_HTTP_PROXY: take_proxy_header(connection); break;
  case GYRE_HTTP_HANDSHAKE: shake_hands(connection); break;
  case GYRE_HTTP_FIRST_BYTE: read_first(connection); break;
  case GYRE_HTTP_LINGERING: read_off(connection); break;
  default: break;
  }
}

/* Moves the timer only to an earlier time. For a later deadline, on_time sets the timer again. */
void gyre_http_connection_due(struct gyre_http_connection *connection, int64_t due_ns) {
  connection->deadline_ns = due_ns;
  if (due_ns == INT64_MAX || (gyre_timer_armed(&connection->timer) && connection->timer.when_ns <= due_ns)) return;
  /* Ignores a failure: if memory is short, the connection has no time limit. */
  (void)gyre_timers_arm(&gyre_http_loop(connection)->timers, &connection->timer, due_ns);
}

void gyre_http_connection_deadline(struct gyre_http_connection *connection, int64_t timeout_ns) {
  gyre_http_connection_due(connection,
                           timeout_ns < 0 ? INT64_MAX : gyre_loop_coarse_now(gyre_http_loop(connection)) + timeout_ns);
}

/* True while the client still takes sent bytes and is not too slow. The close must then wait: bytes
 * that come after a close, such as HTTP/2's window updates, cause a reset that loses the rest. */
static bool still_takes(struct gyre_http_connection *connection) {
  const struct gyre_http_limits *limits = &connection->acceptor->limits;
  (void)gyre_transport_flush(&connection->transport); /* TLS's end may still be unsent */
  size_t untaken = gyre_transport_untaken(&connection->transport);
  if (untaken > UINT32_MAX) untaken = UINT32_MAX;
  bool moved = untaken != connection->untaken;
  connection->untaken = (uint32_t)untaken;
  connection->unmoved = moved ? 0 : (uint8_t)(connection->unmoved + 1);
  return untaken && connection->unmoved < UINT8_MAX &&
         (limits->write_ns < 0 || connection->unmoved * limits->linger_ns < limits->write_ns);
}

/* True while the client sends the rest of an upload, for a limited time. */
static bool still_sends(struct gyre_http_connection *connection) {
  uint32_t came = connection->lingered - connection->lingered_before;
  connection->lingered_before = connection->lingered;
  return came >= LINGER_BYTES_LEAST && connection->linger_times < LINGER_TIMES && ++connection->linger_times;
}

static void on_time(struct gyre_timer *timer, void *context) {
  struct gyre_http_connection *connection = GYRE_CONTAINER(timer, struct gyre_http_connection, timer);
  struct gyre_loop *loop = context;
  struct gyre_http_acceptor *acceptor = connection->acceptor;
  if (connection->deadline_ns == INT64_MAX || connection->exchange) return;
  if (connection->deadline_ns > loop->now_ns) {
    (void)gyre_timers_arm(&loop->timers, timer, connection->deadline_ns);
  } else if (connection->state == GYRE_HTTP_SERVING) {
    connection->protocol->late(connection);
  } else if (connection->state == GYRE_HTTP_LINGERING && (still_sends(connection) || still_takes(connection))) {
    gyre_http_connection_deadline(connection, acceptor->limits.linger_ns);
  } else if (connection->state != GYRE_HTTP_LINGERING && connection->deadline_ns != LOOKED &&
             gyre_transport_input_waits(&connection->transport)) {
    /* Bytes in the socket count as in time: a busy loop may only report them late. */
    connection->deadline_ns = LOOKED;
    (void)gyre_timers_arm(&loop->timers, timer, loop->now_ns);
    on_ready(loop, &connection->watch, GYRE_READABLE);
  } else if (connection->state == GYRE_HTTP_BETWEEN ||
             (connection->state == GYRE_HTTP_FIRST_BYTE && !acceptor->draining)) {
    connection->protocol->late(connection);
  } else {
    if (connection->state == GYRE_HTTP_HANDSHAKE) acceptor->statistics.handshakes_failed++;
    gyre_http_connection_end(connection, false);
  }
}

struct gyre_peer gyre_http_peer(const struct sockaddr_storage *address) {
  struct gyre_peer peer = {.family = (uint8_t)address->ss_family};
  if (address->ss_family == AF_INET) {
    memcpy(peer.address, &((const struct sockaddr_in *)address)->sin_addr, 4);
  } else if (address->ss_family == AF_INET6) {
    memcpy(peer.address, &((const struct sockaddr_in6 *)address)->sin6_addr, 16);
  }
  return peer;
}

struct gyre_http_connection *gyre_http_connection_new(const struct gyre_acceptor_listener *listener, int fd,
                                                      const struct sockaddr_storage *address) {
  struct gyre_http_acceptor *acceptor = GYRE_CONTAINER(listener->acceptor, struct gyre_http_acceptor, net);
  struct gyre_http_connection *connection = calloc(1, sizeof(*connection));
  if (!connection) return NULL;
  connection->acceptor = acceptor;
  connection->protocol = gyre_http_protocols.http1; /* until the first bytes show the protocol */
  connection->proxy = listener->proxy & 3;
  connection->state = listener->proxy ? GYRE_HTTP_PROXY : listener->tls ? GYRE_HTTP_HANDSHAKE : GYRE_HTTP_FIRST_BYTE;
  connection->https = listener->tls;
  connection->peer = gyre_http_peer(address);
  connection->watch.ready = on_ready;
  connection->timer.fire = on_time;
  /* Forgets the descriptor's former file, which the program may have closed outside the loop. */
  gyre_loop_forget(&acceptor->scheduler->loop, fd);
  if (gyre_acceptor_open(listener, &connection->transport, fd) < 0 ||
      gyre_loop_watch(&acceptor->scheduler->loop, &connection->watch, fd, GYRE_READABLE | GYRE_STANDING) < 0) {
    gyre_transport_free(&connection->transport);
    free(connection);
    return NULL;
  }
  gyre_list_append(&acceptor->connections, &connection->node);
  return connection;
}

void gyre_http_connection_begin_inner(struct gyre_http_connection *connection,
                                      const struct gyre_http_connection *outer) {
  connection->acceptor = outer->acceptor;
  connection->inner = true;
  connection->watch.fd = -1;
  connection->watch.ready = on_ready;
  connection->timer.fire = on_time;
  gyre_list_append(&connection->acceptor->connections, &connection->node);
}

void gyre_http_connection_set_idle(struct gyre_http_connection *connection, bool idle) {
  if (connection->is_idle == idle || connection->inner) return;
  connection->is_idle = idle;
  connection->acceptor->counts.idle += idle ? 1u : -1u;
}

void gyre_http_connection_detach(struct gyre_http_connection *connection) {
  struct gyre_http_acceptor *acceptor = connection->acceptor;
  struct gyre_loop *loop = gyre_http_loop(connection);
  gyre_loop_unwatch(loop, &connection->watch);
  connection->protocol->detached(connection); /* before gyre_loop_abandon calls the other watches */
  gyre_loop_abandon(loop, connection->transport.fd);
  gyre_timers_cancel(&loop->timers, &connection->timer);
  gyre_list_remove(&connection->node);
  if (!connection->inner) gyre_http_statistics_take_bytes(&acceptor->statistics, &connection->transport);
  gyre_http_connection_set_idle(connection, false);
  if (connection->counted) gyre_acceptor_count(&acceptor->net, -1);
  if (!connection->counted && connection->state == GYRE_HTTP_LINGERING) acceptor->counts.lingering_refused--;
  connection->counted = connection->keep_alive = false;
  if (!connection->exchange || connection->abandoned) return;
  gyre_http_exchange_wake_reader(connection->exchange);
  connection->exchange->reader = NULL; /* the reading fiber may never run again */
}

void gyre_http_connection_close(struct gyre_http_connection *connection, bool reset) {
  if (connection->state == GYRE_HTTP_CLOSED || connection->state == GYRE_HTTP_HIJACKED) return;
  gyre_http_connection_detach(connection);
  connection->state = GYRE_HTTP_CLOSED;
  if (connection->inner) {
    gyre_http_protocols.inner->close(connection, reset);
  } else {
    gyre_transport_close(&connection->transport, reset);
  }
  if (connection->exchange) gyre_http_exchange_peer_ended(connection->exchange);
}

void gyre_http_connection_free(struct gyre_http_connection *connection) {
  if (connection->exchange || !connection->protocol->free(connection, false)) return;
  gyre_transport_free(&connection->transport);
  free(connection);
}

void gyre_http_connection_discard(struct gyre_http_connection *connection) {
  gyre_list_remove(&connection->node);
  if (connection->transport.fd >= 0) close(connection->transport.fd);
  (void)connection->protocol->free(connection, true);
  gyre_transport_free(&connection->transport);
  free(connection);
}

void gyre_http_connection_end(struct gyre_http_connection *connection, bool reset) {
  gyre_http_connection_close(connection, reset);
  gyre_http_connection_free(connection);
}

void gyre_http_connection_linger(struct gyre_http_connection *connection) {
  if (connection->state == GYRE_HTTP_CLOSED || connection->state == GYRE_HTTP_HIJACKED) return;
  int error = connection->inner ? connection->transport.operations->end(&connection->transport)
                                : gyre_transport_end(&connection->transport);
  if ((error < 0 && error != -EAGAIN) || connection->inner) { /* a stream needs no lingering */
    gyre_http_connection_close(connection, false);
    return;
  }
  connection->protocol->detached(connection);
  gyre_bytes_free(&connection->transport.input);
  connection->state = GYRE_HTTP_LINGERING;
  connection->lingered = connection->lingered_before = 0;
  gyre_http_connection_deadline(connection, connection->acceptor->limits.linger_ns);
}
