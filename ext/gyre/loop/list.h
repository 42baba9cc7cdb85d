/* An intrusive, circular list: members embed a node; linking never allocates or fails. An unlinked
 * node points to itself, so removing it again is harmless. */
#pragma once

#include "feature.h"

struct gyre_list {
  struct gyre_list *next, *previous;
};

#define GYRE_CONTAINER(node, type, member) ((type *)((char *)(node)-offsetof(type, member)))

/* Runs the body for each list member, a `type` whose node is `member`. The body may unlink it. */
#define GYRE_EACH(type, variable, list, member)                                                                        \
  for (type *variable = GYRE_CONTAINER((list)->next, type, member), *following_##variable;                             \
       following_##variable = GYRE_CONTAINER(variable->member.next, type, member), &variable->member != (list);        \
       variable = following_##variable)

static inline void gyre_list_init(struct gyre_list *list) { list->next = list->previous = list; }

static inline bool gyre_list_empty(const struct gyre_list *list) { return list->next == list; }

static inline void gyre_list_append(struct gyre_list *list, struct gyre_list *node) {
  node->previous = list->previous;
  node->next = list;
  list->previous->next = node;
  list->previous = node;
}

static inline void gyre_list_prepend(struct gyre_list *list, struct gyre_list *node) {
  gyre_list_append(list->next, node);
}

/* Appends the members of `from`, which is empty afterwards. */
static inline void gyre_list_splice(struct gyre_list *list, struct gyre_list *from) {
  if (gyre_list_empty(from)) return;
  from->next->previous = list->previous;
  list->previous->next = from->next;
  from->previous->next = list;
  list->previous = from->previous;
  gyre_list_init(from);
}

static inline void gyre_list_remove(struct gyre_list *node) {
  node->next->previous = node->previous;
  node->previous->next = node->next;
  gyre_list_init(node);
}

/* Runs the body for the first member, which the body must unlink, until the list is empty. */
#define GYRE_EACH_FIRST(type, variable, list, member)                                                                  \
  for (type * variable; !gyre_list_empty(list) && (variable = GYRE_CONTAINER((list)->next, type, member), true);)

/* The same, but unlinks the member before the body. */
#define GYRE_EACH_TAKEN(type, variable, list, member)                                                                  \
  for (type * variable; !gyre_list_empty(list) && (variable = GYRE_CONTAINER((list)->next, type, member),              \
                                                  gyre_list_remove(&variable->member), true);)
