/* Runs an HTTP/1 connection between requests, on the loop's fiber: collects a head (and a body, if
 * places are limited), queues the request, and starts the handler. Never waits.
 *
 *   IDLE ─► HEAD ─► (BODY) ─► (PLACE) ─► the connection is SERVING, and then IDLE again, or HEAD: pipelined
 */
#include "http/h1/fields.h"
#include "http/h1/h1.h"

#define RECENT_NS INT64_C(1000000000) /* a client counts as active this long after a response */

/* connection->phase, and connection->own's type. */
enum phase {
  IDLE,  /* NULL, as before the first byte */
  HEAD,  /* struct partial, which a pipelined request may have during SERVING */
  BODY,  /* struct awaiting */
  PLACE, /* struct waiting */
};

/* An incomplete head. Its bytes are in the transport's input. The acceptor's scratch for whole
 * heads has the same type. */
struct partial {
  uint32_t counted; /* bytes counted in the budget of heads */
  struct gyre_http_head head;
  struct gyre_http_field fields[]; /* limits.header_count */
};

/* Tells how much of a body has come (RFC 9112, section 6) before its request takes a place. The
 * bytes stay undecoded, and no byte is scanned twice. */
struct ahead {
  size_t needed, trailers_most, scanned;
  bool chunked, data_over;
  struct gyre_http1_chunked chunks;
};

/* A request that waits for its body. Its whole head is in the transport's input. */
struct awaiting {
  uint32_t counted; /* bytes counted in the budget of input */
  struct ahead ahead;
  size_t head_length;
  int64_t since_ns; /* when the head was complete */
};

/* A request in the admission's queue. Its whole head is in the transport's input and is parsed
 * again later: that takes a microsecond, but keeping the result takes 2 KB. */
struct waiting {
  uint32_t counted; /* bytes counted in the budget of heads */
  struct gyre_admission_waiter waiter;
  struct gyre_http_connection *connection;
  enum { UNDECIDED, START, REFUSE } verdict;
};

static size_t partial_bytes(const struct gyre_http_limits *limits) {
  return sizeof(struct partial) + limits->head.header_count * sizeof(struct gyre_http_field);
}

/* Frees connection->own, gives back its share of the budget, and leaves the queue. */
static void release(struct gyre_http_connection *connection) {
  struct gyre_http_capacity *capacity = &connection->acceptor->capacity;
  struct waiting *waiting = connection->phase == PLACE ? connection->own : NULL;
  if (waiting) gyre_admission_withdraw(&capacity->admission, &waiting->waiter);
  if (connection->own) {
    gyre_http_budget_hold(connection->phase == BODY ? &capacity->input : &capacity->heads, connection->own, 0);
    free(connection->own);
    connection->own = NULL;
  }
  connection->phase = IDLE;
}

void gyre_http1_release_partial(struct gyre_http_connection *connection) {
  if (connection->phase < BODY) release(connection);
}

static void detached(struct gyre_http_connection *connection) {
  const struct waiting *waiting = connection->phase == PLACE ? connection->own : NULL;
  if (waiting && waiting->verdict == START) gyre_admission_leave(&connection->acceptor->capacity.admission);
  release(connection);
}

static bool free_own(struct gyre_http_connection *connection, bool gone) {
  release(connection);
  return true;
}

static void serve(struct gyre_http_connection *connection, const struct gyre_http_request *request) {
  gyre_http_connection_set_idle(connection, false);
  connection->state = GYRE_HTTP_SERVING;
  connection->deadline_ns = INT64_MAX;
  int state = gyre_http_handler_start(connection, request, &gyre_http1_exchange_operations);
  if (state) rb_jump_tag(state);
}

