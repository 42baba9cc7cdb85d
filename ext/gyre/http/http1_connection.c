/*
 * One HTTP/1 connection between its requests, on the loop's fiber: collects a head from its
 * transport, keeps the times, lingers, closes. A head that is complete is admitted or queued, and
 * goes to acceptor->serve. It never waits.
 */
#include "http/http1.h"
#include "net/proxy_header.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINGER_BYTES_LIMIT (1 << 20) /* read off a refused client before it is cut */
#define HANDSHAKES_A_TURN 16
#define LOOKED INT64_MIN /* the deadline of a connection that is over unless its last bytes complete a head */

/* --- receiving --- */

static ssize_t received(struct gyre_http1_connection *connection, ssize_t count, size_t wanted) {
  if (count < 0 && count != -EAGAIN) return count;
  /* What comes next is a new edge; but an end that was reported already is none. */
  connection->readable =
      count >= 0 && (connection->hung_up || !gyre_transport_emptied(&connection->transport, (size_t)count, wanted));
  if (!connection->readable)
    gyre_loop_drained(&connection->acceptor->scheduler->loop, connection->transport.fd, GYRE_READABLE);
  return count;
}

ssize_t gyre_http1_connection_fill(struct gyre_http1_connection *connection) {
  return received(connection, gyre_transport_fill(&connection->transport), GYRE_LENT_BYTES);
}

ssize_t gyre_http1_connection_receive(struct gyre_http1_connection *connection, const char **bytes) {
  char *lent = gyre_lent_plain();
  *bytes = lent;
  return lent ? received(connection, gyre_transport_receive(&connection->transport, lent, GYRE_LENT_BYTES),
                         GYRE_LENT_BYTES)
              : -ENOMEM;
}

void gyre_http1_connection_release_partial(struct gyre_http1_connection *connection) {
  if (!connection->partial) return;
  connection->acceptor->capacity->heads.used -= connection->partial->counted;
  free(connection->partial);
  connection->partial = NULL;
}

static void release_body(struct gyre_http1_connection *connection) {
  if (!connection->body) return;
  gyre_http_budget_hold(&connection->acceptor->capacity->input, &connection->body->counted, 0);
  free(connection->body);
  connection->body = NULL;
}

static void release_input(struct gyre_http1_connection *connection) {
  release_body(connection);
  gyre_http1_connection_release_partial(connection);
  gyre_bytes_free(&connection->transport.input);
}

static void end(struct gyre_http1_connection *connection, bool reset) {
  gyre_http1_connection_close(connection, reset);
  gyre_http1_connection_free(connection);
}

static void leave_idle(struct gyre_http1_connection *connection) {
  if (connection->is_idle) connection->acceptor->idle--;
  connection->is_idle = false;
}

/* What a call of the parser came to. */
static bool parsed(struct gyre_http1_connection *connection, struct gyre_http1_request *request,
                   const struct gyre_http1_head *head, const char *bytes, size_t available, int length) {
  *request = (struct gyre_http1_request){.head = head, .bytes = bytes};
  if (length > 0) {
    request->held = (uint32_t)length;
    request->length = (size_t)length;
    request->came = available - request->length;
  }
  if (length < 0) {
    request->status = head->status;
    request->reason = head->reason;
    connection->acceptor->malformed++;
  }
  return length != 0;
}

bool gyre_http1_connection_parse(struct gyre_http1_connection *connection, struct gyre_http1_request *request) {
  struct gyre_http1_acceptor *acceptor = connection->acceptor;
  const struct gyre_http1_limits *limits = &acceptor->limits.head;
  const char *bytes = gyre_transport_input(&connection->transport);
  size_t available = gyre_transport_available(&connection->transport);

  if (!connection->partial) {
    struct gyre_http1_head *head = &acceptor->head;
    gyre_http1_head_reset(head, acceptor->fields, limits->header_count);
    int length = gyre_http1_head_parse(head, bytes, available, limits);
    if (length) return parsed(connection, request, head, bytes, available, length);

    size_t fields_size = limits->header_count * sizeof(struct gyre_http1_field);
    struct gyre_http1_partial *partial = connection->partial = malloc(sizeof(*partial) + fields_size);
    if (!partial) {
      head->status = 503;
      head->reason = "no memory for this request";
      return parsed(connection, request, head, bytes, available, -1);
    }
    partial->counted = 0;
    gyre_http1_head_reset(&partial->head, partial->fields, limits->header_count);
  }
  struct gyre_http1_head *head = &connection->partial->head;
  return parsed(connection, request, head, bytes, available, gyre_http1_head_parse(head, bytes, available, limits));
}

