/* A hash table of nodes by fiber: waits that an unblock may end (scheduler_block.c), and the pool's
 * workers (workers.c). Nodes are embedded in their owners, so only the buckets are allocated. */
#pragma once

#include "feature.h"

struct gyre_blocked_node {
  struct gyre_blocked_node *next; /* in its bucket */
  uintptr_t fiber;
};

struct gyre_blocked_table {
  struct gyre_blocked_node **buckets;
  unsigned bits; /* 2^bits buckets */
  size_t count;
};

int gyre_blocked_init(struct gyre_blocked_table *table);
void gyre_blocked_free(struct gyre_blocked_table *table);

/* Forgets all nodes. Does not touch them: they may be freed already. */
void gyre_blocked_clear(struct gyre_blocked_table *table);

/* Adds a node. Usually reads no other node: those are on other stacks, probably uncached. */
void gyre_blocked_add(struct gyre_blocked_table *table, struct gyre_blocked_node *node, uintptr_t fiber);
/* Removes a node, if it is in the table. */
void gyre_blocked_remove(struct gyre_blocked_table *table, struct gyre_blocked_node *node);

/* Returns the fiber's newest node, or NULL. */
struct gyre_blocked_node *gyre_blocked_find(const struct gyre_blocked_table *table, uintptr_t fiber);
