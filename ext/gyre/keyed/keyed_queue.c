/* A keyed loop's queue of events (keyed_loop.h): a ring. Filled by keyed_watch.c and the program;
 * keyed_loop.c takes events. */
#include "keyed/keyed_loop.h"

#include <stdlib.h>

void gyre_keyed_reserve(struct gyre_keyed *keyed, size_t more) {
  size_t needed = keyed->count + keyed->watch_count + more;
  if (needed <= keyed->capacity) return;
  size_t capacity = keyed->capacity ? keyed->capacity : 64;
  while (capacity < needed) {
    if (capacity > SIZE_MAX / 2 / sizeof(struct gyre_keyed_event)) rb_memerror();
    capacity *= 2;
  }
  struct gyre_keyed_event *events = malloc(capacity * sizeof(*events));
  if (!events) rb_memerror();
  for (size_t i = 0; i < keyed->count; i++) events[i] = keyed->events[(keyed->first + i) & (keyed->capacity - 1)];
  free(keyed->events);
  keyed->events = events;
  keyed->first = 0;
  keyed->capacity = capacity;
}

void gyre_keyed_push(struct gyre_keyed *keyed, VALUE key, VALUE helper, struct gyre_keyed_watch *watch) {
  keyed->events[(keyed->first + keyed->count++) & (keyed->capacity - 1)] =
      (struct gyre_keyed_event){key, helper, watch};
  gyre_keyed_wake_one(keyed);
}

void gyre_keyed_wake_one(struct gyre_keyed *keyed) {
  if (keyed->own.waiting) gyre_loop_wake(&keyed->own);
  if (gyre_list_empty(&keyed->waiters)) return;
  struct gyre_keyed_waiter *waiter = GYRE_CONTAINER(keyed->waiters.next, struct gyre_keyed_waiter, node);
  gyre_wake(waiter->wait.scheduler, &waiter->wait.parked);
}

void gyre_keyed_wake(struct gyre_keyed *keyed) {
  if (keyed->own.waiting) gyre_loop_wake(&keyed->own);
  GYRE_EACH(struct gyre_keyed_waiter, waiter, &keyed->waiters, node) {
    gyre_wake(waiter->wait.scheduler, &waiter->wait.parked);
  }
}