/* The head has come in part: what it holds is counted. False: all of them hold too much. */
static bool head_fits(struct gyre_http1_connection *connection) {
  struct gyre_http1_acceptor *acceptor = connection->acceptor;
  struct gyre_http1_partial *partial = connection->partial;
  size_t bytes = connection->transport.input->capacity + sizeof(*partial) +
                 acceptor->limits.head.header_count * sizeof(struct gyre_http1_field);
  acceptor->capacity->heads.used += (int64_t)bytes - partial->counted;
  partial->counted = (uint32_t)bytes;
  return acceptor->capacity->heads.used <= acceptor->capacity->heads.limit;
}

static void refuse_partial(struct gyre_http1_connection *connection, uint16_t status, const char *reason) {
  const struct gyre_http1_partial *partial = connection->partial;
  struct gyre_http1_request request = {.head = partial ? &partial->head : NULL,
                                       .bytes = gyre_transport_input(&connection->transport),
                                       .status = status,
                                       .reason = reason};
  connection->acceptor->serve(connection, &request);
}

static bool keep_head(struct gyre_http1_connection *connection) {
  if (head_fits(connection)) return true;
  connection->acceptor->refused++;
  refuse_partial(connection, 503, "too many requests have come in part");
  return false;
}

/* --- admission --- */

static bool refuse(struct gyre_http1_request *request, const char *reason) {
  request->status = 503;
  request->reason = reason;
  return false;
}

/* Where places are few, a body is there before one is taken. One that is too long is refused. */
static bool lacks_body(const struct gyre_http1_acceptor *acceptor, const struct gyre_http1_request *request) {
  const struct gyre_http1_head *head = request->head;
  struct gyre_http1_ahead ahead;
  if (!request->length || head->content_length > acceptor->limits.body_bytes) return false;
  if (!(head->flags & GYRE_HTTP1_CHUNKED) && head->content_length <= 0) return false;
  gyre_http1_ahead_begin(&ahead, head, acceptor->limits.body_ahead, acceptor->limits.trailers.header_bytes);
  return !gyre_http1_ahead_is_there(&ahead, request->bytes + request->length, request->came);
}

bool gyre_http1_connection_admit(struct gyre_http1_connection *connection, struct gyre_http1_request *request) {
  struct gyre_admission *admission = &connection->acceptor->capacity->admission;
  if (request->status) return true; /* it is refused, without the app */
  if (admission->running_limit && lacks_body(connection->acceptor, request)) {
    request->lacks_body = !gyre_http1_is_exempt(connection->acceptor, request);
    return !request->lacks_body;
  }
  if (!gyre_admission_has_place(admission)) return gyre_http1_is_exempt(connection->acceptor, request);
  gyre_admission_take(admission);
  request->placed = true;
  return true;
}

static void release_waiting(struct gyre_http1_connection *connection) {
  struct gyre_http1_waiting *waiting = connection->waiting;
  if (!waiting) return;
  gyre_admission_withdraw(&connection->acceptor->capacity->admission, &waiting->waiter);
  connection->acceptor->capacity->heads.used -= waiting->counted;
  connection->waiting = NULL;
  free(waiting);
}

void gyre_http1_connection_decided(struct gyre_http1_connection *connection) {
  struct gyre_http1_waiting *waiting = connection->waiting;
  struct gyre_http1_acceptor *acceptor = connection->acceptor;
  if (waiting->verdict == GYRE_HTTP1_UNDECIDED || connection->exchange) return;
  bool starts = waiting->verdict == GYRE_HTTP1_START;
  int64_t since_ns = waiting->waiter.since_ns;
  release_waiting(connection);
  struct gyre_http1_request request;
  bool whole = gyre_http1_connection_parse(connection, &request);
  if (starts && (!whole || request.status)) gyre_admission_leave(&acceptor->capacity->admission);
  if (!whole) { /* never: it was */
    end(connection, true);
    return;
  }
  request.placed = starts && !request.status;
  request.since_ns = since_ns;
  if (!starts && !request.status) {
    request.status = 503;
    request.reason = "the server has too many requests, and this one waited for its turn too long";
  }
  acceptor->serve(connection, &request);
}

static void on_place(struct gyre_admission_waiter *waiter) {
  struct gyre_http1_waiting *waiting = GYRE_CONTAINER(waiter, struct gyre_http1_waiting, waiter);
  waiting->verdict = GYRE_HTTP1_START;
  gyre_http1_connection_decided(waiting->connection);
}

