/*
 * One HTTP/1 connection between its requests, on the loop's fiber: receives, collects a head, keeps
 * the times, lingers, closes. The handler's fiber is begun by http1_handler.c, and what runs in it is in
 * http1_request.c and http1_response.c. It never waits.
 */
#include "loop/direct_calls.h"
#include "http/http1.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ruby/io.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINGER_BYTES_LIMIT (1 << 20) /* read off a refused client before it is cut */
#define HEAD_BUFFER_BYTES 4096
#define LOOKED INT64_MIN /* the deadline of a connection that is over unless its last bytes complete a head */

/* --- memory --- */

void gyre_http1_connection_release_buffer(struct gyre_http1_connection *connection) {
  free(connection->buffer);
  connection->buffer = NULL;
  connection->buffer_offset = connection->buffer_length = connection->buffer_capacity = 0;
}

void gyre_http1_connection_head_taken(struct gyre_http1_connection *connection) {
  free(connection->partial);
  connection->partial = NULL;
  connection->buffer_offset += connection->head_length;
  connection->head_length = 0;
  if (connection->buffer_offset == connection->buffer_length) gyre_http1_connection_release_buffer(connection);
}

static void release_partial(struct gyre_http1_connection *connection) {
  free(connection->partial);
  connection->partial = NULL;
}

/* Makes room for `wanted` more bytes after what the buffer holds. */
static bool reserve(struct gyre_http1_connection *connection, size_t wanted) {
  if (connection->buffer_offset > 0) {
    connection->buffer_length -= connection->buffer_offset;
    memmove(connection->buffer, connection->buffer + connection->buffer_offset, connection->buffer_length);
    connection->buffer_offset = 0;
  }
  size_t needed = connection->buffer_length + wanted;
  if (needed <= connection->buffer_capacity) return true;
  if (needed > UINT32_MAX / 2) return false;
  size_t capacity = connection->buffer_capacity ? connection->buffer_capacity : HEAD_BUFFER_BYTES;
  while (capacity < needed) capacity *= 2;
  char *buffer = realloc(connection->buffer, capacity);
  if (!buffer) return false;
  connection->buffer = buffer;
  connection->buffer_capacity = (uint32_t)capacity;
  return true;
}

/* --- receiving --- */

static ssize_t receive(struct gyre_http1_connection *connection, char *bytes, size_t length) {
  ssize_t count;
  do {
    count = gyre_recv(connection->fd, bytes, length, MSG_DONTWAIT);
  } while (count < 0 && errno == EINTR);
  if (count < 0 && errno != EAGAIN && errno != EWOULDBLOCK) return -errno;
  /* A short read has emptied the socket: what comes next is a new edge; but an end that was reported
   * already is none. */
  connection->readable = count >= 0 && ((size_t)count == length || connection->hung_up);
  if (!connection->readable) gyre_loop_drained(&connection->acceptor->scheduler->loop, connection->fd, GYRE_READABLE);
  return count < 0 ? -EAGAIN : count;
}

ssize_t gyre_http1_connection_fill(struct gyre_http1_connection *connection, size_t wanted) {
  if (!reserve(connection, wanted)) return -ENOMEM;
  ssize_t count = receive(connection, connection->buffer + connection->buffer_length, wanted);
  if (count > 0) connection->buffer_length += (uint32_t)count;
  return count;
}

static void refused(struct gyre_http1_connection *connection, const struct gyre_http1_head *head) {
  connection->status = head->status;
  connection->reason = head->reason;
  connection->acceptor->malformed++;
}

static const struct gyre_http1_head *parsed(struct gyre_http1_connection *connection, struct gyre_http1_head *head,
                                            int size) {
  if (size < 0) refused(connection, head);
  connection->head_length = size > 0 ? (uint32_t)size : 0;
  return size ? head : NULL;
}

const struct gyre_http1_head *gyre_http1_connection_parse(struct gyre_http1_connection *connection) {
  struct gyre_http1_acceptor *acceptor = connection->acceptor;
  const struct gyre_http1_limits *limits = &acceptor->limits.head;
  const char *bytes = connection->buffer + connection->buffer_offset;
  size_t available = connection->buffer_length - connection->buffer_offset;

  if (!connection->partial) {
    gyre_http1_head_reset(&acceptor->head, acceptor->fields, limits->header_count);
    int length = gyre_http1_head_parse(&acceptor->head, bytes, available, limits);
    if (length) return parsed(connection, &acceptor->head, length);

    size_t fields_size = limits->header_count * sizeof(struct gyre_http1_field);
    connection->partial = malloc(sizeof(*connection->partial) + fields_size);
    if (!connection->partial) {
      acceptor->head.status = 503;
      acceptor->head.reason = "no memory for this request";
      return parsed(connection, &acceptor->head, -1);
    }
    gyre_http1_head_reset(&connection->partial->head, connection->partial->fields, limits->header_count);
  }
  struct gyre_http1_head *head = &connection->partial->head;
  return parsed(connection, head, gyre_http1_head_parse(head, bytes, available, limits));
}