static bool parse(struct gyre_http_connection *connection, struct gyre_http_request *request, struct partial *partial,
                  const char *bytes, size_t available) {
  struct gyre_http_head *head = &partial->head;
  int length = gyre_http1_head_parse(head, bytes, available, &connection->acceptor->limits.head);
  *request = (struct gyre_http_request){.head = head, .bytes = bytes};
  if (length > 0) {
    request->length = (size_t)length;
    request->came = available - request->length;
  }
  if (length < 0) {
    request->status = head->status;
    request->reason = head->reason;
    connection->acceptor->statistics.malformed++;
  }
  return length != 0;
}

static bool parse_whole(struct gyre_http_connection *connection, struct gyre_http_request *request, const char *bytes,
                        size_t available) {
  struct partial *scratch = connection->acceptor->scratch;
  gyre_http1_head_reset(&scratch->head, scratch->fields, connection->acceptor->limits.head.header_count);
  return parse(connection, request, scratch, bytes, available);
}

bool gyre_http1_parse(struct gyre_http_connection *connection, struct gyre_http_request *request) {
  const struct gyre_http_limits *limits = &connection->acceptor->limits;
  const char *bytes = gyre_transport_input(&connection->transport);
  size_t available = gyre_transport_available(&connection->transport);
  struct partial *partial = connection->own;
  if (!partial) {
    if (parse_whole(connection, request, bytes, available)) return true;
    partial = connection->own = malloc(partial_bytes(limits));
    if (partial) {
      partial->counted = 0;
      gyre_http1_head_reset(&partial->head, partial->fields, limits->head.header_count);
    } else {
      partial = connection->acceptor->scratch;
      gyre_http1_refuse(&partial->head, 503, "no memory for this request");
    }
  }
  return parse(connection, request, partial, bytes, available);
}

/* Parses a waiting request's head again. Returns false if it had to close the connection. */
static bool parse_again(struct gyre_http_connection *connection, struct gyre_http_request *request) {
  release(connection);
  if (gyre_http1_parse(connection, request)) return true;
  gyre_http_connection_end(connection, true); /* cannot happen: the head was whole */
  return false;
}

/* Counts an incomplete head's memory. Returns false if all heads together exceed the budget. */
static bool head_fits(struct gyre_http_connection *connection) {
  struct gyre_http_budget *heads = &connection->acceptor->capacity.heads;
  struct partial *partial = connection->own;
  size_t bytes = connection->transport.input->capacity + partial_bytes(&connection->acceptor->limits);
  gyre_http_budget_hold(heads, &partial->counted, bytes);
  return !gyre_http_budget_is_over(heads);
}

static void refuse_partial(struct gyre_http_connection *connection, uint16_t status, const char *reason) {
  const struct partial *partial = connection->own;
  struct gyre_http_request request = {.head = partial ? &partial->head : NULL,
                                      .bytes = gyre_transport_input(&connection->transport),
                                      .status = status,
                                      .reason = reason};
  serve(connection, &request);
}

static bool keep_head(struct gyre_http_connection *connection) {
  if (head_fits(connection)) return true;
  connection->acceptor->statistics.refused++;
  refuse_partial(connection, 503, "too many requests have come in part");
  return false;
}

/* --- bodies that are awaited, and places --- */

static bool refuse(struct gyre_http_request *request, const char *reason) {
  request->status = 503;
  request->reason = reason;
  return false;
}

static struct ahead begin_ahead(const struct gyre_http_connection *connection, const struct gyre_http_head *head) {
  const struct gyre_http_limits *limits = &connection->acceptor->limits;
  struct ahead ahead = {.needed = limits->body_ahead_bytes, .trailers_most = limits->trailers.header_bytes};
  ahead.chunked = (head->flags & GYRE_HTTP_HEAD_CHUNKED) != 0;
  if (ahead.chunked) gyre_http1_chunked_reset(&ahead.chunks);
  if (!ahead.chunked && head->content_length < (int64_t)ahead.needed)
    ahead.needed = head->content_length > 0 ? (size_t)head->content_length : 0;
  return ahead;
}