static void on_late(struct gyre_admission_waiter *waiter) {
  struct gyre_http1_waiting *waiting = GYRE_CONTAINER(waiter, struct gyre_http1_waiting, waiter);
  waiting->verdict = GYRE_HTTP1_REFUSE;
  gyre_http1_connection_decided(waiting->connection);
}

/* A client that waits for a 100 sends nothing before it. It fits into any socket that has taken the
 * responses before. */
static bool send_continue(struct gyre_http1_connection *connection, const struct gyre_http1_request *request) {
  static char text[] = "HTTP/1.1 100 Continue\r\n\r\n";
  if (!(request->head->flags & GYRE_HTTP1_EXPECT_CONTINUE) || request->came > 0) return true;
  return gyre_transport_sendv(&connection->transport, &(struct iovec){text, sizeof(text) - 1}, 1) == sizeof(text) - 1;
}

static void body_deadline(struct gyre_http1_connection *connection) {
  const struct gyre_http1_awaiting *body = connection->body;
  int64_t now_ns = gyre_loop_coarse_now(&connection->acceptor->scheduler->loop);
  const char *reason;
  size_t received = gyre_transport_available(&connection->transport) - body->head_length;
  int64_t limit_ns = gyre_http_body_limit_ns(&connection->acceptor->limits, (int64_t)received, now_ns - body->since_ns,
                                             false, &reason);
  connection->deadline_ns = INT64_MAX; /* an earlier one was for the head */
  gyre_http1_connection_deadline(connection, limit_ns);
}

/* Counts what is held of the body; false: all requests hold too much. */
static bool body_fits(struct gyre_http1_connection *connection) {
  struct gyre_http_budget *budget = &connection->acceptor->capacity->input;
  gyre_http_budget_hold(budget, &connection->body->counted,
                        sizeof(*connection->body) + connection->transport.input->capacity);
  return !gyre_http_budget_is_over(budget);
}

#define BODIES_HOLD_TOO_MUCH "the bodies of requests hold too much memory"

/* The body is awaited without a place. False: the request is to be refused with its status. */
static bool await_body(struct gyre_http1_connection *connection, struct gyre_http1_request *request) {
  struct gyre_http1_acceptor *acceptor = connection->acceptor;
  struct gyre_http1_awaiting *body = connection->body = calloc(1, sizeof(*body));
  if (!body) return refuse(request, "no memory for this request");
  gyre_http1_ahead_begin(&body->ahead, request->head, acceptor->limits.body_ahead,
                         acceptor->limits.trailers.header_bytes);
  body->head_length = request->length;
  body->since_ns = gyre_loop_coarse_now(&acceptor->scheduler->loop);
  if (!body_fits(connection) || !send_continue(connection, request)) {
    release_body(connection);
    acceptor->refused++;
    return refuse(request, BODIES_HOLD_TOO_MUCH);
  }
  connection->state = GYRE_HTTP1_BODY;
  gyre_http1_connection_release_partial(connection);
  leave_idle(connection);
  body_deadline(connection);
  return true;
}

bool gyre_http1_connection_wait(struct gyre_http1_connection *connection, struct gyre_http1_request *request) {
  if (request->lacks_body) return await_body(connection, request);
  struct gyre_http1_acceptor *acceptor = connection->acceptor;
  struct gyre_http1_waiting *waiting = calloc(1, sizeof(*waiting));
  if (!waiting) return refuse(request, "no memory for this request");
  waiting->connection = connection;
  waiting->waiter.start = on_place;
  waiting->waiter.refuse = on_late;
  waiting->counted =
      (uint32_t)(sizeof(*waiting) + (connection->transport.input ? connection->transport.input->capacity : 0));
  if (acceptor->capacity->heads.used + waiting->counted > acceptor->capacity->heads.limit) {
    acceptor->capacity->admission.refused++;
    free(waiting);
    return refuse(request, "the requests that wait hold too much memory");
  }
  if (gyre_admission_enter(&acceptor->capacity->admission, &waiting->waiter) == GYRE_ADMISSION_REFUSED) {
    free(waiting);
    return refuse(request, "too many requests wait already");
  }
  acceptor->capacity->heads.used += waiting->counted;
  connection->waiting = waiting;
  connection->state = GYRE_HTTP1_WAITING;
  connection->deadline_ns = INT64_MAX; /* the queue's limit counts */
  gyre_http1_connection_release_partial(connection);
  leave_idle(connection);
  if (connection->hung_up) gyre_admission_put_last(&acceptor->capacity->admission, &waiting->waiter);
  return true;
}

