/* Sends for writers that do not wait (deferred_send.h). */
#include "net/deferred_send.h"
#include "loop/forks.h"
#include "net/socket_wait.h"

/* Sends the queue. If the socket is full, watches for room for the rest. */
static void send_on(struct gyre_deferred_send *sends) {
  struct gyre_transport *transport = sends->transport;
  struct gyre_loop *loop = &sends->scheduler->loop;
  if (sends->sending) sends->sending(sends, sends->watch.fd >= 0);
  int error = gyre_socket_is_open(sends->io, transport->fd) ? gyre_transport_flush(transport) : -EBADF;
  if (error == -EAGAIN) {
    if (gyre_loop_await(loop, &sends->watch, transport->fd, transport->write.wants) == 0) return;
  }
  gyre_deferred_send_stop(sends);
}

static void at_the_end(struct gyre_loop *loop, struct gyre_deferred *deferred) {
  struct gyre_deferred_send *sends = GYRE_CONTAINER(deferred, struct gyre_deferred_send, deferred);
  send_on(sends);
  if (sends->scheduler || !sends->place) return;
  *sends->place = NULL;
  xfree(sends);
}

static void ready_to_send(struct gyre_loop *loop, struct gyre_watch *watch, unsigned ready) {
  send_on(GYRE_CONTAINER(watch, struct gyre_deferred_send, watch));
}

static void closing(struct gyre_client *client) {
  gyre_deferred_send_stop(GYRE_CONTAINER(client, struct gyre_deferred_send, client));
}

static void forked(struct gyre_client *client) {
  gyre_deferred_send_check(GYRE_CONTAINER(client, struct gyre_deferred_send, client));
}

void gyre_deferred_send_init(struct gyre_deferred_send *sends, struct gyre_transport *transport, VALUE io) {
  *sends = (struct gyre_deferred_send){
      .transport = transport,
      .io = io,
      .client = {.closing = closing, .forked = forked},
      .watch = {.fd = -1, .ready = ready_to_send},
  };
  gyre_list_init(&sends->client.node);
  gyre_deferred_init(&sends->deferred, at_the_end);
}

void gyre_deferred_send_begin(struct gyre_deferred_send *sends, VALUE owner, struct gyre_scheduler *scheduler) {
  if (sends->scheduler) return;
  sends->client.self = owner;
  sends->scheduler = scheduler;
  sends->client.forks = gyre_forks;
  gyre_list_append(&scheduler->clients, &sends->client.node);
  gyre_loop_defer(&scheduler->loop, &sends->deferred);
}

/* Drops the parent's queue. Does not unlink the watch, because its neighbours in the list may be on
 * stacks of fibers that a child does not have. */
void gyre_deferred_send_check(struct gyre_deferred_send *sends) {
  if (!sends->scheduler || sends->client.forks == gyre_forks) return;
  sends->watch.fd = -1;
  gyre_bytes_free(&sends->transport->output);
  gyre_deferred_send_stop(sends);
}

void gyre_deferred_send_stop(struct gyre_deferred_send *sends) {
  if (!sends->scheduler) return;
  gyre_deferred_cancel(&sends->deferred);
  gyre_loop_unwatch(&sends->scheduler->loop, &sends->watch);
  gyre_list_remove(&sends->client.node);
  sends->scheduler = NULL;
}
