/*
 * What processes that accept from the same sockets know of each other: how many connections each
 * has, and whether it looks at its sockets at all. The numbers are in memory that a parent maps and
 * its forks inherit; each process writes its own. The acceptor asks before it takes a connection
 * that a process with far fewer may take. No ruby.h.
 */
#ifndef GYRE_NET_SHARES_H
#define GYRE_NET_SHARES_H

#include <stdbool.h>
#include <stdint.h>

#define GYRE_SHARES_COUNT 128u

struct gyre_share;

/* As one process has them. */
struct gyre_shares {
  struct gyre_share *own; /* NULL: it knows of no others */
  int process;
  struct {
    enum { GYRE_SHARE_KNOWN, GYRE_SHARE_AWAITED, GYRE_SHARE_GIVEN_UP } state;
    unsigned signs; /* when it was awaited: it is given up until it shows another one */
  } others[GYRE_SHARES_COUNT];
};

/* Maps the memory, for this process and its forks; once. 0 or -errno. */
int gyre_shares_map(void);
/* This process has a place, from 0 on. Without that or the memory it knows of none. */
void gyre_shares_place(unsigned number);
void gyre_shares_join(struct gyre_shares *shares);
void gyre_shares_leave(struct gyre_shares *shares);
/* This process has so many connections. */
void gyre_shares_tell(struct gyre_shares *shares, uint32_t open);
/* This process looks at its sockets. */
void gyre_shares_sign(struct gyre_shares *shares);
/* Whether a process with far fewer connections is worth waiting for. */
bool gyre_shares_others_first(struct gyre_shares *shares, uint32_t open);
/* That wait is over. */
void gyre_shares_waited(struct gyre_shares *shares);

#endif