/* The client has ended its side, or has reset the connection. */
static void leave_queue(struct gyre_http1_connection *connection) {
  if (gyre_transport_is_reset(&connection->transport)) {
    end(connection, true);
  } else if (connection->waiting->verdict == GYRE_HTTP1_UNDECIDED) {
    gyre_admission_put_last(&connection->acceptor->capacity->admission, &connection->waiting->waiter);
  }
}

static void read_ahead(struct gyre_http1_connection *connection);

/* A whole head is the beginning of the transport's input. */
static void serve_or_wait(struct gyre_http1_connection *connection, struct gyre_http1_request *request) {
  if (gyre_http1_connection_admit(connection, request) || !gyre_http1_connection_wait(connection, request)) {
    connection->acceptor->serve(connection, request);
  } else if (connection->state == GYRE_HTTP1_BODY) {
    read_ahead(connection); /* more may have been reported with the head */
  }
}

/* The body is there (status 0), or never will be. */
static void end_body(struct gyre_http1_connection *connection, uint16_t status, const char *reason) {
  struct gyre_http1_request request;
  release_body(connection);
  if (!gyre_http1_connection_parse(connection, &request)) { /* never: it was whole */
    end(connection, true);
    return;
  }
  if (status) {
    request.status = status;
    request.reason = reason;
  }
  serve_or_wait(connection, &request);
}

static void read_ahead(struct gyre_http1_connection *connection) {
  struct gyre_http1_awaiting *body = connection->body;
  while (connection->readable) {
    ssize_t count = gyre_http1_connection_fill(connection);
    if (count == -EAGAIN) return;
    if (count <= 0) {
      end_body(connection, 400, "the client left before the end of the request's body");
      return;
    }
    const char *bytes = gyre_transport_input(&connection->transport) + body->head_length;
    if (gyre_http1_ahead_is_there(&body->ahead, bytes,
                                  gyre_transport_available(&connection->transport) - body->head_length)) {
      end_body(connection, 0, NULL);
      return;
    }
    if (!body_fits(connection)) {
      connection->acceptor->refused++;
      end_body(connection, 503, BODIES_HOLD_TOO_MUCH);
      return;
    }
    body_deadline(connection);
  }
}

static bool serve_if_parsed(struct gyre_http1_connection *connection) {
  struct gyre_http1_request request;
  if (!gyre_http1_connection_parse(connection, &request)) return false;
  serve_or_wait(connection, &request);
  return true;
}

static void read_more(struct gyre_http1_connection *connection);

/* --- HTTP/2 (RFC 9113, section 3): its preface is no request of HTTP/1 --- */

/* How much of the preface the first bytes of a connection are; 0: they are something else. */
static size_t preface_length(const struct gyre_http1_connection *connection, const char *bytes, size_t length) {
  if (length == 0 || bytes[0] != 'P' || connection->requests || !connection->acceptor->http2) return 0;
  if (length > GYRE_HTTP2_PREFACE_BYTES) length = GYRE_HTTP2_PREFACE_BYTES;
  return memcmp(bytes, GYRE_HTTP2_PREFACE, length) == 0 ? length : 0;
}

static void begin_http2(struct gyre_http1_connection *connection, const char *bytes, size_t length) {
  gyre_http1_connection_release_partial(connection);
  connection->state = GYRE_HTTP1_SERVING;
  connection->acceptor->http2->begin(connection, bytes, length);
}

/* The first bytes of a head, in lent memory. Mostly they are all of it, and nothing is kept. */
static void read_first(struct gyre_http1_connection *connection) {
  struct gyre_http1_acceptor *acceptor = connection->acceptor;
  const char *bytes;
  ssize_t count = gyre_http1_connection_receive(connection, &bytes);
  if (count == -EAGAIN) return;
  if (count <= 0) {
    end(connection, false);
    return;
  }

  size_t preface = preface_length(connection, bytes, (size_t)count);
  if (preface == GYRE_HTTP2_PREFACE_BYTES) {
    begin_http2(connection, bytes, (size_t)count);
    return;
  }

  struct gyre_http1_request request;
  gyre_http1_head_reset(&acceptor->head, acceptor->fields, acceptor->limits.head.header_count);
  int length = preface ? 0 : gyre_http1_head_parse(&acceptor->head, bytes, (size_t)count, &acceptor->limits.head);
  bool whole = parsed(connection, &request, &acceptor->head, bytes, (size_t)count, length);
  request.held = 0;
  if (request.status) {
    acceptor->serve(connection, &request);
    return;
  }
  /* What is not a whole head is kept, the beginning of one, or what follows it; and all of it while
   * the request waits. */
  bool waits = whole && !gyre_http1_connection_admit(connection, &request);
  int kept = waits ? 0 : length;
  if (gyre_transport_keep(&connection->transport, bytes + kept, (size_t)(count - kept)) < 0) {
    if (request.placed) gyre_admission_leave(&acceptor->capacity->admission);
    end(connection, true);
    return;
  }
  if (waits) {
    request.held = (uint32_t)length;
    request.bytes = gyre_transport_input(&connection->transport);
    if (gyre_http1_connection_wait(connection, &request)) {
      if (connection->state == GYRE_HTTP1_BODY) read_ahead(connection);
      return;
    }
  }
  if (whole) {
    acceptor->serve(connection, &request);
    return;
  }
  connection->state = GYRE_HTTP1_HEAD;
  leave_idle(connection);
  gyre_http1_connection_deadline(connection, acceptor->limits.head_ns);
  if (preface || (!serve_if_parsed(connection) && keep_head(connection)))
    read_more(connection); /* the end may have been reported with these bytes */
}

