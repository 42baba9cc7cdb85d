/*
 * Counts shared by processes that accept from the same sockets: each process's connections, and
 * whether it watches its sockets. A parent maps the memory and its forks inherit it; each process
 * writes its own part. The acceptor asks before taking a connection that a process with far fewer
 * may take. No ruby.h.
 */
#ifndef GYRE_NET_SHARES_H
#define GYRE_NET_SHARES_H

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
    unsigned signs; /* its number of signs at the last wait; a process that has given none since is not awaited */
  } others[GYRE_SHARES_COUNT];
};

/* Maps the memory, for this process and its forks; once. Returns 0 or -errno. */
int gyre_shares_map(void);
/* Gives this process a place, from 0 on. Knows no other processes without a place or the memory. */
void gyre_shares_place(unsigned number);
void gyre_shares_join(struct gyre_shares *shares);
void gyre_shares_leave(struct gyre_shares *shares);
/* Tells the other processes how many connections this one has. */
void gyre_shares_tell(struct gyre_shares *shares, uint32_t open);
/* Tells the other processes that this one has just looked at its sockets. */
void gyre_shares_sign(struct gyre_shares *shares);
/* True if a process with far fewer connections is worth waiting for. */
bool gyre_shares_others_first(struct gyre_shares *shares, uint32_t open);
/* The wait is over. */
void gyre_shares_waited(struct gyre_shares *shares);

#endif
