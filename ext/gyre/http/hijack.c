/* The protocol of a hijacked connection (hijack.h). Ends of either side pass to the other: the app
 * may end its writing and read on, and gets the client's end. */
#include "http/hijack.h"
#include "loop/direct_calls.h"

#include <poll.h>
#include <ruby/io.h>

#define OUTPUT_BYTES_LIMIT 65536           /* maximum unsent bytes before the app waits */
#define DRAIN_NS (INT64_C(5) * 1000000000) /* time for the app to close its socket in a drain */

struct hijacked {
  struct gyre_http_connection *connection;
  struct gyre_watch app;               /* watches the server's end of the pair */
  struct gyre_watch room;              /* waits for room in the client's socket; otherwise fd -1 */
  gyre_http_hijack_responder *respond; /* NULL once the app's head is sent */
  struct gyre_bytes *head;
  uint32_t counted; /* bytes in the server's budget of input */
  bool client_ended;
};

/* Ends the connection and frees its `hijacked`. Lingers if the client's bytes would cause a
 * reset. */
static void end(struct gyre_http_connection *connection, bool reset) {
  if (!reset && (connection->inner || connection->readable || connection->transport.input)) {
    gyre_http_connection_linger(connection);
  } else {
    gyre_http_connection_close(connection, reset);
  }
  if (connection->state == GYRE_HTTP_CLOSED) gyre_http_connection_free(connection);
}

static int take_head(struct hijacked *hijacked, const char *bytes, size_t length) {
  if (gyre_bytes_append(&hijacked->head, bytes, length) < 0) return -ENOMEM;
  ssize_t taken = hijacked->respond(hijacked->connection, hijacked->head->bytes, hijacked->head->length);
  if (taken <= 0) return (int)taken;
  hijacked->respond = NULL;
  gyre_bytes_consume(&hijacked->head, (size_t)taken);
  size_t left = gyre_bytes_held(hijacked->head);
  int error = left ? gyre_transport_pass(&hijacked->connection->transport, hijacked->head->bytes + taken, left) : 0;
  gyre_bytes_free(&hijacked->head);
  return error;
}

static bool app_has_closed(const struct hijacked *hijacked) {
  struct pollfd state = {.fd = hijacked->app.fd};
  return poll(&state, 1, 0) > 0 && state.revents & (POLLHUP | POLLERR);
}

/* Passes on the end of the app's bytes. Ends the connection unless the app still reads. */
static void app_ended(struct hijacked *hijacked) {
  struct gyre_http_connection *connection = hijacked->connection;
  if (hijacked->respond || hijacked->client_ended || app_has_closed(hijacked)) {
    end(connection, hijacked->respond);
  } else if (connection->inner) {
    (void)connection->transport.operations->end(&connection->transport);
  } else {
    (void)gyre_transport_end(&connection->transport);
  }
}

static void await_room(struct hijacked *hijacked) {
  struct gyre_http_connection *connection = hijacked->connection;
  struct gyre_transport *transport = &connection->transport;
  struct gyre_loop *loop = gyre_http_loop(connection);
  if (connection->inner) {
    (void)gyre_transport_flush(transport); /* asks for `room` */
  } else {
    gyre_loop_drained(loop, transport->fd, transport->write.wants);
    if (hijacked->room.fd >= 0 && hijacked->room.interest == transport->write.wants) return;
    gyre_loop_unwatch(loop, &hijacked->room);
    if (gyre_loop_watch(loop, &hijacked->room, transport->fd, transport->write.wants) < 0) {
      end(connection, true);
      return;
    }
  }
  if (!connection->acceptor->draining) gyre_http_connection_deadline(connection, connection->acceptor->limits.write_ns);
}

/* Sends the app's bytes, while the client takes them. */
static void take_from_app(struct hijacked *hijacked) {
  struct gyre_http_connection *connection = hijacked->connection;
  struct gyre_transport *transport = &connection->transport;
  struct gyre_loop *loop = gyre_http_loop(connection);
  bool ended = false;
  for (int receptions = 0; !ended && gyre_transport_unsent(transport) <= OUTPUT_BYTES_LIMIT; receptions++) {
    char *bytes = gyre_lent_plain();
    ssize_t count = bytes ? gyre_recv(hijacked->app.fd, bytes, GYRE_LENT_BYTES, MSG_DONTWAIT) : -1;
    if (count < 0 && bytes && errno == EINTR) continue;
    if (count < 0 && bytes && errno == EAGAIN) {
      gyre_loop_drained(loop, hijacked->app.fd, GYRE_READABLE);
      break;
    }
    ended = count == 0 || (count < 0 && bytes && errno == ECONNRESET); /* closed with unread bytes */
    int error = ended               ? 0
                : count < 0         ? -EIO
                : hijacked->respond ? take_head(hijacked, bytes, (size_t)count)
                                    : gyre_transport_pass(transport, bytes, (size_t)count);
    if (error < 0 && error != -EAGAIN) {
      end(connection, true);
      return;
    }
    if (!ended && receptions >= GYRE_HTTP_RECEIVES_AT_ONCE) {
      gyre_loop_report_again(loop, &hijacked->app, GYRE_READABLE);
      break;
    }
  }
  size_t unsent = gyre_transport_unsent(transport);
  if (ended && (connection->inner || unsent == 0)) {
    app_ended(hijacked);
  } else if (unsent > (connection->inner ? OUTPUT_BYTES_LIMIT : 0)) {
    await_room(hijacked);
  }
}