/* True if the empty line has come, or if the section is too long, which later reads refuse. */
static bool trailers_are_there(const struct ahead *ahead, const char *bytes, size_t length) {
  if (length > ahead->trailers_most || (length >= 2 && memcmp(bytes, "\r\n", 2) == 0)) return true;
  for (const char *end = bytes + length; (bytes = memchr(bytes, '\n', (size_t)(end - bytes))); bytes++) {
    if (end - bytes >= 3 && memcmp(bytes, "\n\r\n", 3) == 0) return true;
  }
  return false;
}

/* True if the whole body, enough of it, or an error has come. */
static bool is_there(struct ahead *ahead, const char *bytes, size_t length) {
  if (length >= ahead->needed) return true;
  if (!ahead->chunked) return false;
  while (!ahead->data_over) {
    const char *data;
    size_t consumed = 0, data_length;
    int result = gyre_http1_chunked_step(&ahead->chunks, bytes + ahead->scanned, length - ahead->scanned, &consumed,
                                         &data, &data_length);
    ahead->scanned += consumed;
    if (result == GYRE_HTTP1_CHUNKED_MORE) return false;
    if (result < 0) return true; /* the app gets the error when it reads */
    ahead->data_over = result == GYRE_HTTP1_CHUNKED_TRAILERS;
  }
  return trailers_are_there(ahead, bytes + ahead->scanned, length - ahead->scanned);
}

/* True if the request must wait for its body before it takes a limited place. False for a body over
 * the limit: take_head refuses it. */
static bool lacks_body(const struct gyre_http_connection *connection, const struct gyre_http_request *request) {
  const struct gyre_http_head *head = request->head;
  if (head->content_length > connection->acceptor->limits.body_bytes) return false;
  if (!(head->flags & GYRE_HTTP_HEAD_CHUNKED) && head->content_length <= 0) return false;
  struct ahead ahead = begin_ahead(connection, head);
  return !is_there(&ahead, request->bytes + request->length, request->came);
}

bool gyre_http1_admit(struct gyre_http_connection *connection, struct gyre_http_request *request) {
  struct gyre_http_acceptor *acceptor = connection->acceptor;
  if (request->status) return true; /* a refusal needs no place */
  if (!acceptor->capacity.admission.running_limit || !lacks_body(connection, request))
    return gyre_http_admit(acceptor, request);
  request->lacks_body = !gyre_http_is_exempt(acceptor, request);
  return !request->lacks_body;
}

/* Continues a request after the verdict. If a handler is still ending, go_on calls this later. */
static void decided(struct gyre_http_connection *connection) {
  const struct waiting *waiting = connection->own;
  if (waiting->verdict == UNDECIDED || connection->exchange) return;
  struct gyre_admission *admission = &connection->acceptor->capacity.admission;
  bool starts = waiting->verdict == START;
  int64_t since_ns = waiting->waiter.since_ns;
  struct gyre_http_request request;
  bool whole = parse_again(connection, &request);
  if (starts && (!whole || request.status)) gyre_admission_leave(admission);
  if (!whole) return;
  request.placed = starts && !request.status;
  request.since_ns = since_ns;
  if (!starts && !request.status) refuse(&request, GYRE_HTTP_WAITED_TOO_LONG);
  serve(connection, &request);
}

static void on_verdict(struct gyre_admission_waiter *waiter, bool placed) {
  struct waiting *waiting = GYRE_CONTAINER(waiter, struct waiting, waiter);
  waiting->verdict = placed ? START : REFUSE;
  decided(waiting->connection);
}

/* Sends a 100 if the client expects it. A 100 fits into any socket's buffer. */
static bool send_continue(struct gyre_http_connection *connection, const struct gyre_http_request *request) {
  static char text[] = "HTTP/1.1 100 Continue\r\n\r\n";
  if (!(request->head->flags & GYRE_HTTP_HEAD_EXPECT_CONTINUE) || request->came > 0) return true;
  return gyre_transport_sendv(&connection->transport, &(struct iovec){text, sizeof(text) - 1}, 1) == sizeof(text) - 1;
}

