/*
 * The table of blocked fibers (see blocked.h). It doubles when there are more nodes than buckets, and stays as it is where
 * there is no memory for that.
 */
#include "fiber/blocked.h"

#include <errno.h>
#include <stdlib.h>

#define FIRST_BITS 6

/* Addresses of Ruby objects differ in their middle bits: multiplying by 2^64 divided by the golden ratio brings these up. */
static struct gyre_list *bucket(const struct gyre_blocked_table *table, uintptr_t fiber) {
  return &table->buckets[(uint64_t)fiber * UINT64_C(0x9E3779B97F4A7C15) >> (64 - table->bits)];
}

static struct gyre_list *new_buckets(unsigned bits) {
  size_t count = (size_t)1 << bits;
  struct gyre_list *buckets = malloc(count * sizeof(*buckets));
  if (!buckets) return NULL;
  for (size_t i = 0; i < count; i++) gyre_list_init(&buckets[i]);
  return buckets;
}

int gyre_blocked_init(struct gyre_blocked_table *table) {
  table->bits = FIRST_BITS;
  table->count = 0;
  table->buckets = new_buckets(table->bits);
  return table->buckets ? 0 : -ENOMEM;
}

void gyre_blocked_free(struct gyre_blocked_table *table) {
  free(table->buckets);
  table->buckets = NULL;
}

void gyre_blocked_clear(struct gyre_blocked_table *table) {
  for (size_t i = 0; i < (size_t)1 << table->bits; i++) gyre_list_init(&table->buckets[i]);
  table->count = 0;
}

static void grow(struct gyre_blocked_table *table) {
  struct gyre_blocked_table larger = {new_buckets(table->bits + 1), table->bits + 1, table->count};
  if (!larger.buckets) return;
  for (size_t i = 0; i < (size_t)1 << table->bits; i++) {
    struct gyre_list *old = &table->buckets[i];
    while (!gyre_list_empty(old)) { /* from the end, so that the newest comes first again */
      struct gyre_blocked_node *node = GYRE_CONTAINER(old->previous, struct gyre_blocked_node, link);
      gyre_list_remove(&node->link);
      gyre_list_prepend(bucket(&larger, node->fiber), &node->link);
    }
  }
  free(table->buckets);
  *table = larger;
}

void gyre_blocked_add(struct gyre_blocked_table *table, struct gyre_blocked_node *node, uintptr_t fiber) {
  if (table->count >> table->bits) grow(table);
  node->fiber = fiber;
  gyre_list_prepend(bucket(table, fiber), &node->link);
  table->count++;
}

void gyre_blocked_remove(struct gyre_blocked_table *table, struct gyre_blocked_node *node) {
  if (gyre_list_empty(&node->link)) return;
  gyre_list_remove(&node->link);
  table->count--;
}

struct gyre_blocked_node *gyre_blocked_find(const struct gyre_blocked_table *table, uintptr_t fiber) {
  const struct gyre_list *head = bucket(table, fiber);
  for (struct gyre_list *link = head->next; link != head; link = link->next) {
    struct gyre_blocked_node *node = GYRE_CONTAINER(link, struct gyre_blocked_node, link);
    if (node->fiber == fiber) return node;
  }
  return NULL;
}