bool gyre_http1_connection_count_head(struct gyre_http1_connection *connection, size_t bytes) {
  struct gyre_http1_acceptor *acceptor = connection->acceptor;
  acceptor->head_bytes += (int64_t)bytes - connection->head_bytes;
  connection->head_bytes = (uint32_t)bytes;
  return acceptor->head_bytes <= acceptor->limits.head_bytes;
}

/* The head has come in part. False: there is no memory for one more, and it is refused. */
static bool head_fits(struct gyre_http1_connection *connection) {
  const struct gyre_http1_acceptor *acceptor = connection->acceptor;
  size_t bytes = connection->buffer_capacity;
  if (connection->partial)
    bytes += sizeof(*connection->partial) + acceptor->limits.head.header_count * sizeof(struct gyre_http1_field);
  return gyre_http1_connection_count_head(connection, bytes);
}

static void refuse_partial(struct gyre_http1_connection *connection) {
  const struct gyre_http1_partial *partial = connection->partial;
  gyre_http1_handler_start(connection, partial ? &partial->head : NULL, connection->buffer + connection->buffer_offset);
}

static bool keep_head(struct gyre_http1_connection *connection) {
  if (head_fits(connection)) return true;
  connection->acceptor->refused++;
  connection->status = 503;
  connection->reason = "too many requests have come in part";
  refuse_partial(connection);
  return false;
}

static bool start_if_parsed(struct gyre_http1_connection *connection) {
  const struct gyre_http1_head *head = gyre_http1_connection_parse(connection);
  if (!head) return false;
  gyre_http1_handler_start(connection, head, connection->buffer + connection->buffer_offset);
  return true;
}

static void read_more(struct gyre_http1_connection *connection);

/* The first bytes of a head, in the loop's buffer. Mostly they are all of it, and nothing is kept. */
static void read_first(struct gyre_http1_connection *connection) {
  struct gyre_http1_acceptor *acceptor = connection->acceptor;
  struct gyre_loop *loop = &acceptor->scheduler->loop;
  if (!loop->buffer && !(loop->buffer = malloc(GYRE_LOOP_BUFFER))) {
    gyre_http1_connection_close(connection, true);
    gyre_http1_connection_free(connection);
    return;
  }
  ssize_t count = receive(connection, loop->buffer, GYRE_LOOP_BUFFER);
  if (count == -EAGAIN || count == -EWOULDBLOCK) return;
  if (count <= 0) {
    gyre_http1_connection_close(connection, false);
    gyre_http1_connection_free(connection);
    return;
  }

  gyre_http1_head_reset(&acceptor->head, acceptor->fields, acceptor->limits.head.header_count);
  int length = gyre_http1_head_parse(&acceptor->head, loop->buffer, (size_t)count, &acceptor->limits.head);
  if (length < 0) {
    refused(connection, &acceptor->head);
    gyre_http1_handler_start(connection, &acceptor->head, loop->buffer);
    return;
  }
  /* What is not a whole head is kept: the beginning of one, or what follows it. */
  size_t left = (size_t)(count - length);
  if (left > 0) {
    if (!reserve(connection, left)) {
      gyre_http1_connection_close(connection, true);
      gyre_http1_connection_free(connection);
      return;
    }
    memcpy(connection->buffer, loop->buffer + length, left);
    connection->buffer_length = (uint32_t)left;
  }
  if (length > 0) {
    gyre_http1_handler_start(connection, &acceptor->head, loop->buffer);
    return;
  }
  connection->state = GYRE_HTTP1_HEAD;
  if (connection->is_idle) {
    connection->is_idle = false;
    acceptor->idle--;
  }
  gyre_http1_connection_deadline(connection, acceptor->limits.head_ns);
  if (!start_if_parsed(connection) && keep_head(connection))
    read_more(connection); /* the end may have been reported with these bytes */
}

