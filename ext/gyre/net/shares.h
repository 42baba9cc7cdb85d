/* Counts shared by processes that accept from the same sockets: connections, and whether a process
 * watches its sockets. A parent maps the memory for its forks. The acceptor asks before it takes a
 * connection from a process with far fewer. No ruby.h. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define GYRE_SHARES_COUNT 128u

struct gyre_share;

/* One process's view. */
struct gyre_shares {
  struct gyre_share *own; /* NULL: knows no others */
  int process;
  struct {
    enum { GYRE_SHARE_KNOWN, GYRE_SHARE_AWAITED, GYRE_SHARE_GIVEN_UP } state;
    unsigned signs; /* its signs at the last wait; unchanged: not awaited */
  } others[GYRE_SHARES_COUNT];
};

/* Maps the memory once. Returns 0 or -errno. */
int gyre_shares_map(void);
/* Gives this process its place (0, 1, …). A process without a place knows no others. */
void gyre_shares_place(unsigned number);
void gyre_shares_join(struct gyre_shares *shares);
void gyre_shares_leave(struct gyre_shares *shares);
/* Publishes this process's number of connections. */
void gyre_shares_tell(struct gyre_shares *shares, uint32_t open);
/* Publishes that this process has looked at its sockets. */
void gyre_shares_sign(struct gyre_shares *shares);
/* True if a process with far fewer connections should go first. */
bool gyre_shares_others_first(struct gyre_shares *shares, uint32_t open);
/* The wait is over. */
void gyre_shares_waited(struct gyre_shares *shares);