static void room(struct gyre_http_connection *connection) {
  int error = connection->inner ? 0 : gyre_transport_flush(&connection->transport);
  if (error < 0 && error != -EAGAIN) {
    end(connection, true);
    return;
  }
  if (!connection->acceptor->draining) gyre_http_connection_deadline(connection, -1);
  take_from_app(connection->own);
}

static void on_room(struct gyre_loop *loop, struct gyre_watch *watch, unsigned ready) {
  gyre_loop_unwatch(loop, watch);
  room(GYRE_CONTAINER(watch, struct hijacked, room)->connection);
}

static void count(struct hijacked *hijacked, size_t bytes) {
  gyre_http_budget_hold(&hijacked->connection->acceptor->capacity.input, &hijacked->counted, bytes);
}

/* Sends received bytes to the app; true if all were sent. If the app has stopped reading, drops
 * them instead of ending the connection, as the app may still write. */
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
      return;
    }
    hijacked->client_ended = true;
    (void)shutdown(hijacked->app.fd, SHUT_WR);
    if (connection->transport.write.state != GYRE_SIDE_OPEN) end(connection, false);
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
  gyre_http_connection_set_idle(connection, true);
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
    hijacked->app.fd = hijacked->room.fd = -1;
  } else {
    gyre_loop_unwatch(gyre_http_loop(connection), &hijacked->room);
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

static const struct gyre_http_protocol protocol = {GYRE_HTTP_PROTOCOL, .room = room};

/* Returns 0 if the connection now owns the descriptor, or -errno. */
static int take_over(struct gyre_http_exchange *exchange, int fd, gyre_http_hijack_responder *respond) {
  struct gyre_loop *loop = gyre_http_loop(exchange->connection);
  struct hijacked *hijacked = calloc(1, sizeof(*hijacked));
  if (!hijacked) return -ENOMEM;
  hijacked->app.ready = on_app;
  hijacked->room.ready = on_room;
  hijacked->app.fd = hijacked->room.fd = -1;
  hijacked->respond = respond;
  gyre_loop_forget(loop, fd);
  int error = gyre_loop_watch(loop, &hijacked->app, fd, GYRE_READABLE | GYRE_WRITABLE | GYRE_STANDING);
  if (error == 0) {
    hijacked->connection =
        exchange->operations->upgrade ? exchange->operations->upgrade(exchange) : exchange->connection;
    if (!hijacked->connection) error = -ENOMEM;
  }
  if (error < 0) {
    gyre_loop_unwatch(loop, &hijacked->app);
    free(hijacked);
    return error;
  }
  hijacked->connection->own = hijacked;
  gyre_http_connection_enter(hijacked->connection, &protocol, NULL, 0);
  gyre_http_connection_report_again(hijacked->connection); /* bytes may have come before */
  return 0;
}

VALUE gyre_http_hijack(VALUE self, gyre_http_hijack_responder *respond) {
  VALUE pair =
      rb_funcall(rb_path2class("Socket"), rb_intern("pair"), 2, ID2SYM(rb_intern("UNIX")), ID2SYM(rb_intern("STREAM")));
  VALUE ours = rb_ary_entry(pair, 0), socket = rb_ary_entry(pair, 1);
  int fd = rb_cloexec_dup(rb_io_descriptor(ours));
  if (fd < 0) rb_sys_fail("hijack a connection");
  rb_io_close(ours);
  struct gyre_http_exchange *exchange = gyre_http_exchange_open(self);
  int error = exchange && !gyre_http_exchange_is_over(exchange) ? take_over(exchange, fd, respond) : -EPIPE;
  if (error < 0) {
    close(fd);
    rb_syserr_fail(-error, "hijack a connection");
  }
  exchange->hijacked = true;
  gyre_http_exchange_leave_place(exchange);
  gyre_http_exchange_wake_reader(exchange);
  exchange->reader = NULL; /* the reading fiber may never run again */
  return socket;
}