/* After some receptions the other connections have their turn: of TLS each may be many small
 * records. */
static bool gives_way(struct gyre_http1_connection *connection, int *receptions) {
  if (++*receptions <= GYRE_HTTP_RECEIVES_AT_ONCE) return false;
  gyre_loop_report_again(&connection->acceptor->scheduler->loop, &connection->watch, GYRE_READABLE);
  return true;
}

static void read_more(struct gyre_http1_connection *connection) {
  int receptions = 0;
  while (connection->readable && !gives_way(connection, &receptions)) {
    ssize_t count = gyre_http1_connection_fill(connection);
    if (count == -EAGAIN) return;
    if (count <= 0) {
      end(connection, count < 0);
      return;
    }
    const char *bytes = gyre_transport_input(&connection->transport);
    size_t available = gyre_transport_available(&connection->transport);
    size_t preface = connection->partial ? 0 : preface_length(connection, bytes, available);
    if (preface == GYRE_HTTP2_PREFACE_BYTES) {
      begin_http2(connection, bytes, available);
      return;
    }
    if (preface == 0 && (serve_if_parsed(connection) || !keep_head(connection))) return;
  }
}

/* What a refused client still sends is read off, so that its response is not lost to a reset. */
static void read_off(struct gyre_http1_connection *connection) {
  const char *bytes;
  int receptions = 0;
  while (connection->readable && !gives_way(connection, &receptions)) {
    ssize_t count = gyre_http1_connection_receive(connection, &bytes);
    if (count == -EAGAIN) return;
    if (count > 0) connection->lingered += (uint32_t)count;
    uint32_t most = LINGER_BYTES_LIMIT;
    if (connection->http2) most += connection->acceptor->limits.http2.connection_window; /* may be on its way */
    if (count <= 0 || connection->lingered > most) {
      end(connection, false);
      return;
    }
  }
}

/* What is watched from now on, reported also if it has been before. */
static bool watch(struct gyre_http1_connection *connection, unsigned interest) {
  struct gyre_loop *loop = &connection->acceptor->scheduler->loop;
  int fd = connection->transport.fd;
  gyre_loop_unwatch(loop, &connection->watch);
  gyre_loop_forget_unwatched(loop, fd);
  return gyre_loop_watch(loop, &connection->watch, fd, interest | GYRE_STANDING) == 0;
}

/* Sends a constant response to a client that no exchange serves, and reads off what it sends. */
static void reply(struct gyre_http1_connection *connection, const char *response) {
  const struct iovec piece = {(void *)response, strlen(response)};
  if (gyre_transport_sendv(&connection->transport, &piece, 1) > 0) gyre_http1_connection_linger(connection);
  if (connection->state != GYRE_HTTP1_LINGERING) {
    end(connection, false);
    return;
  }
  connection->readable = true; /* more may have come with the beginning */
  read_off(connection);
}

/* A client that speaks plain HTTP gets a response that it understands. One that leaves without a
 * byte, as checks of a proxy do, has begun no handshake. */
static void handshake_failed(struct gyre_http1_connection *connection) {
  if (!gyre_acceptor_begun(&connection->transport)) {
    end(connection, false);
    return;
  }
  connection->acceptor->statistics.handshakes_failed++;
  if (!gyre_acceptor_leave_tls(&connection->transport)) {
    end(connection, false);
    return;
  }
  reply(connection, "HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain\r\ncontent-length: 36\r\n"
                    "connection: close\r\n\r\nthis port speaks TLS: use https://\r\n");
}

/* A step of the handshake. The steps of a turn are bounded: each may compute for half a
 * millisecond, and requests wait for it. */
