/* Timers in a 4-ary heap. Their owners embed them, so only the heap's array is allocated. */
#pragma once

#include "feature.h"

#include <time.h>

struct gyre_timer {
  int64_t when_ns;
  uint32_t place; /* position in the heap, from 1; 0 if not armed */
  void (*fire)(struct gyre_timer *timer, void *context);
};

struct gyre_timers_entry {
  int64_t when_ns;
  struct gyre_timer *timer;
};

struct gyre_timers {
  struct gyre_timers_entry *entries;
  uint32_t count, capacity;
};

void gyre_timers_init(struct gyre_timers *timers);
void gyre_timers_free(struct gyre_timers *timers);

/* Disarms all timers, which may outlive the heap. */
void gyre_timers_cancel_all(struct gyre_timers *timers);

/* Nanoseconds of a clock; 0 if the system does not have it. */
int64_t gyre_clock_ns(clockid_t clock);

/* Monotonic time in nanoseconds. */
int64_t gyre_timers_now(void);

/* Monotonic time from a cheap clock that ticks every few milliseconds, if the system has one. */
int64_t gyre_timers_coarse_now(void);

/* Arms or moves the timer. Returns 0. If memory is short, returns -ENOMEM and changes nothing. */
int gyre_timers_arm(struct gyre_timers *timers, struct gyre_timer *timer, int64_t when_ns);

/* Disarms the timer, if it is armed. */
void gyre_timers_cancel(struct gyre_timers *timers, struct gyre_timer *timer);

static inline bool gyre_timer_armed(const struct gyre_timer *timer) { return timer->place != 0; }

/* Returns when the next timer is due; -1 if there is none. */
int64_t gyre_timers_next(const struct gyre_timers *timers);

/* Fires due timers, at most as many as are armed when it begins. Returns their number. */
uint32_t gyre_timers_fire(struct gyre_timers *timers, int64_t now_ns, void *context);
