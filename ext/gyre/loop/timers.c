/* The heap of timers (timers.h). With four children per node it is half as deep as a binary heap,
 * and siblings share a cache line. Entries copy their timers' times: comparing them reads no
 * timer. */
#include "loop/timers.h"

#define ARITY 4

void gyre_timers_init(struct gyre_timers *timers) {
  timers->entries = NULL;
  timers->count = timers->capacity = 0;
}

void gyre_timers_free(struct gyre_timers *timers) {
  free(timers->entries);
  gyre_timers_init(timers);
}

void gyre_timers_cancel_all(struct gyre_timers *timers) {
  while (timers->count) timers->entries[--timers->count].timer->place = 0;
}

int64_t gyre_clock_ns(clockid_t clock) {
  struct timespec time = {0, 0};
  clock_gettime(clock, &time);
  return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

int64_t gyre_timers_now(void) { return gyre_clock_ns(CLOCK_MONOTONIC); }

int64_t gyre_timers_coarse_now(void) {
#ifdef CLOCK_MONOTONIC_COARSE
  return gyre_clock_ns(CLOCK_MONOTONIC_COARSE);
#else
  return gyre_timers_now() / 4000000 * 4000000;
#endif
}

static void place(struct gyre_timers *timers, uint32_t index, struct gyre_timers_entry entry) {
  timers->entries[index] = entry;
  entry.timer->place = index + 1;
}

static void sift_up(struct gyre_timers *timers, uint32_t index, struct gyre_timers_entry entry) {
  while (index > 0) {
    uint32_t parent = (index - 1) / ARITY;
    if (timers->entries[parent].when_ns <= entry.when_ns) break;
    place(timers, index, timers->entries[parent]);
    index = parent;
  }
  place(timers, index, entry);
}

static void sift_down(struct gyre_timers *timers, uint32_t index, struct gyre_timers_entry entry) {
  for (;;) {
    uint64_t first = (uint64_t)index * ARITY + 1;
    if (first >= timers->count) break;
    uint32_t end = first + ARITY < timers->count ? (uint32_t)first + ARITY : timers->count;
    uint32_t least = (uint32_t)first;
    for (uint32_t child = least + 1; child < end; child++) {
      if (timers->entries[child].when_ns < timers->entries[least].when_ns) least = child;
    }
    if (timers->entries[least].when_ns >= entry.when_ns) break;
    place(timers, index, timers->entries[least]);
    index = least;
  }
  place(timers, index, entry);
}

static void settle(struct gyre_timers *timers, uint32_t index, struct gyre_timers_entry entry) {
  if (index > 0 && timers->entries[(index - 1) / ARITY].when_ns > entry.when_ns) {
    sift_up(timers, index, entry);
  } else {
    sift_down(timers, index, entry);
  }
}

int gyre_timers_arm(struct gyre_timers *timers, struct gyre_timer *timer, int64_t when_ns) {
  if (timer->place == 0 && timers->count == timers->capacity) {
    if (timers->capacity > UINT32_MAX / 2 / sizeof(struct gyre_timers_entry)) return -ENOMEM;
    uint32_t capacity = timers->capacity ? timers->capacity * 2 : 64;
    struct gyre_timers_entry *entries = realloc(timers->entries, capacity * sizeof(*entries));
    if (!entries) return -ENOMEM;
    timers->entries = entries;
    timers->capacity = capacity;
  }

  struct gyre_timers_entry entry = {when_ns, timer};
  timer->when_ns = when_ns;
  if (timer->place) {
    settle(timers, timer->place - 1, entry);
  } else {
    sift_up(timers, timers->count++, entry);
  }
  return 0;
}

void gyre_timers_cancel(struct gyre_timers *timers, struct gyre_timer *timer) {
  if (timer->place == 0) return;
  uint32_t index = timer->place - 1;
  timer->place = 0;
  struct gyre_timers_entry last = timers->entries[--timers->count];
  if (index < timers->count) settle(timers, index, last);
}

int64_t gyre_timers_next(const struct gyre_timers *timers) { return timers->count ? timers->entries[0].when_ns : -1; }

uint32_t gyre_timers_fire(struct gyre_timers *timers, int64_t now_ns, void *context) {
  uint32_t fired = 0;
  for (uint32_t most = timers->count; fired < most && timers->count; fired++) {
    struct gyre_timer *timer = timers->entries[0].timer;
    if (timers->entries[0].when_ns > now_ns) break;
    gyre_timers_cancel(timers, timer);
    timer->fire(timer, context);
  }
  return fired;
}
