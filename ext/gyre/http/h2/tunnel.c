/* A connection inside an HTTP/2 stream (RFC 8441). Another protocol takes over the stream of a
 * CONNECT through a transport with the stream's flow control. After a change of the stream, the
 * loop calls the protocol in the next turn, never within a call of the session.
 *
 *   upgrade ─► the handler returns: the tunnel owns the stream ─► closed: its queue is sent
 */
#include "feature.h"

#ifdef GYRE_HAVE_NGHTTP2

#include "http/h2/h2.h"
#include "loop/direct_calls.h"

#include <errno.h>
#include <ruby/io.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HEAD_BYTES_LIMIT 16384
#define OUTPUT_BYTES_LIMIT 65536           /* maximum unsent bytes before the app waits */
#define DRAIN_NS (INT64_C(5) * 1000000000) /* time for the app to close its socket in a drain */

struct tunnel {
  struct gyre_http_connection connection; /* first, because a free gets its address */
  struct gyre_http_connection *outer;     /* lives longer; counts the tunnel as a handler */
  struct gyre_http2_stream *stream;       /* NULL once closed */
  struct gyre_post changed;
  uint64_t sent_bytes; /* stream->out.sent_bytes when the protocol began to wait */
};

static ssize_t tunnel_receive(struct gyre_transport *transport, void *bytes, size_t length) {
  struct tunnel *tunnel = transport->state;
  struct gyre_http2_stream *stream = tunnel->stream;
  size_t held = gyre_bytes_held(stream->in.bytes);
  if (!held && stream->closed && stream->departed) return -ECONNRESET;
  if (!held) return gyre_http2_stream_is_read(stream) ? 0 : -EAGAIN;
  if (length > held) length = held;
  memcpy(bytes, stream->in.bytes->bytes + stream->in.bytes->offset, length);
  gyre_http2_stream_taken(stream, length);
  gyre_http2_connection_send(tunnel->outer); /* the client's window grows */
  return (ssize_t)length;
}

/* Takes all bytes. The protocol itself limits its unsent bytes. */
static ssize_t tunnel_sendv(struct gyre_transport *transport, const struct iovec *pieces, int count) {
  struct tunnel *tunnel = transport->state;
  ssize_t taken = 0;
  for (int i = 0; i < count; i++) {
    int error = gyre_http2_stream_write(tunnel->stream, pieces[i].iov_base, pieces[i].iov_len);
    if (error < 0) return error;
    taken += (ssize_t)pieces[i].iov_len;
  }
  gyre_http2_connection_send(tunnel->outer);
  return taken;
}

static size_t tunnel_held(const struct gyre_transport *transport) {
  const struct tunnel *tunnel = transport->state;
  return tunnel->stream ? gyre_http2_stream_queued(tunnel->stream) : 0;
}

/* Asks for a call of `room` if bytes are queued. */
static int tunnel_flush(struct gyre_transport *transport) {
  struct tunnel *tunnel = transport->state;
  if (tunnel->stream->closed) return -EPIPE;
  if (!transport->write.wants && gyre_http2_stream_queued(tunnel->stream)) {
    tunnel->sent_bytes = tunnel->stream->out.sent_bytes;
    transport->write.wants = GYRE_WRITABLE;
  }
  return 0;
}

static int tunnel_end(struct gyre_transport *transport) {
  struct tunnel *tunnel = transport->state;
  return gyre_http2_stream_finish(tunnel->stream, NULL, 0);
}

static const struct gyre_transport_operations operations = {
    .receive = tunnel_receive, .sendv = tunnel_sendv, .flush = tunnel_flush, .end = tunnel_end, .held = tunnel_held};

/* The protocol may free the connection. */
static void on_change(struct gyre_scheduler *scheduler, struct gyre_post *post) {
  struct tunnel *tunnel = GYRE_CONTAINER(post, struct tunnel, changed);
  struct gyre_http_connection *connection = &tunnel->connection;
  const struct gyre_http2_stream *stream = tunnel->stream;
  if (connection->exchange && !connection->exchange->hijacked) return; /* its handler still runs */
  connection->hung_up |= gyre_http2_stream_is_read(stream);
  if (connection->transport.write.wants && (stream->closed || stream->out.sent_bytes != tunnel->sent_bytes)) {
    connection->transport.write.wants = 0;
    gyre_post(scheduler, post);
    connection->protocol->room(connection);
  } else {
    connection->watch.ready(&scheduler->loop, &connection->watch, GYRE_READABLE);
  }
}