static void body_deadline(struct gyre_http_connection *connection) {
  const struct awaiting *body = connection->own;
  int64_t waited_ns = gyre_loop_coarse_now(gyre_http_loop(connection)) - body->since_ns;
  const char *reason;
  size_t received = gyre_transport_available(&connection->transport) - body->head_length;
  gyre_http_connection_deadline(
      connection, gyre_http_body_limit_ns(&connection->acceptor->limits, (int64_t)received, waited_ns, false, &reason));
}

/* Counts the body's memory. Returns false if all bodies together exceed the budget. */
static bool body_fits(struct gyre_http_connection *connection, struct awaiting *body) {
  struct gyre_http_budget *input = &connection->acceptor->capacity.input;
  gyre_http_budget_hold(input, &body->counted, sizeof(*body) + connection->transport.input->capacity);
  return !gyre_http_budget_is_over(input);
}

/* Makes the request wait and frees its parsed head. */
static void hold(struct gyre_http_connection *connection, enum phase phase, void *own) {
  release(connection);
  connection->own = own;
  connection->phase = phase;
  connection->state = GYRE_HTTP_BETWEEN;
  connection->deadline_ns = INT64_MAX; /* ends the head's time limit */
  gyre_http_connection_set_idle(connection, false);
}

static bool await_body(struct gyre_http_connection *connection, struct gyre_http_request *request) {
  struct awaiting *body = calloc(1, sizeof(*body));
  if (!body) return refuse(request, "no memory for this request");
  body->ahead = begin_ahead(connection, request->head);
  body->head_length = request->length;
  body->since_ns = gyre_loop_coarse_now(gyre_http_loop(connection));
  if (!body_fits(connection, body) || !send_continue(connection, request)) {
    gyre_http_budget_hold(&connection->acceptor->capacity.input, &body->counted, 0);
    free(body);
    connection->acceptor->statistics.refused++;
    return refuse(request, GYRE_HTTP_BODIES_HOLD_TOO_MUCH);
  }
  hold(connection, BODY, body);
  body_deadline(connection);
  return true;
}

bool gyre_http1_wait(struct gyre_http_connection *connection, struct gyre_http_request *request) {
  if (request->lacks_body) return await_body(connection, request);
  const struct gyre_bytes *input = connection->transport.input;
  struct waiting *waiting = calloc(1, sizeof(*waiting));
  if (!waiting) return refuse(request, "no memory for this request");
  waiting->connection = connection;
  waiting->waiter.decided = on_verdict;
  const char *reason = gyre_http_capacity_enter(&connection->acceptor->capacity, &waiting->waiter, &waiting->counted,
                                                sizeof(*waiting) + (input ? input->capacity : 0), connection->hung_up);
  if (reason) {
    free(waiting);
    return refuse(request, reason);
  }
  hold(connection, PLACE, waiting);
  return true;
}

static void read_ahead(struct gyre_http_connection *connection);

/* Serves or queues a whole head. */
static void serve_or_wait(struct gyre_http_connection *connection, struct gyre_http_request *request) {
  if (gyre_http1_admit(connection, request) || !gyre_http1_wait(connection, request)) {
    serve(connection, request);
  } else if (connection->phase == BODY) {
    read_ahead(connection); /* more bytes may have come with the head */
  }
}

/* Ends the wait for a body that is complete (status 0) or has failed. */
static void end_body(struct gyre_http_connection *connection, uint16_t status, const char *reason) {
  struct gyre_http_request request;
  if (!parse_again(connection, &request)) return;
  if (status) {
    request.status = status;
    request.reason = reason;
  }
  serve_or_wait(connection, &request);
}

