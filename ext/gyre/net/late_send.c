/*
 * Sending without a writer that waits (see late_send.h).
 */
#include "net/late_send.h"
#include "loop/forks.h"
#include "net/socket_wait.h"

#include <errno.h>

/* What is left for the socket to take is watched for; it is closed, empty or broken otherwise, and
 * that was all. */
static void send_on(struct gyre_late_send *late) {
  struct gyre_transport *transport = late->transport;
  struct gyre_loop *loop = &late->scheduler->loop;
  if (late->sending) late->sending(late, late->watch.fd >= 0);
  int error = gyre_socket_is_open(late->io, transport->fd) ? gyre_transport_flush(transport) : -EBADF;
  if (error == -EAGAIN) {
    gyre_loop_drained(loop, transport->fd, transport->write.wants);
    if (late->watch.fd >= 0 && late->watch.interest == transport->write.wants) return;
    gyre_loop_unwatch(loop, &late->watch);
    if (gyre_loop_watch(loop, &late->watch, transport->fd, transport->write.wants) == 0) return;
  }
  gyre_late_send_stop(late);
}

static void at_the_end(struct gyre_loop *loop, struct gyre_deferred *deferred) {
  (void)loop;
  send_on(GYRE_CONTAINER(deferred, struct gyre_late_send, deferred));
}

static void ready_to_send(struct gyre_loop *loop, struct gyre_watch *watch, unsigned ready) {
  (void)loop;
  (void)ready;
  send_on(GYRE_CONTAINER(watch, struct gyre_late_send, watch));
}

static void mark(struct gyre_client *client) {
  rb_gc_mark(GYRE_CONTAINER(client, struct gyre_late_send, client)->owner);
}

static void closing(struct gyre_client *client) {
  gyre_late_send_stop(GYRE_CONTAINER(client, struct gyre_late_send, client));
}

static void forked(struct gyre_client *client) {
  gyre_late_send_check(GYRE_CONTAINER(client, struct gyre_late_send, client));
}

void gyre_late_send_init(struct gyre_late_send *late, struct gyre_transport *transport, VALUE io) {
  *late = (struct gyre_late_send){
      .transport = transport,
      .io = io,
      .client = {.mark = mark, .closing = closing, .forked = forked},
      .watch = {.fd = -1, .ready = ready_to_send},
  };
  gyre_list_init(&late->client.node);
  gyre_deferred_init(&late->deferred, at_the_end);
}

void gyre_late_send_begin(struct gyre_late_send *late, VALUE owner, struct gyre_scheduler *scheduler) {
  if (late->scheduler) return;
  late->owner = owner;
  late->scheduler = scheduler;
  late->forks = gyre_forks;
  gyre_list_append(&scheduler->clients, &late->client.node);
  gyre_loop_defer(&scheduler->loop, &late->deferred);
}

/* What is queued is the parent's to send. Watches stay where they are: beside them are those of
 * fibers whose stacks a child does not have. */
void gyre_late_send_check(struct gyre_late_send *late) {
  if (!late->scheduler || late->forks == gyre_forks) return;
  late->watch.fd = -1;
  gyre_bytes_free(&late->transport->output);
  gyre_late_send_stop(late);
}

void gyre_late_send_stop(struct gyre_late_send *late) {
  if (!late->scheduler) return;
  gyre_deferred_cancel(&late->deferred);
  gyre_loop_unwatch(&late->scheduler->loop, &late->watch);
  gyre_list_remove(&late->client.node);
  late->scheduler = NULL;
}