static void report(struct gyre_http_connection *connection) {
  struct tunnel *tunnel = GYRE_CONTAINER(connection, struct tunnel, connection);
  if (tunnel->stream) gyre_post(connection->acceptor->scheduler, &tunnel->changed);
}

struct gyre_http_connection *gyre_http2_tunnel_open(struct gyre_http_exchange *exchange) {
  struct tunnel *tunnel = calloc(1, sizeof(*tunnel));
  if (!tunnel) return NULL;
  tunnel->outer = exchange->connection;
  tunnel->stream = gyre_http2_stream_of(exchange);
  tunnel->changed.run = on_change;
  gyre_list_init(&tunnel->changed.node);
  gyre_transport_init(&tunnel->connection.transport, -1, &operations);
  tunnel->connection.transport.state = tunnel;
  tunnel->connection.exchange = exchange;
  gyre_http_connection_begin_inner(&tunnel->connection, tunnel->outer);
  return gyre_http2_of(exchange)->tunnel = &tunnel->connection;
}

bool gyre_http2_tunnel_begin(struct gyre_http_connection *connection, struct gyre_http2_stream *stream) {
  connection->exchange = NULL;
  if (connection->state == GYRE_HTTP_CLOSED) {
    gyre_http_connection_free(connection);
    return false;
  }
  stream->owner = connection;
  stream->tunnel = true;
  if (!gyre_timer_armed(&connection->timer) && connection->deadline_ns != INT64_MAX) /* fired */
    (void)gyre_timers_arm(&gyre_http_loop(connection)->timers, &connection->timer, connection->deadline_ns);
  report(connection);
  return true;
}

/* Resets the stream if `reset`, or if output is unfinished. Otherwise finishes the stream. */
static void close_tunnel(struct gyre_http_connection *connection, bool reset) {
  struct tunnel *tunnel = GYRE_CONTAINER(connection, struct tunnel, connection);
  struct gyre_http2_stream *stream = tunnel->stream;
  gyre_list_remove(&tunnel->changed.node);
  if (!stream) return;
  tunnel->stream = NULL;
  if (reset || !stream->out.headed || (!stream->out.over && gyre_http2_stream_queued(stream))) {
    gyre_http2_stream_reset(stream, GYRE_HTTP2_CANCEL);
  } else {
    (void)gyre_http2_stream_finish(stream, NULL, 0);
  }
  if (!stream->tunnel) return; /* its handler runs */
  stream->tunnel = false;
  gyre_http2_connection_leave_stream(tunnel->outer, stream);
}

const struct gyre_http_inner gyre_http2_tunnel = {.report = report, .close = close_tunnel};

/* --- a hijacked stream ---
 *
 * The app gets one end of a socket pair, for gems that speak HTTP/1.1's WebSockets on a descriptor.
 * The head that the app writes becomes the stream's response; later bytes go through the tunnel's
 * connection. Needs no fiber. */

struct hijacked {
  struct gyre_http_connection *connection;
  struct gyre_watch app; /* watches the server's end of the pair */
  struct gyre_bytes *head;
  uint32_t counted; /* bytes in the server's budget of input */
  bool headed;
};

/* Ends the connection and frees its `hijacked`. */
static void end(struct gyre_http_connection *connection, bool reset) {
  if (reset) {
    gyre_http_connection_close(connection, true);
  } else {
    gyre_http_connection_linger(connection);
  }
  gyre_http_connection_free(connection);
}

static void lower_names(char *line, const char *end) {
  for (bool name = true; line < end; line++) {
    if (name && *line >= 'A' && *line <= 'Z') *line = (char)(*line + 'a' - 'A');
    name = *line == '\n' || (name && *line != ':');
  }
}

/* Responds if the app's head is complete. Returns its length, 0 if incomplete, or -errno. */
static ssize_t respond(const struct hijacked *hijacked) {
  char *bytes = hijacked->head->bytes, *end = bytes + hijacked->head->length;
  char *lines = memchr(bytes, '\n', (size_t)(end - bytes)), *line = lines;
  while (line && (end - line < 3 || line[1] != '\r' || line[2] != '\n'))
    line = memchr(line + 1, '\n', (size_t)(end - line - 1));
  if (!line) return hijacked->head->length > HEAD_BYTES_LIMIT ? -E2BIG : 0;
  int64_t status = lines - bytes > 12 ? gyre_http_number(bytes + 9, 3) : -1; /* "HTTP/1.1 101" */
  if (status == 101)
    status = 200;
  else if (status < 300)
    return -EPROTO;
  lower_names(++lines, ++line);
  const struct tunnel *tunnel = GYRE_CONTAINER(hijacked->connection, struct tunnel, connection);
  int error = gyre_http2_stream_respond(tunnel->stream, (int)status, lines, (size_t)(line - lines), false);
  gyre_http2_connection_send(tunnel->outer);
  return error < 0 ? error : line + 2 - bytes;
}