static void read_more(struct gyre_http1_connection *connection) {
  while (connection->readable) {
    ssize_t count = gyre_http1_connection_fill(connection, HEAD_BUFFER_BYTES);
    if (count == -EAGAIN || count == -EWOULDBLOCK) return;
    if (count <= 0) {
      gyre_http1_connection_close(connection, count < 0);
      gyre_http1_connection_free(connection);
      return;
    }
    if (start_if_parsed(connection) || !keep_head(connection)) return;
  }
}

/* What a refused client still sends is read off, so that its answer is not lost to a reset. */
static void read_off(struct gyre_http1_connection *connection) {
  char bytes[16384];
  while (connection->readable) {
    ssize_t count = receive(connection, bytes, sizeof(bytes));
    if (count == -EAGAIN || count == -EWOULDBLOCK) return;
    if (count > 0) connection->body_received += count;
    if (count <= 0 || connection->body_received > LINGER_BYTES_LIMIT) {
      gyre_http1_connection_close(connection, false);
      gyre_http1_connection_free(connection);
      return;
    }
  }
}

static void on_ready(struct gyre_loop *loop, struct gyre_watch *watch, unsigned ready) {
  struct gyre_http1_connection *connection = GYRE_CONTAINER(watch, struct gyre_http1_connection, watch);
  if (!(ready & GYRE_READABLE)) return;
  connection->readable = true;
  if (ready & GYRE_READ_ENDED) connection->hung_up = true;
  if (connection->handler) {
    if (!connection->reader) return;
    if (connection->reader->came_ns < 0) connection->reader->came_ns = loop->unseen_ns;
    gyre_wake(connection->acceptor->scheduler, &connection->reader->wait.parked);
    return;
  }
  switch (connection->state) {
  case GYRE_HTTP1_FIRST_BYTE:
  case GYRE_HTTP1_IDLE: read_first(connection); break;
  case GYRE_HTTP1_HEAD: read_more(connection); break;
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
  /* Out of memory for the heap: the connection lives without a limit of time rather than not at all. */
  (void)gyre_timers_arm(&loop->timers, &connection->timer, connection->deadline_ns);
}

bool gyre_http1_connection_input_waits(const struct gyre_http1_connection *connection) {
  char byte;
  return recv(connection->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

static void on_time(struct gyre_timer *timer, void *context) {
  struct gyre_http1_connection *connection = GYRE_CONTAINER(timer, struct gyre_http1_connection, timer);
  struct gyre_loop *loop = context;
  if (connection->deadline_ns == INT64_MAX || connection->handler) return;
  if (connection->deadline_ns > loop->now_ns) {
    (void)gyre_timers_arm(&loop->timers, timer, connection->deadline_ns);
    return;
  }
  /* What is there has come in time, reported or not: a loop that was held learns of much at once, and of a part only. */
  if (connection->deadline_ns != LOOKED && connection->state != GYRE_HTTP1_LINGERING &&
      gyre_http1_connection_input_waits(connection)) {
    connection->deadline_ns = LOOKED;
    (void)gyre_timers_arm(&loop->timers, timer, loop->now_ns);
    on_ready(loop, &connection->watch, GYRE_READABLE);
    return;
  }
  switch (connection->state) {
  case GYRE_HTTP1_FIRST_BYTE:
    if (connection->acceptor->draining) {
      gyre_http1_connection_close(connection, false);
      gyre_http1_connection_free(connection);
      break;
    }
    connection->status = 408;
    connection->reason = "no request came in time";
    gyre_http1_handler_start(connection, NULL, NULL);
    break;
  case GYRE_HTTP1_HEAD:
    connection->status = 408;
    connection->reason = "the request's head did not come in time";
    refuse_partial(connection);
    break;
  default: gyre_http1_connection_close(connection, false); gyre_http1_connection_free(connection);
  }
}

/* --- life --- */

struct gyre_http1_connection *gyre_http1_connection_new(struct gyre_http1_acceptor *acceptor, int fd,
                                                        const struct sockaddr_storage *address) {
  struct gyre_http1_connection *connection = calloc(1, sizeof(*connection));
  if (!connection) return NULL;
  connection->acceptor = acceptor;
  connection->fd = fd;
  connection->family = (uint8_t)address->ss_family;
  if (address->ss_family == AF_INET) {
    memcpy(connection->address, &((const struct sockaddr_in *)address)->sin_addr, 4);
  } else if (address->ss_family == AF_INET6) {
    memcpy(connection->address, &((const struct sockaddr_in6 *)address)->sin6_addr, 16);
  }
  connection->handle = connection->fiber = connection->env = connection->trailers = Qnil;
  connection->watch.ready = on_ready;
  connection->timer.fire = on_time;
  gyre_list_init(&connection->active);
  /* A new number, whatever is known of it: the program may have closed its last owner behind our back. */
  gyre_loop_forget(&acceptor->scheduler->loop, fd);
  if (gyre_loop_watch(&acceptor->scheduler->loop, &connection->watch, fd, GYRE_READABLE | GYRE_STANDING) < 0) {
    free(connection);
    return NULL;
  }
  gyre_list_append(&acceptor->connections, &connection->node);
  return connection;
}

void gyre_http1_connection_detach(struct gyre_http1_connection *connection) {
  struct gyre_http1_acceptor *acceptor = connection->acceptor;
  struct gyre_loop *loop = &acceptor->scheduler->loop;
  gyre_loop_unwatch(loop, &connection->watch);
  gyre_loop_abandon(loop, connection->fd);
  gyre_timers_cancel(&loop->timers, &connection->timer);
  gyre_list_remove(&connection->node);
  (void)gyre_http1_connection_count_head(connection, 0);
  if (connection->counted) acceptor->open--;
  if (connection->is_idle) acceptor->idle--;
  if (!connection->counted && connection->state == GYRE_HTTP1_LINGERING) acceptor->lingering_refused--;
  connection->counted = connection->is_idle = false;
  if (connection->reader) gyre_wake(acceptor->scheduler, &connection->reader->wait.parked);
  connection->reader = NULL; /* it stands on the stack of a fiber that a scheduler which closes may not run again */
}

void gyre_http1_connection_close(struct gyre_http1_connection *connection, bool reset) {
  if (connection->state == GYRE_HTTP1_CLOSED || connection->state == GYRE_HTTP1_HIJACKED) return;
  gyre_http1_connection_detach(connection);
  if (reset) {
    struct linger linger = {1, 0};
    setsockopt(connection->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
  }
  close(connection->fd);
  connection->fd = -1;
  connection->state = GYRE_HTTP1_CLOSED;
  connection->keep_alive = false;
}

void gyre_http1_connection_free(struct gyre_http1_connection *connection) {
  if (connection->handler) return; /* its end frees it */
  release_partial(connection);
  gyre_http1_connection_release_buffer(connection);
  free(connection);
}

void gyre_http1_connection_linger(struct gyre_http1_connection *connection) {
  if (connection->state == GYRE_HTTP1_CLOSED || connection->state == GYRE_HTTP1_HIJACKED) return;
  if (shutdown(connection->fd, SHUT_WR) < 0) {
    gyre_http1_connection_close(connection, false);
    return;
  }
  release_partial(connection);
  gyre_http1_connection_release_buffer(connection);
  connection->state = GYRE_HTTP1_LINGERING;
  connection->body_received = 0;
  gyre_http1_connection_deadline(connection, connection->acceptor->limits.linger_ns);
}

void gyre_http1_connection_idle(struct gyre_http1_connection *connection) {
  struct gyre_http1_acceptor *acceptor = connection->acceptor;
  if (acceptor->draining) {
    gyre_http1_connection_linger(connection);
    return;
  }
  if (connection->buffer_length > connection->buffer_offset) {
    connection->state = GYRE_HTTP1_HEAD; /* a pipelined head has come in part */
    if (!head_fits(connection)) {
      gyre_http1_connection_close(connection, false);
      return;
    }
    gyre_http1_connection_deadline(connection, acceptor->limits.head_ns);
    return;
  }
  release_partial(connection);
  gyre_http1_connection_release_buffer(connection);
  connection->state = GYRE_HTTP1_IDLE;
  connection->is_idle = true;
  acceptor->idle++;
  gyre_http1_connection_deadline(connection, acceptor->limits.keep_alive_ns);
}

VALUE gyre_http1_connection_address(struct gyre_http1_connection *connection) {
  struct gyre_http1_acceptor *acceptor = connection->acceptor;
  if (connection->family != AF_INET && connection->family != AF_INET6) return rb_str_new(NULL, 0);
  if (connection->family != acceptor->last_family || memcmp(connection->address, acceptor->last_address, 16)) {
    inet_ntop(connection->family, connection->address, acceptor->last_text, sizeof(acceptor->last_text));
    acceptor->last_family = connection->family;
    memcpy(acceptor->last_address, connection->address, 16);
  }
  return rb_str_new_cstr(acceptor->last_text);
}
