/* A connection inside an HTTP/2 stream (RFC 8441). Another protocol takes over the stream of a
 * CONNECT through a transport with the stream's flow control. After a change of the stream, the
 * loop calls the protocol in the next turn, never within a call of the session.
 *
 *   upgrade ─► the handler returns: the tunnel owns the stream ─► closed: its queue is sent
 */
#include "http/h2/h2.h"

#define HEAD_BYTES_LIMIT 16384

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

/* --- a hijacked stream (http/hijack.h) --- */

static void lower_names(char *line, const char *end) {
  for (bool name = true; line < end; line++) {
    if (name && *line >= 'A' && *line <= 'Z') *line = (char)(*line + 'a' - 'A');
    name = *line == '\n' || (name && *line != ':');
  }
}

ssize_t gyre_http2_tunnel_respond(struct gyre_http_connection *connection, char *bytes, size_t length) {
  char *end = bytes + length, *lines = memchr(bytes, '\n', length), *line = lines;
  while (line && (end - line < 3 || line[1] != '\r' || line[2] != '\n'))
    line = memchr(line + 1, '\n', (size_t)(end - line - 1));
  if (!line) return length > HEAD_BYTES_LIMIT ? -E2BIG : 0;
  int64_t status = lines - bytes > 12 ? gyre_http_number(bytes + 9, 3) : -1; /* "HTTP/1.1 101" */
  if (status == 101)
    status = 200;
  else if (status < 300)
    return -EPROTO;
  lower_names(++lines, ++line);
  const struct tunnel *tunnel = GYRE_CONTAINER(connection, struct tunnel, connection);
  int error = gyre_http2_stream_respond(tunnel->stream, (int)status, lines, (size_t)(line - lines), false);
  gyre_http2_connection_send(tunnel->outer);
  return error < 0 ? error : line + 2 - bytes;
}