static int take_head(struct hijacked *hijacked, const char *bytes, size_t length) {
  if (gyre_bytes_append(&hijacked->head, bytes, length) < 0) return -ENOMEM;
  ssize_t taken = respond(hijacked);
  if (taken <= 0) return (int)taken;
  hijacked->headed = true;
  gyre_bytes_consume(&hijacked->head, (size_t)taken);
  struct iovec rest = {hijacked->head ? hijacked->head->bytes + taken : NULL, gyre_bytes_held(hijacked->head)};
  ssize_t sent = rest.iov_len ? gyre_transport_sendv(&hijacked->connection->transport, &rest, 1) : 0;
  gyre_bytes_free(&hijacked->head);
  return sent < 0 ? (int)sent : 0;
}

/* Sends the app's bytes. Ends the stream if the app has closed its end. */
static void take_from_app(struct hijacked *hijacked) {
  struct gyre_http_connection *connection = hijacked->connection;
  struct gyre_loop *loop = gyre_http_loop(connection);
  for (int receptions = 0; gyre_transport_unsent(&connection->transport) <= OUTPUT_BYTES_LIMIT; receptions++) {
    char *bytes = gyre_lent_plain();
    ssize_t count = bytes ? gyre_recv(hijacked->app.fd, bytes, GYRE_LENT_BYTES, MSG_DONTWAIT) : -1;
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) {
      gyre_loop_drained(loop, hijacked->app.fd, GYRE_READABLE);
      return;
    }
    ssize_t taken = count <= 0 ? count
                    : hijacked->headed
                        ? gyre_transport_sendv(&connection->transport, &(struct iovec){bytes, (size_t)count}, 1)
                        : take_head(hijacked, bytes, (size_t)count);
    if (count <= 0 || taken < 0) {
      end(connection, taken < 0 || !hijacked->headed);
      return;
    }
    if (receptions >= GYRE_HTTP_RECEIVES_AT_ONCE) {
      gyre_loop_report_again(loop, &hijacked->app, GYRE_READABLE);
      return;
    }
  }
  (void)gyre_transport_flush(&connection->transport); /* asks for `room` */
  gyre_http_connection_deadline(connection, connection->acceptor->limits.write_ns);
}

static void room(struct gyre_http_connection *connection) {
  if (!connection->acceptor->draining) gyre_http_connection_deadline(connection, -1);
  take_from_app(connection->own);
}

static void count(struct hijacked *hijacked, size_t bytes) {
  gyre_http_budget_hold(&hijacked->connection->acceptor->capacity.input, &hijacked->counted, bytes);
}

/* Sends received bytes to the app; true if all were sent. If the app has stopped reading, drops
 * them instead of ending the stream, as the app may still write. */
static bool give_to_app(struct hijacked *hijacked) {
  struct gyre_transport *transport = &hijacked->connection->transport;
  while (transport->input) {
    ssize_t sent = gyre_send(hijacked->app.fd, gyre_transport_input(transport), gyre_transport_available(transport),
                             MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno == EAGAIN) {
      gyre_loop_drained(gyre_http_loop(hijacked->connection), hijacked->app.fd, GYRE_WRITABLE);
      count(hijacked, transport->input->capacity);
      return false;
    }
    gyre_transport_consume(transport, sent < 0 ? gyre_transport_available(transport) : (size_t)sent);
  }
  count(hijacked, 0);
  return true;
}

static void readable(struct gyre_http_connection *connection) {
  struct hijacked *hijacked = connection->own;
  int receptions = 0;
  while (give_to_app(hijacked) && connection->readable && !gyre_http_connection_gives_way(connection, &receptions)) {
    ssize_t count = gyre_http_connection_fill(connection);
    if (count == -EAGAIN) return;
    if (count > 0) continue;
    connection->readable = false;
    if (count < 0) {
      end(connection, true);
    } else {
      (void)shutdown(hijacked->app.fd, SHUT_WR);
    }
    return;
  }
}