static void shake_hands(struct gyre_http1_connection *connection) {
  struct gyre_http1_acceptor *acceptor = connection->acceptor;
  struct gyre_loop *loop = &acceptor->scheduler->loop;
  if (acceptor->handshake_turn != loop->statistics.turns) acceptor->handshakes = 0;
  acceptor->handshake_turn = loop->statistics.turns;
  if (++acceptor->handshakes > HANDSHAKES_A_TURN) {
    if (connection->deadline_ns == LOOKED) gyre_http1_connection_deadline(connection, acceptor->limits.handshake_ns);
    gyre_loop_report_again(loop, &connection->watch, GYRE_READABLE);
    return;
  }
  int error = gyre_transport_handshake(&connection->transport);
  unsigned wants = error == -EAGAIN ? connection->transport.read.wants : GYRE_READABLE;
  if (error < 0 && error != -EAGAIN) {
    handshake_failed(connection);
  } else if ((connection->watch.interest & (GYRE_READABLE | GYRE_WRITABLE)) != wants && !watch(connection, wants)) {
    end(connection, true);
  } else if (error == -EAGAIN) {
    gyre_loop_drained(loop, connection->transport.fd, wants);
  } else {
    acceptor->statistics.handshakes++;
    if (gyre_acceptor_resumed(&connection->transport)) acceptor->statistics.handshakes_resumed++;
    connection->state = GYRE_HTTP1_FIRST_BYTE;
    gyre_http1_connection_deadline(connection, acceptor->draining ? GYRE_HTTP1_NEW_NS : acceptor->limits.first_byte_ns);
    if (acceptor->http2 && gyre_acceptor_agreed(&connection->transport, "h2")) {
      connection->readable = true;
      begin_http2(connection, NULL, 0);
    } else {
      read_first(connection); /* it may have come with the handshake's end */
    }
  }
}

/* The client's address is the one that the proxy names; the header comes before TLS. */
static void take_proxy_header(struct gyre_http1_connection *connection) {
  struct gyre_http1_acceptor *acceptor = connection->acceptor;
  struct gyre_proxy_source source;
  int result = gyre_proxy_header_take(&connection->transport, connection->proxy, &source);
  if (result == -EAGAIN) {
    gyre_loop_drained(&acceptor->scheduler->loop, connection->transport.fd, GYRE_READABLE);
    return;
  }
  if (result <= 0) {
    if (result == -EPROTO) acceptor->malformed++;
    end(connection, false);
    return;
  }
  if (source.family) {
    connection->peer.family = source.family;
    memcpy(connection->peer.address, source.address, sizeof(source.address));
  }
  if (!connection->transport.handshaken) {
    connection->state = GYRE_HTTP1_HANDSHAKE;
    shake_hands(connection);
    return;
  }
  connection->state = GYRE_HTTP1_FIRST_BYTE;
  gyre_http1_connection_deadline(connection, acceptor->draining ? GYRE_HTTP1_NEW_NS : acceptor->limits.first_byte_ns);
  connection->readable = true;
  read_first(connection); /* it may have come with the header */
}

static void on_ready(struct gyre_loop *loop, struct gyre_watch *watch, unsigned ready) {
  struct gyre_http1_connection *connection = GYRE_CONTAINER(watch, struct gyre_http1_connection, watch);
  if (ready & GYRE_READ_ENDED) connection->hung_up = true;
  if (connection->state == GYRE_HTTP1_PROXY) {
    take_proxy_header(connection);
    return;
  }
  if (connection->state == GYRE_HTTP1_HANDSHAKE) {
    shake_hands(connection);
    return;
  }
  if (!(ready & GYRE_READABLE)) return;
  connection->readable = true;
  if (connection->http2 && connection->state == GYRE_HTTP1_SERVING) {
    connection->acceptor->http2->ready(connection);
    return;
  }
  if (connection->exchange) {
    if (connection->hung_up) gyre_http_exchange_peer_ended(connection->exchange);
    struct gyre_http1_reader *reader = connection->exchange->reader;
    if (!reader) return;
    if (reader->came_ns < 0) reader->came_ns = loop->unseen_ns;
    gyre_wake(connection->acceptor->scheduler, &reader->wait.parked);
    return;
  }
  switch (connection->state) {
  case GYRE_HTTP1_FIRST_BYTE:
  case GYRE_HTTP1_IDLE: read_first(connection); break;
  case GYRE_HTTP1_HEAD: read_more(connection); break;
  case GYRE_HTTP1_BODY: read_ahead(connection); break;
  case GYRE_HTTP1_WAITING:
    if (connection->hung_up) leave_queue(connection);
    break;
  case GYRE_HTTP1_LINGERING: read_off(connection); break;
  default: break;
  }
}

/* --- time --- */

