/* The loop: watches of descriptors, timers, and one poll of the backend per turn. Does the
 * bookkeeping for all backends. Knows nothing of fibers: watches and timers call functions in the
 * loop's thread. */
#pragma once

#include "loop/backend.h"
#include "loop/busy_poll.h"
#include "loop/deferred.h"
#include "loop/lag.h"
#include "loop/timers.h"

#define GYRE_LOOP_EVENTS 256 /* maximum events per poll of the backend */

struct gyre_loop;

/* An interest in a descriptor. Calls `ready` for each report until gyre_loop_unwatch. */
struct gyre_watch {
  struct gyre_watch *next, *previous; /* other watches of the descriptor */
  struct gyre_list unverified;
  struct gyre_list to_call; /* in loop->to_call or loop->again */
  int fd;                   /* -1 when not watching */
  uint16_t interest;
  uint16_t call_with; /* events for the due call of `ready`; 0: no call is due */
  void (*ready)(struct gyre_loop *loop, struct gyre_watch *watch, unsigned ready);
};

struct gyre_descriptor {
  struct gyre_watch *first;
  uint32_t generation; /* never 0 once registered */
  uint8_t registered;  /* events last requested from the kernel */
  uint8_t drained;     /* events not reported since a call gave "would block" or a short count */
  uint8_t ended;       /* sides (GYRE_READABLE, GYRE_WRITABLE) whose end was reported */
  uint8_t kind;        /* the file's probable kind, kept by scheduler_io.c; 0: unknown */
  uintptr_t holder;    /* address of the IO that last used this number; only compared */
};

struct gyre_loop_statistics {
  uint64_t turns, waits, events;
  uint64_t wakeups; /* wake-ups by threads, signals and ready fibers */
};

struct gyre_loop {
  const struct gyre_backend_operations *backend;
  void *backend_state;
  struct gyre_timers timers;
  int64_t now_ns;     /* time of this turn */
  int64_t virtual_ns; /* virtual time, which jumps from timer to timer (Gyre::Testing), or 0 */
  unsigned outside;   /* operations outside the loop; unless 0, virtual time does not jump */
  int64_t polled_ns;  /* when the backend last returned */
  int64_t unseen_ns;  /* earliest possible time of this turn's events */

  struct gyre_descriptor *descriptors; /* by number */
  int descriptor_capacity;
  int watched_count; /* descriptors that have watches */
  struct {
    struct gyre_list watches; /* watches that began without a system call (loop.c) */
    int64_t since_ns;         /* when the oldest of them began; 0: verify before the next wait */
  } unverified;
  unsigned in_vain; /* polls in a row that found nothing and led to a sleep */

  struct gyre_list deferred; /* struct gyre_deferred for the end of the turn */

  struct { /* the backend's last answer */
    struct gyre_event events[GYRE_LOOP_EVENTS];
    int next, count, error;
  } answer;
  struct {
    struct gyre_event event; /* remembered report for an ended registration */
    uint64_t turn;
  } stale;
  struct gyre_list to_call; /* watches to call in this turn */
  struct gyre_list again;   /* watches to call in the next turn */

  struct gyre_list open_node; /* in loop_close.c's list */
  unsigned forks;             /* gyre_forks when it entered that list */

  bool waiting; /* sleeping without the GVL */
  /* Called before each sleep unless NULL; false prevents the sleep. If it is set, Ruby's interrupts
   * prevent or end a sleep, but the sleep does not raise them. */
  bool (*sleeping)(struct gyre_loop *loop);
  void (*sleeps)(struct gyre_loop *loop, bool begins); /* called before and after each sleep unless NULL */
  int woken;                                           /* atomic; if set, the next wait returns at once */
  /* If set, a reply is imminent, and the next sleep first polls for it. */
  struct gyre_busy_poll *expected;
  struct gyre_loop_statistics statistics;
  struct gyre_lag lag; /* time between polls of the backend, sleeps excluded */
};

/* Returns 0 or -errno. */
int gyre_loop_open(struct gyre_loop *loop, const struct gyre_backend_operations *backend);
void gyre_loop_close(struct gyre_loop *loop);

/* Reopens the loop in a forked child and forgets watches and timers. Does not touch the parent's
 * kernel objects. */
int gyre_loop_reopen(struct gyre_loop *loop);

/* Reopens the backend in a daemon; keeps watches and timers. Returns 0 or -errno. */
int gyre_loop_move(struct gyre_loop *loop);

/* Begins a watch. Returns 0 or -errno; -EPERM means that `fd` is always ready. Unless GYRE_LEVEL is
 * given, the watch is called after a change, and sometimes needlessly. */
int gyre_loop_watch(struct gyre_loop *loop, struct gyre_watch *watch, int fd, unsigned interest);

/* Registers the watch again before the next wait: its number may now be another file's. */
void gyre_loop_ask_again(struct gyre_loop *loop, struct gyre_watch *watch);