static void on_app(struct gyre_loop *loop, struct gyre_watch *watch, unsigned ready) {
  struct hijacked *hijacked = GYRE_CONTAINER(watch, struct hijacked, app);
  if (ready & GYRE_WRITABLE) gyre_http_connection_report_again(hijacked->connection);
  if (ready & GYRE_READABLE) take_from_app(hijacked);
}

static void late(struct gyre_http_connection *connection) { end(connection, true); }

static void begin(struct gyre_http_connection *connection, const char *bytes, size_t length) {
  connection->state = GYRE_HTTP_BETWEEN;
  gyre_http_connection_deadline(connection, -1);
}

/* Gives the app time to close its socket. */
static void drain(struct gyre_http_connection *connection) { gyre_http_connection_deadline(connection, DRAIN_NS); }

static void detached(struct gyre_http_connection *connection) {
  struct hijacked *hijacked = connection->own;
  if (!hijacked) return;
  int fd = hijacked->app.fd;
  connection->own = NULL;
  if (connection->abandoned) {
    hijacked->app.fd = -1;
  } else {
    gyre_loop_unwatch(gyre_http_loop(connection), &hijacked->app);
    gyre_loop_forget(gyre_http_loop(connection), fd);
  }
  close(fd);
  count(hijacked, 0);
  gyre_bytes_free(&hijacked->head);
  free(hijacked);
}

static bool free_own(struct gyre_http_connection *connection, bool gone) {
  struct hijacked *hijacked = connection->own;
  if (gone && hijacked) { /* `detached` was not called: the loop is freed */
    close(hijacked->app.fd);
    gyre_bytes_free(&hijacked->head);
    free(hijacked);
  }
  connection->own = NULL;
  return true;
}

static const struct gyre_http_protocol protocol = {.begin = begin,
                                                   .readable = readable,
                                                   .room = room,
                                                   .late = late,
                                                   .drain = drain,
                                                   .detached = detached,
                                                   .free = free_own};

/* Returns 0 if the connection now owns the descriptor, or -errno. */
static int take_over(struct gyre_http_exchange *exchange, int fd) {
  struct gyre_loop *loop = gyre_http_loop(exchange->connection);
  struct hijacked *hijacked = calloc(1, sizeof(*hijacked));
  if (!hijacked) return -ENOMEM;
  hijacked->app.ready = on_app;
  hijacked->app.fd = -1;
  gyre_loop_forget(loop, fd);
  int error = gyre_loop_watch(loop, &hijacked->app, fd, GYRE_READABLE | GYRE_WRITABLE | GYRE_STANDING);
  if (error == 0 && !(hijacked->connection = gyre_http2_tunnel_open(exchange))) error = -ENOMEM;
  if (error < 0) {
    gyre_loop_unwatch(loop, &hijacked->app);
    free(hijacked);
    return error;
  }
  hijacked->connection->own = hijacked;
  gyre_http_connection_enter(hijacked->connection, &protocol, NULL, 0);
  return 0;
}

VALUE gyre_http2_hijack(VALUE self) {
  VALUE pair =
      rb_funcall(rb_path2class("Socket"), rb_intern("pair"), 2, ID2SYM(rb_intern("UNIX")), ID2SYM(rb_intern("STREAM")));
  VALUE ours = rb_ary_entry(pair, 0), socket = rb_ary_entry(pair, 1);
  int fd = rb_cloexec_dup(rb_io_descriptor(ours));
  if (fd < 0) rb_sys_fail("hijack a stream");
  rb_io_close(ours);
  struct gyre_http_exchange *exchange = gyre_http_exchange_open(self);
  int error = exchange && !gyre_http_exchange_is_over(exchange) ? take_over(exchange, fd) : -EPIPE;
  if (error < 0) {
    close(fd);
    rb_syserr_fail(-error, "hijack a stream");
  }
  exchange->hijacked = exchange->body.over = true;
  gyre_http2_of(exchange)->cut = true; /* prevents other writes */
  gyre_http_exchange_leave_place(exchange);
  gyre_http_connection_report_again(gyre_http2_of(exchange)->tunnel); /* bytes may have come before */
  rb_check_funcall(exchange->connection->acceptor->handler, rb_intern("hijacked"), 1, &socket);
  return socket;
}

#endif