/* The timer is moved only when the new time is earlier; a later one is found out when it fires. */
void gyre_http1_connection_deadline(struct gyre_http1_connection *connection, int64_t timeout_ns) {
  struct gyre_loop *loop = &connection->acceptor->scheduler->loop;
  if (timeout_ns < 0) {
    connection->deadline_ns = INT64_MAX;
    return;
  }
  connection->deadline_ns = gyre_loop_coarse_now(loop) + timeout_ns;
  if (gyre_timer_armed(&connection->timer) && connection->timer.when_ns <= connection->deadline_ns) return;
  /* Out of memory for the heap: the connection lives without a limit of time rather than not at
   * all. */
  (void)gyre_timers_arm(&loop->timers, &connection->timer, connection->deadline_ns);
}

/* Whether a client is in the middle of taking what was sent to it. What it sends after the socket
 * is closed, as windows of HTTP/2, would reset the connection and lose the rest. It has as long as
 * any client that takes nothing of its response. */
static bool still_takes(struct gyre_http1_connection *connection) {
  const struct gyre_http1_limits_table *limits = &connection->acceptor->limits;
  (void)gyre_transport_flush(&connection->transport); /* the end of TLS may have found the socket full */
  size_t untaken = gyre_transport_untaken(&connection->transport);
  if (untaken > UINT32_MAX) untaken = UINT32_MAX;
  bool moved = untaken != connection->untaken;
  connection->untaken = (uint32_t)untaken;
  connection->unmoved = moved ? 0 : (uint8_t)(connection->unmoved + 1);
  return untaken && connection->unmoved < UINT8_MAX &&
         (limits->write_ns < 0 || connection->unmoved * limits->linger_ns < limits->write_ns);
}

static void on_time(struct gyre_timer *timer, void *context) {
  struct gyre_http1_connection *connection = GYRE_CONTAINER(timer, struct gyre_http1_connection, timer);
  struct gyre_loop *loop = context;
  if (connection->deadline_ns == INT64_MAX || connection->exchange) return;
  if (connection->deadline_ns > loop->now_ns) {
    (void)gyre_timers_arm(&loop->timers, timer, connection->deadline_ns);
    return;
  }
  if (connection->http2 && connection->state == GYRE_HTTP1_SERVING) {
    connection->acceptor->http2->timed(connection);
    return;
  }
  /* What is there has come in time, reported or not: a loop that was held is given much at once,
   * and of a part only. */
  if (connection->deadline_ns != LOOKED && connection->state != GYRE_HTTP1_LINGERING &&
      gyre_transport_input_waits(&connection->transport)) {
    connection->deadline_ns = LOOKED;
    (void)gyre_timers_arm(&loop->timers, timer, loop->now_ns);
    on_ready(loop, &connection->watch, GYRE_READABLE);
    return;
  }
  if (connection->state == GYRE_HTTP1_LINGERING && still_takes(connection)) {
    gyre_http1_connection_deadline(connection, connection->acceptor->limits.linger_ns);
    return;
  }
  if (connection->state == GYRE_HTTP1_FIRST_BYTE && !connection->acceptor->draining) {
    refuse_partial(connection, 408, "no request came in time");
  } else if (connection->state == GYRE_HTTP1_HEAD) {
    refuse_partial(connection, 408, "the request's head did not come in time");
  } else if (connection->state == GYRE_HTTP1_BODY) {
    end_body(connection, 408, "the request's body did not come in time");
  } else {
    if (connection->state == GYRE_HTTP1_HANDSHAKE) connection->acceptor->statistics.handshakes_failed++;
    end(connection, false);
  }
}

/* --- life --- */

