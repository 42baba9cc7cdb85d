/* Shared by Gyre::Transport's files: transport_object.c (life, waiting calls) and
 * transport_available.c (calls that never wait). */
#pragma once

#include "net/deferred_send.h"

struct gyre_transport_object {
  struct gyre_transport transport;
  VALUE io; /* the socket, which Ruby closes; nil before initialize */
  VALUE peer;
  VALUE judge;                       /* judges the peer's certificates, or nil */
  VALUE read_timeout, write_timeout; /* seconds or nil */
  VALUE read_turn, write_turn;       /* Gyre::Transport::Turn, or nil before the first wait */
  uint64_t file_bytes;               /* sent bytes of files, which are never queued */
  uint32_t writers;                  /* writers waiting, or interrupted while waiting */
  uint32_t turn_waiters;             /* number of callers waiting for a turn */
  struct gyre_deferred_send *sends;  /* NULL while idle */
};

/* Raises IOError if the transport is closed. */
struct gyre_transport_object *gyre_transport_object_get(VALUE self);
/* Raises the exception for -errno `error`. `what`: the failed action. */
NORETURN(void gyre_transport_object_fail(struct gyre_transport_object *object, int error, const char *what));
/* Converts a number of bytes. Raises ArgumentError unless it is positive. */
long gyre_transport_object_limit(VALUE value);
/* True if receiving would return -EAGAIN: wait before receiving. */
bool gyre_transport_object_is_drained(struct gyre_transport_object *object);
/* Removes and returns `length` bytes of the input, which must have as many. */
VALUE gyre_transport_object_take(struct gyre_transport_object *object, size_t length);