static void read_ahead(struct gyre_http_connection *connection) {
  struct awaiting *body = connection->own;
  while (connection->readable) {
    ssize_t count = gyre_http_connection_fill(connection);
    if (count == -EAGAIN) return;
    if (count <= 0) {
      end_body(connection, 400, "the client left before the end of the request's body");
      return;
    }
    const char *bytes = gyre_transport_input(&connection->transport) + body->head_length;
    if (is_there(&body->ahead, bytes, gyre_transport_available(&connection->transport) - body->head_length)) {
      end_body(connection, 0, NULL);
      return;
    }
    if (!body_fits(connection, body)) {
      connection->acceptor->statistics.refused++;
      end_body(connection, 503, GYRE_HTTP_BODIES_HOLD_TOO_MUCH);
      return;
    }
    body_deadline(connection);
  }
}

/* Parses the input and serves a whole head. Returns true if the head is incomplete. */
static bool needs_more(struct gyre_http_connection *connection) {
  struct gyre_http_request request;
  if (!gyre_http1_parse(connection, &request)) return keep_head(connection);
  serve_or_wait(connection, &request);
  return false;
}

static void read_more(struct gyre_http_connection *connection) {
  int receptions = 0;
  while (connection->readable && !gyre_http_connection_gives_way(connection, &receptions)) {
    ssize_t count = gyre_http_connection_fill(connection);
    if (count == -EAGAIN) return;
    if (count <= 0) {
      gyre_http_connection_end(connection, count < 0);
      return;
    }
    if (!needs_more(connection)) return;
  }
}

static void begin_head(struct gyre_http_connection *connection) {
  connection->state = GYRE_HTTP_BETWEEN;
  connection->phase = HEAD;
  gyre_http_connection_set_idle(connection, false);
  gyre_http_connection_deadline(connection, connection->acceptor->limits.head_ns);
}

/* Serves or queues a head that is whole in lent memory. Otherwise keeps it, and returns false. */
static bool begin_lent(struct gyre_http_connection *connection, const char *bytes, size_t length) {
  struct gyre_http_request request;
  bool whole = parse_whole(connection, &request, bytes, length);
  if (!request.status) {
    /* Keeps an incomplete head or the bytes after a whole head. Keeps all if the request waits. */
    bool waits = whole && !gyre_http1_admit(connection, &request);
    size_t used = waits ? 0 : request.length;
    if (gyre_transport_keep(&connection->transport, bytes + used, length - used) < 0) {
      if (request.placed) gyre_admission_leave(&connection->acceptor->capacity.admission);
      gyre_http_connection_end(connection, true);
      return true;
    }
    if (!whole) return false;
    if (waits) {
      request.bytes = gyre_transport_input(&connection->transport);
      if (gyre_http1_wait(connection, &request)) {
        if (connection->phase == BODY) read_ahead(connection);
        return true;
      }
    }
  }
  serve(connection, &request);
  return true;
}

/* Handles a request's first bytes. A head is usually whole. */
static void begin(struct gyre_http_connection *connection, const char *bytes, size_t length) {
  if (!connection->transport.input && begin_lent(connection, bytes, length)) return;
  begin_head(connection);
  if (needs_more(connection)) read_more(connection); /* the client's end may have come too */
}

static void readable(struct gyre_http_connection *connection) {
  struct gyre_http_exchange *exchange = connection->exchange;
  const struct waiting *waiting = connection->phase == PLACE ? connection->own : NULL;
  const char *bytes;
  ssize_t count;
  if (exchange) {
    if (connection->hung_up) gyre_http_exchange_peer_ended(exchange);
    gyre_http_exchange_wake_reader(exchange);
    return;
  }
  switch ((enum phase)connection->phase) {
  case IDLE:
    if (connection->transport.input) { /* a drain has received */
      begin(connection, NULL, 0);
      break;
    }
    count = gyre_http_connection_receive(connection, &bytes);
    if (count > 0) {
      begin(connection, bytes, (size_t)count);
    } else if (count != -EAGAIN) {
      gyre_http_connection_end(connection, false);
    }
    break;
  case HEAD: read_more(connection); break;
  case BODY: read_ahead(connection); break;
  case PLACE: /* reads nothing while the request waits */
    if (!connection->hung_up) break;
    if (gyre_transport_is_reset(&connection->transport)) {
      gyre_http_connection_end(connection, true);
    } else if (waiting->verdict == UNDECIDED) {
      gyre_admission_put_last(&connection->acceptor->capacity.admission,
                              (struct gyre_admission_waiter *)&waiting->waiter);
    }
    break;
  }
}