struct gyre_http1_connection *gyre_http1_connection_new(const struct gyre_acceptor_listener *listener, int fd,
                                                        const struct sockaddr_storage *address) {
  struct gyre_http1_acceptor *acceptor = GYRE_CONTAINER(listener->acceptor, struct gyre_http1_acceptor, net);
  struct gyre_http1_connection *connection = calloc(1, sizeof(*connection));
  if (!connection) return NULL;
  connection->acceptor = acceptor;
  connection->proxy = listener->proxy & 3;
  connection->state = listener->proxy ? GYRE_HTTP1_PROXY : listener->tls ? GYRE_HTTP1_HANDSHAKE : GYRE_HTTP1_FIRST_BYTE;
  connection->https = listener->tls || acceptor->https;
  connection->peer.family = (uint8_t)address->ss_family;
  if (address->ss_family == AF_INET) {
    memcpy(connection->peer.address, &((const struct sockaddr_in *)address)->sin_addr, 4);
  } else if (address->ss_family == AF_INET6) {
    memcpy(connection->peer.address, &((const struct sockaddr_in6 *)address)->sin6_addr, 16);
  }
  connection->watch.ready = on_ready;
  connection->timer.fire = on_time;
  /* A new number, whatever is known of it: the program may have closed its file without the
   * loop. */
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

void gyre_http1_connection_detach(struct gyre_http1_connection *connection) {
  struct gyre_http1_acceptor *acceptor = connection->acceptor;
  struct gyre_loop *loop = &acceptor->scheduler->loop;
  struct gyre_http_exchange *exchange = connection->exchange;
  gyre_loop_unwatch(loop, &connection->watch);
  gyre_loop_abandon(loop, connection->transport.fd);
  gyre_timers_cancel(&loop->timers, &connection->timer);
  gyre_list_remove(&connection->node);
  gyre_http_statistics_take_bytes(&acceptor->statistics, &connection->transport);
  gyre_http1_connection_release_partial(connection);
  if (connection->waiting && connection->waiting->verdict == GYRE_HTTP1_START)
    gyre_admission_leave(&acceptor->capacity->admission);
  release_waiting(connection);
  if (connection->counted) gyre_acceptor_count(&acceptor->net, -1);
  if (connection->is_idle) acceptor->idle--;
  if (!connection->counted && connection->state == GYRE_HTTP1_LINGERING) acceptor->lingering_refused--;
  connection->counted = connection->is_idle = connection->keep_alive = false;
  if (connection->http2) acceptor->http2->detached(connection);
  if (!exchange || !exchange->reader) return;
  gyre_wake(acceptor->scheduler, &exchange->reader->wait.parked);
  exchange->reader = NULL; /* it stands on the stack of a fiber that a scheduler which closes may not run again */
}

void gyre_http1_connection_close(struct gyre_http1_connection *connection, bool reset) {
  if (connection->state == GYRE_HTTP1_CLOSED || connection->state == GYRE_HTTP1_HIJACKED) return;
  gyre_http1_connection_detach(connection);
  gyre_transport_close(&connection->transport, reset);
  connection->state = GYRE_HTTP1_CLOSED;
  if (connection->exchange) gyre_http_exchange_peer_ended(connection->exchange);
}

void gyre_http1_connection_free(struct gyre_http1_connection *connection) {
  if (connection->exchange) return;
  if (connection->http2 && !connection->acceptor->http2->free(connection, false)) return;
  release_input(connection);
  gyre_transport_free(&connection->transport);
  free(connection);
}

void gyre_http1_connection_linger(struct gyre_http1_connection *connection) {
  if (connection->state == GYRE_HTTP1_CLOSED || connection->state == GYRE_HTTP1_HIJACKED) return;
  int error = gyre_transport_end(&connection->transport);
  if (error < 0 && error != -EAGAIN) {
    gyre_http1_connection_close(connection, false);
    return;
  }
  release_input(connection);
  if (connection->http2) connection->acceptor->http2->detached(connection);
  connection->state = GYRE_HTTP1_LINGERING;
  connection->lingered = 0;
  gyre_http1_connection_deadline(connection, connection->acceptor->limits.linger_ns);
}

void gyre_http1_connection_idle(struct gyre_http1_connection *connection) {
  struct gyre_http1_acceptor *acceptor = connection->acceptor;
  if (connection->partial) { /* of a pipelined head */
    connection->state = GYRE_HTTP1_HEAD;
    if (head_fits(connection)) {
      gyre_http1_connection_deadline(connection, acceptor->limits.head_ns);
    } else {
      gyre_http1_connection_close(connection, false);
    }
    return;
  }
  connection->state = GYRE_HTTP1_IDLE;
  connection->is_idle = true;
  acceptor->idle++;
  /* At a drain, too: its response has promised that, and the next request may be on its way. */
  gyre_http1_connection_deadline(connection, acceptor->draining ? gyre_http1_acceptor_grace(acceptor)
                                                                : acceptor->limits.keep_alive_ns);
}

VALUE gyre_http1_connection_address(struct gyre_http1_connection *connection) {
  struct gyre_http1_acceptor *acceptor = connection->acceptor;
  const struct gyre_peer *peer = &connection->peer;
  if (peer->family != AF_INET && peer->family != AF_INET6) return rb_str_new(NULL, 0);
  if (memcmp(peer, &acceptor->last_peer, sizeof(*peer))) {
    inet_ntop(peer->family, peer->address, acceptor->last_text, sizeof(acceptor->last_text));
    acceptor->last_peer = *peer;
  }
  return rb_str_new_cstr(acceptor->last_text);
}
