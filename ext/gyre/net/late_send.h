/*
 * Sends what is queued in a transport at the end of the scheduler's turn, and goes on when the
 * socket takes more: for writers that do not wait. Called by transport_object.c. An error stays in
 * the transport's write side, where the next call meets it.
 */
#ifndef GYRE_LATE_SEND_H
#define GYRE_LATE_SEND_H

#include "fiber/scheduler.h"
#include "net/transport.h"

struct gyre_late_send {
  struct gyre_transport *transport;
  VALUE io;                         /* of the transport, whose owner marks it */
  struct gyre_scheduler *scheduler; /* NULL: nothing is to be sent; the transport marks it */
  unsigned forks;                   /* since then the process is another one */
  VALUE owner; /* marked by the scheduler until all is sent; after that the collector may move it */
  struct gyre_client client;
  struct gyre_deferred deferred;
  struct gyre_watch watch; /* fd -1: it waits for the end of the turn */
  /* Called before each attempt, unless it is NULL. `again`: the socket has taken a part. */
  void (*sending)(struct gyre_late_send *late, bool again);
};

void gyre_late_send_init(struct gyre_late_send *late, struct gyre_transport *transport, VALUE io);
/* At the end of this turn. Nothing happens where it waits already. */
void gyre_late_send_begin(struct gyre_late_send *late, VALUE owner, struct gyre_scheduler *scheduler);
/* In a forked child only the scheduler of the thread that forked learns of it: what another one was
 * to send is dropped here. Before each use. */
void gyre_late_send_check(struct gyre_late_send *late);
/* Nothing is sent any more; before the socket closes, and before the memory is freed. */
void gyre_late_send_stop(struct gyre_late_send *late);

#endif
