/* Sends a transport's queue at the turn's end, and the rest when there is room, for writers that do
 * not wait. Called by transport_object.c. Errors stay for the next call. */
#pragma once

#include "fiber/scheduler.h"
#include "net/transport.h"

struct gyre_deferred_send {
  struct gyre_transport *transport;
  VALUE io;                         /* the transport's, whose owner marks it */
  struct gyre_scheduler *scheduler; /* NULL: nothing to send; the transport marks it */
  struct gyre_client client;
  struct gyre_deferred deferred;
  struct gyre_watch watch; /* fd -1: waits for the turn's end */
  /* Called before each attempt, unless NULL; `again`: the socket has taken a part. */
  void (*sending)(struct gyre_deferred_send *sends, bool again);
  /* The owner's pointer to this if an idle owner keeps none: freed and NULL after the last byte. */
  struct gyre_deferred_send **place;
};

void gyre_deferred_send_init(struct gyre_deferred_send *sends, struct gyre_transport *transport, VALUE io);
/* Sends the queue at the turn's end; harmless if already pending. */
void gyre_deferred_send_begin(struct gyre_deferred_send *sends, VALUE owner, struct gyre_scheduler *scheduler);
/* Drops the parent's queue in a forked child. Call before each use. */
void gyre_deferred_send_check(struct gyre_deferred_send *sends);
/* Call before closing the socket and before freeing. */
void gyre_deferred_send_stop(struct gyre_deferred_send *sends);
