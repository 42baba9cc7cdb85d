/* A WebSocket's queue of unsent bytes. A frame is stored once for all sockets that have not sent
 * it, so that a broadcast takes the memory of one frame, not of one for each subscriber. Called by
 * connection.c. No ruby.h, no I/O.
 *
 *   block      | frame | frame | frame | free |     counts its slices; freed with the last one
 *   socket 1    [──────────────)                    one slice, because the frames adjoin
 *   socket 2            [───────────────)           has sent the first frame already */
#pragma once

#include "http/admission.h"

#define GYRE_WEBSOCKET_LATEST 4

struct gyre_websocket_block {
  uint32_t slices, length, capacity;
  struct {
    uint32_t from, to;
  } latest[GYRE_WEBSOCKET_LATEST]; /* the frames that were added last, the newest first */
  char bytes[];
};

struct gyre_websocket_slice {
  struct gyre_websocket_block *block; /* NULL: none */
  uint32_t from, to;
};

/* The blocks of an acceptor's sockets. */
struct gyre_websocket_store {
  struct gyre_http_budget *budget; /* counts the blocks' memory */
  void **open;                     /* the block that is appended to, or NULL */
  uint64_t *bytes;                 /* memory of all blocks */
};

struct gyre_websocket_backlog {
  struct gyre_websocket_slice *slices;
  uint32_t first, end, capacity; /* slices from `first` to `end` are used */
  size_t bytes;
};

/* Appends a frame's two pieces without their first `sent` bytes. A shared frame is stored whole,
 * unless it is one of those that were stored last. Returns false if memory is short. */
bool gyre_websocket_backlog_put(struct gyre_websocket_backlog *backlog, const struct gyre_websocket_store *store,
                                struct iovec pieces[2], size_t sent, bool shared);
/* Returns the number of pieces, at most `count`, at the beginning of the backlog. */
int gyre_websocket_backlog_pieces(const struct gyre_websocket_backlog *backlog, struct iovec *pieces, int count);
/* Removes sent bytes, and frees blocks that no socket needs any more. */
void gyre_websocket_backlog_consume(struct gyre_websocket_backlog *backlog, const struct gyre_websocket_store *store,
                                    size_t bytes);
