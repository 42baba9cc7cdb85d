/* Sends a transport's queue at the turn's end, and the rest when the socket has room. Used by
 * Gyre::Transport and memcached. Never raises: the writer's next call reports an error. */
#pragma once

#include "fiber/scheduler.h"
#include "net/transport.h"

struct gyre_deferred_send {
  struct gyre_transport *transport;
  VALUE io;                         /* the transport's socket; the owner marks it */
  struct gyre_scheduler *scheduler; /* NULL: nothing to send; the owner marks it */
  struct gyre_client client;
  struct gyre_deferred deferred;
  struct gyre_watch watch; /* fd -1: does not wait for room */
  /* Called before each attempt, unless NULL. `again`: an earlier attempt has filled the socket. */
  void (*sending)(struct gyre_deferred_send *sends, bool again);
  /* Where the owner points to this struct; NULL if the owner embeds it. If nothing is left to send
   * at the turn's end, the struct is freed and `*place` becomes NULL. */
  struct gyre_deferred_send **place;
};

void gyre_deferred_send_init(struct gyre_deferred_send *sends, struct gyre_transport *transport, VALUE io);
/* Sends the queue at the turn's end. Does nothing if sending is already pending. */
void gyre_deferred_send_begin(struct gyre_deferred_send *sends, VALUE owner, struct gyre_scheduler *scheduler);
/* In a forked child, drops the parent's queue. Call it before each use. */
void gyre_deferred_send_check(struct gyre_deferred_send *sends);
/* Stops sending. Call it before the socket is closed, and before the struct is freed. */
void gyre_deferred_send_stop(struct gyre_deferred_send *sends);
