/*
 * What the files of Gyre::Transport share: transport_object.c has its life and the calls that wait,
 * transport_available.c those that never do.
 */
#ifndef GYRE_TRANSPORT_OBJECT_H
#define GYRE_TRANSPORT_OBJECT_H

#include "gyre.h"
#include "net/late_send.h"
#include "net/transport.h"

struct gyre_transport_object {
  struct gyre_transport transport;
  VALUE io; /* the socket, which Ruby closes; nil before initialize */
  VALUE peer;
  VALUE context;
  VALUE read_timeout, write_timeout; /* seconds or nil */
  VALUE read_turn, write_turn;       /* Gyre::Transport::Turn, once a reader or writer has waited */
  uint64_t file_bytes;               /* sent, and never queued */
  uint32_t writers;                  /* that wait, or were interrupted while they did */
  uint32_t turn_waiters;             /* callers that wait for one of the turns */
  struct gyre_late_send *late;       /* NULL before the first << */
};

/* Raises IOError once it is closed, by whatever means. */
struct gyre_transport_object *gyre_transport_object_get(VALUE self);
/* Raises what -errno means here; `what` was tried. */
NORETURN(void gyre_transport_object_fail(struct gyre_transport_object *object, int error, const char *what));
/* A limit of bytes as callers give it. */
long gyre_transport_object_limit(VALUE value);
/* Bytes of the input, which has so many. */
VALUE gyre_transport_object_take(struct gyre_transport_object *object, size_t length);

#endif