/* reports.c: calls the watch once in the next turn, before any sleep. Ignores an ended watch. */
void gyre_loop_report_again(struct gyre_loop *loop, struct gyre_watch *watch, unsigned ready);

/* Ends a watch. Ignores an ended watch. */
void gyre_loop_unwatch(struct gyre_loop *loop, struct gyre_watch *watch);

/* Notes that a call returned "would block": the kernel will report a change. */
void gyre_loop_drained(struct gyre_loop *loop, int fd, unsigned interest);

/* Watches for what a call that returned "would block" waits for. Returns 0 or -errno. */
static inline int gyre_loop_await(struct gyre_loop *loop, struct gyre_watch *watch, int fd, unsigned interest) {
  gyre_loop_drained(loop, fd, interest);
  if (watch->fd >= 0 && watch->interest == interest) return 0;
  gyre_loop_unwatch(loop, watch);
  return gyre_loop_watch(loop, watch, fd, interest);
}

/* Resets the descriptor's entry for a new holder. Returns NULL if memory is short. */
struct gyre_descriptor *gyre_loop_hold(struct gyre_loop *loop, int fd, uintptr_t holder);

/* Returns the descriptor's entry, valid until the next call of a loop function. Resets the entry if
 * its holder was not `holder`, the address of an IO. NULL if memory is short. */
static inline struct gyre_descriptor *gyre_loop_held(struct gyre_loop *loop, int fd, uintptr_t holder) {
  if (fd >= 0 && fd < loop->descriptor_capacity && loop->descriptors[fd].holder == holder)
    return &loop->descriptors[fd];
  return gyre_loop_hold(loop, fd, holder);
}

/* True if a read or write is expected to block; a watch that begins now reports the change. This
 * may be wrong if the holder has reopened the number, or if urgent data or passed descriptors cut a
 * read short. The loop corrects the error some milliseconds later. */
static inline bool gyre_loop_is_drained(const struct gyre_loop *loop, const struct gyre_descriptor *held,
                                        unsigned interest) {
  if ((held->drained & interest) != interest) return false;
  /* If the backend lacks GYRE_BACKEND_EDGE, a new watch reports the present state. */
  return (held->registered & interest) == interest || !(loop->backend->capabilities & GYRE_BACKEND_EDGE);
}

/* Notes that the holder's call returned "would block", or a short count on a stream or pipe. */
static inline void gyre_descriptor_drained(struct gyre_descriptor *held, unsigned interest) {
  held->drained |= (uint8_t)(interest & ~held->ended);
}

/* Ends the registration of `fd` before its close. */
void gyre_loop_forget(struct gyre_loop *loop, int fd);

/* Calls gyre_loop_forget unless `fd` has watches. */
static inline void gyre_loop_forget_unwatched(struct gyre_loop *loop, int fd) {
  if (fd >= 0 && fd < loop->descriptor_capacity && !loop->descriptors[fd].first) gyre_loop_forget(loop, fd);
}

/* Forgets the registration of `fd`, which the kernel has ended at the close (GYRE_BACKEND_EDGE). */
void gyre_loop_closed(struct gyre_loop *loop, int fd);

/* Called before a close: calls the watches of `fd`, then ends the registration. */
void gyre_loop_abandon(struct gyre_loop *loop, int fd);

/* Calls gyre_loop_abandon. If the backend keeps files open, it then releases this file at once. */
void gyre_loop_let_go(struct gyre_loop *loop, int fd);

/* Tells the kernel of begun and ended watches now. */
void gyre_loop_hand_over(struct gyre_loop *loop);

/* For loop.c: calls the watches of `fd` that want one of these events. False if there are none. */
bool gyre_loop_report(struct gyre_loop *loop, int fd, unsigned ready);

/* For loop.c: calls watches that an exception skipped, and those of gyre_loop_report_again. */
void gyre_loop_report_left(struct gyre_loop *loop);

/* reports.c: asks poll(2) which of these watches have a closed descriptor, and calls them. */
#define GYRE_CLOSED_BATCH 256 /* maximum `count` */
void gyre_loop_report_closed(struct gyre_loop *loop, struct gyre_watch *const *watches, int count);

/* Polls the backend, first without waiting, then calls watches and fires timers. Gives up the GVL
 * only to wait. May raise Ruby's pending interrupts. */
void gyre_loop_poll(struct gyre_loop *loop, bool wait);

/* Returns the time for timers, which may be virtual. */
static inline int64_t gyre_loop_now(const struct gyre_loop *loop) {
  return __builtin_expect(loop->virtual_ns != 0, 0) ? loop->virtual_ns : gyre_timers_now();
}

/* Like gyre_loop_now, but from a coarse clock: up to some milliseconds late. */
static inline int64_t gyre_loop_coarse_now(const struct gyre_loop *loop) {
  return __builtin_expect(loop->virtual_ns != 0, 0) ? loop->virtual_ns : gyre_timers_coarse_now();
}

/* Ends the present or next wait. Any thread and signal handler may call it. */
void gyre_loop_wake(struct gyre_loop *loop);
