/*
 * The waits that an unblock may end, found by their fiber: a hash table whose nodes stand in the
 * waits themselves, so that coming and going allocates nothing. Used by the block and unblock hooks
 * (scheduler.c).
 */
#ifndef GYRE_BLOCKED_H
#define GYRE_BLOCKED_H

#include <stddef.h>
#include <stdint.h>

struct gyre_blocked_node {
  struct gyre_blocked_node *next; /* in its bucket */
  uintptr_t fiber;
};

struct gyre_blocked_table {
  struct gyre_blocked_node **buckets;
  unsigned bits; /* there are 2^bits buckets */
  size_t count;
};

/* 0 or -ENOMEM. */
int gyre_blocked_init(struct gyre_blocked_table *table);
void gyre_blocked_free(struct gyre_blocked_table *table);

/* Forgets all; their memory may be gone. */
void gyre_blocked_clear(struct gyre_blocked_table *table);

/* The nodes stand on stacks far apart, so adding touches none but the new one. */
void gyre_blocked_add(struct gyre_blocked_table *table, struct gyre_blocked_node *node, uintptr_t fiber);
/* Harmless when it is not there any more. */
void gyre_blocked_remove(struct gyre_blocked_table *table, struct gyre_blocked_node *node);

/* The newest of the fiber, or NULL. */
struct gyre_blocked_node *gyre_blocked_find(const struct gyre_blocked_table *table, uintptr_t fiber);

#endif
