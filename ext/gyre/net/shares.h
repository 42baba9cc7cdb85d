/* Counters shared by processes that accept from the same sockets: each process's connections, and
 * how often it looked at its sockets. A parent maps the memory before it forks. The acceptor lets a
 * process with far fewer connections go first. No ruby.h. */
#pragma once

#include "feature.h"

#define GYRE_SHARES_COUNT 128u

struct gyre_share;

/* One acceptor's view of all processes. */
struct gyre_shares {
  struct gyre_share *own; /* NULL: this process has no place */
  int process;
  struct {
    enum { GYRE_SHARE_KNOWN, GYRE_SHARE_AWAITED, GYRE_SHARE_GIVEN_UP } state;
    unsigned signs; /* the process's count when last awaited; GIVEN_UP lasts until it changes */
  } others[GYRE_SHARES_COUNT];
};

/* Maps the memory once. Returns 0 or -errno. */
int gyre_shares_map(void);
/* Gives this process its place (0, 1, …). A process that has no place does not take part. */
void gyre_shares_place(unsigned number);
void gyre_shares_join(struct gyre_shares *shares);
void gyre_shares_leave(struct gyre_shares *shares);
/* Publishes this process's number of connections. */
void gyre_shares_tell(struct gyre_shares *shares, uint32_t open);
/* Publishes that this process has looked at its sockets. */
void gyre_shares_sign(struct gyre_shares *shares);
/* True if a process with far fewer connections should go first. */
bool gyre_shares_others_first(struct gyre_shares *shares, uint32_t open);
/* Call after the pause. Gives up on awaited processes that have not looked at their sockets. */
void gyre_shares_waited(struct gyre_shares *shares);