static void late(struct gyre_http_connection *connection) {
  if (connection->state == GYRE_HTTP_FIRST_BYTE) {
    refuse_partial(connection, 408, "no request came in time");
  } else if (connection->phase == HEAD) {
    refuse_partial(connection, 408, "the request's head did not come in time");
  } else if (connection->phase == BODY) {
    end_body(connection, 408, "the request's body did not come in time");
  } else {
    gyre_http_connection_end(connection, false);
  }
}

void gyre_http1_idle(struct gyre_http_connection *connection) {
  const struct gyre_http_acceptor *acceptor = connection->acceptor;
  if (connection->own) { /* a pipelined head is incomplete */
    begin_head(connection);
    if (!head_fits(connection)) gyre_http_connection_close(connection, false);
    return;
  }
  connection->state = GYRE_HTTP_BETWEEN;
  gyre_http_connection_set_idle(connection, true);
  /* Waits in a drain too: the response has promised to keep the connection. */
  gyre_http_connection_deadline(connection, acceptor->draining ? gyre_http_acceptor_grace(acceptor)
                                                               : acceptor->limits.keep_alive_ns);
}

void gyre_http1_go_on(struct gyre_http_connection *connection) {
  struct gyre_loop *loop = gyre_http_loop(connection);
  if (!gyre_timer_armed(&connection->timer) && connection->deadline_ns != INT64_MAX) /* fired */
    (void)gyre_timers_arm(&loop->timers, &connection->timer, connection->deadline_ns);
  if (connection->phase == PLACE && connection->protocol == gyre_http_protocols.http1) {
    decided(connection);
  } else if (connection->readable || connection->protocol != gyre_http_protocols.http1) {
    connection->watch.ready(loop, &connection->watch, GYRE_READABLE);
  }
}

/* True if the client was active lately: a close could lose a request that is on its way. */
static bool busy_lately(const struct gyre_http_connection *connection) {
  if (connection->state <= GYRE_HTTP_FIRST_BYTE || connection->deadline_ns == INT64_MAX) return true;
  int64_t idle_since_ns = connection->deadline_ns - connection->acceptor->limits.keep_alive_ns;
  return gyre_loop_now(gyre_http_loop(connection)) - idle_since_ns < RECENT_NS;
}

/* Receives, because only the transport can tell a request's bytes from TLS's own. The next turn
 * serves the request: its handler might close what the caller visits. */
static bool has_request(struct gyre_http_connection *connection) {
  ssize_t count = gyre_http_connection_fill(connection);
  if (count > 0) gyre_http_connection_report_again(connection);
  return count > 0 || (count == -EAGAIN && gyre_transport_input_waits(&connection->transport)); /* part of a record */
}

/* Ends an idle connection, unless a request may have come: after a close, the client could not know
 * whether to repeat the request. */
static void drain(struct gyre_http_connection *connection) {
  if (connection->exchange || !connection->is_idle) return;
  if (busy_lately(connection) || has_request(connection)) {
    gyre_http_connection_deadline(connection, gyre_http_acceptor_grace(connection->acceptor));
  } else {
    gyre_http_connection_end(connection, false);
  }
}

static void *make_scratch(const struct gyre_http_limits *limits) { return calloc(1, partial_bytes(limits)); }

void gyre_init_http1_connection(void) {
  static const struct gyre_http_protocol protocol = {GYRE_HTTP_PROTOCOL, .make_scratch = make_scratch};
  gyre_http_protocols.http1 = &protocol;
}
