/*
 * Sends a transport's queue at the end of the scheduler's turn, and the rest when the socket has
 * room, for writers that do not wait. Called by transport_object.c. An error stays in the write
 * side for the next call.
 */
#ifndef GYRE_DEFERRED_SEND_H
#define GYRE_DEFERRED_SEND_H

#include "fiber/scheduler.h"
#include "net/transport.h"

struct gyre_deferred_send {
  struct gyre_transport *transport;
  VALUE io;                         /* of the transport, whose owner marks it */
  struct gyre_scheduler *scheduler; /* NULL: nothing to send; the transport marks it */
  unsigned forks;                   /* a different number means another process */
  VALUE owner;                      /* marked by the scheduler until all is sent, then movable */
  struct gyre_client client;
  struct gyre_deferred deferred;
  struct gyre_watch watch; /* fd -1: waits for the end of the turn */
  /* Called before each attempt, unless NULL; `again`: the socket has taken a part. */
  void (*sending)(struct gyre_deferred_send *sends, bool again);
  /* The owner's pointer to this if an idle owner keeps none: freed and NULL after the last byte. */
  struct gyre_deferred_send **place;
};

void gyre_deferred_send_init(struct gyre_deferred_send *sends, struct gyre_transport *transport, VALUE io);
/* Has the queue sent at the end of this turn. Harmless if that is pending already. */
void gyre_deferred_send_begin(struct gyre_deferred_send *sends, VALUE owner, struct gyre_scheduler *scheduler);
/* In a forked child, drops a queue that the parent sends. Call before each use. */
void gyre_deferred_send_check(struct gyre_deferred_send *sends);
/* Stops sending. Call before closing the socket and before freeing the memory. */
void gyre_deferred_send_stop(struct gyre_deferred_send *sends);

#endif
