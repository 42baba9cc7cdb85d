/* Waits that an unblock may end, by fiber: a hash table with nodes inside the waits, so that it
 * allocates nothing. Used by scheduler_block.c. */
#pragma once

#include <stddef.h>
#include <stdint.h>

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

/* Forgets all nodes, maybe already freed. */
void gyre_blocked_clear(struct gyre_blocked_table *table);

/* Touches no other node, as stacks are far apart. */
void gyre_blocked_add(struct gyre_blocked_table *table, struct gyre_blocked_node *node, uintptr_t fiber);
/* Ignores a missing node. */
void gyre_blocked_remove(struct gyre_blocked_table *table, struct gyre_blocked_node *node);

/* Returns the fiber's newest, or NULL. */
struct gyre_blocked_node *gyre_blocked_find(const struct gyre_blocked_table *table, uintptr_t fiber);
