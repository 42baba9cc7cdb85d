/* The table of nodes by fiber (blocked.h). Grows with the nodes, unless memory is short. */
#include "fiber/blocked.h"

#define FIRST_BITS 6
#define GROWTH_BITS 2 /* makes the table four times larger: growing is slow, so it should be rare */

/* Objects' addresses differ in their middle bits. Multiplying by 2^64 / golden ratio moves these
 * bits to the top, which selects the bucket. */
static struct gyre_blocked_node **bucket(const struct gyre_blocked_table *table, uintptr_t fiber) {
  return &table->buckets[(uint64_t)fiber * UINT64_C(0x9E3779B97F4A7C15) >> (64 - table->bits)];
}

int gyre_blocked_init(struct gyre_blocked_table *table) {
  table->bits = FIRST_BITS;
  table->count = 0;
  table->buckets = calloc((size_t)1 << table->bits, sizeof(*table->buckets));
  return table->buckets ? 0 : -ENOMEM;
}

void gyre_blocked_free(struct gyre_blocked_table *table) {
  free(table->buckets);
  table->buckets = NULL;
}

void gyre_blocked_clear(struct gyre_blocked_table *table) {
  memset(table->buckets, 0, sizeof(*table->buckets) << table->bits);
  table->count = 0;
}

/* Keeps the order of a fiber's nodes: walks each chain from its start and appends. */
static void grow(struct gyre_blocked_table *table) {
  struct gyre_blocked_table larger = {.bits = table->bits + GROWTH_BITS, .count = table->count};
  larger.buckets = calloc((size_t)1 << larger.bits, sizeof(*larger.buckets));
  if (!larger.buckets) return;
  for (size_t i = 0; i < (size_t)1 << table->bits; i++) {
    for (struct gyre_blocked_node *node = table->buckets[i], *next; node; node = next) {
      struct gyre_blocked_node **place = bucket(&larger, node->fiber);
      while (*place) place = &(*place)->next;
      next = node->next;
      node->next = NULL;
      *place = node;
    }
  }
  free(table->buckets);
  *table = larger;
}

void gyre_blocked_add(struct gyre_blocked_table *table, struct gyre_blocked_node *node, uintptr_t fiber) {
  if (table->count >> table->bits) grow(table);
  struct gyre_blocked_node **first = bucket(table, fiber);
  node->fiber = fiber;
  node->next = *first;
  *first = node;
  table->count++;
}

void gyre_blocked_remove(struct gyre_blocked_table *table, struct gyre_blocked_node *node) {
  struct gyre_blocked_node **place = bucket(table, node->fiber);
  while (*place && *place != node) place = &(*place)->next;
  if (!*place) return;
  *place = node->next;
  table->count--;
}

struct gyre_blocked_node *gyre_blocked_find(const struct gyre_blocked_table *table, uintptr_t fiber) {
  struct gyre_blocked_node *node = *bucket(table, fiber);
  while (node && node->fiber != fiber) node = node->next;
  return node;
}
