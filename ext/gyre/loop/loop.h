/* The loop: watches by descriptor, timers, and one question to the backend a turn. Keeps all books,
 * whatever the backend. Knows no fibers: watches and timers call a function in the loop's
 * thread. */
#pragma once

#include "loop/backend.h"
#include "loop/busy_poll.h"
#include "loop/deferred.h"
#include "loop/lag.h"
#include "loop/list.h"
#include "loop/timers.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GYRE_LOOP_EVENTS 256 /* taken from the kernel at once */

struct gyre_loop;

/* A party's interest in a descriptor, until gyre_loop_unwatch; calls `ready` each time. */
struct gyre_watch {
  struct gyre_watch *next, *previous; /* of the same descriptor */
  struct gyre_list unverified;
  struct gyre_list to_call; /* in loop->to_call or loop->again */
  int fd;                   /* -1 when not watching */
  uint16_t interest;
  uint16_t call_with; /* events to call it with; 0: none */
  void (*ready)(struct gyre_loop *loop, struct gyre_watch *watch, unsigned ready);
};

struct gyre_descriptor {
  struct gyre_watch *first;
  uint32_t generation; /* never 0 once registered */
  uint8_t registered;  /* events last requested from the kernel */
  uint8_t drained;     /* "would block", or moved less than possible, without a report since */
  uint8_t ended;       /* GYRE_READABLE, GYRE_WRITABLE: this side has ended; not reported again */
  uint8_t kind;        /* the holder's; 0 at first */
  uintptr_t holder;    /* IO that last used it, only compared (gyre_loop_held) */
};

struct gyre_loop_statistics {
  uint64_t turns, waits, events;
  uint64_t wakeups; /* wakes by threads, signals and ready fibers */
};

struct gyre_loop {
  const struct gyre_backend_operations *backend;
  void *backend_state;
  struct gyre_timers timers;
  int64_t now_ns;     /* this turn's */
  int64_t virtual_ns; /* a clock that jumps to timers (Gyre::Testing); 0: the real one */
  unsigned outside;   /* work elsewhere in real time, which stops jumps */
  int64_t polled_ns;  /* when the backend last returned */
  int64_t unseen_ns;  /* earliest time of this turn's events; later delays may be the loop's fault */

  struct gyre_descriptor *descriptors; /* by number */
  int descriptor_capacity;
  int watched_count; /* descriptors that are watched */
  struct {
    struct gyre_list watches; /* those trusting an earlier registration */
    int64_t since_ns;         /* since when; 0: verify before the next wait */
  } unverified;
  unsigned in_vain; /* empty answers in a row before sleeps */

  struct gyre_list deferred; /* struct gyre_deferred: runs at the end of the turn */

  struct { /* the backend's last answer */
    struct gyre_event events[GYRE_LOOP_EVENTS];
    int next, count, error;
  } answer;
  struct {
    struct gyre_event event; /* report of an ended watch */
    uint64_t turn;
  } stale;
  struct gyre_list to_call; /* watches to call in this turn */
  struct gyre_list again;   /* watches to call in the next turn */

  struct gyre_list open_node; /* in loop_close.c's list */
  unsigned forks;             /* the same */

  bool waiting; /* without the GVL */
  /* Called before each sleep; false prevents it. Then interrupts prevent or end sleeps, which do
   * not raise them. */
  bool (*sleeping)(struct gyre_loop *loop);
  int woken; /* atomic: the next wait returns at once */
  /* An imminent reply, polled for before the next sleep; or NULL. */
  struct gyre_busy_poll *expected;
  struct gyre_loop_statistics statistics;
  struct gyre_lag lag; /* between calls of the backend, without sleeps */
};

/* Returns 0 or -errno. */
int gyre_loop_open(struct gyre_loop *loop, const struct gyre_backend_operations *backend);
void gyre_loop_close(struct gyre_loop *loop);

/* Starts over in a forked child, without watches and timers; leaves the parent's kernel objects
 * alone. */
int gyre_loop_reopen(struct gyre_loop *loop);

/* Continues in a daemon with watches and timers. Returns 0 or -errno. */
int gyre_loop_move(struct gyre_loop *loop);

/* Begins a watch. Returns 0 or -errno (-EPERM: always ready). Without GYRE_LEVEL it is called for
 * changes, and sometimes without one. */
int gyre_loop_watch(struct gyre_loop *loop, struct gyre_watch *watch, int fd, unsigned interest);

/* Registers it again before the next wait, as its number may be another file's. */
void gyre_loop_ask_again(struct gyre_loop *loop, struct gyre_watch *watch);

/* reports.c: calls the watch once in the next turn, before any sleep. Ignores an unwatched one. */
void gyre_loop_report_again(struct gyre_loop *loop, struct gyre_watch *watch, unsigned ready);

/* Ignores an unwatched one. */
void gyre_loop_unwatch(struct gyre_loop *loop, struct gyre_watch *watch);

/* A call returned "would block": the next readiness will be a change. */
void gyre_loop_drained(struct gyre_loop *loop, int fd, unsigned interest);

/* Resets the entry for a new holder. */
struct gyre_descriptor *gyre_loop_hold(struct gyre_loop *loop, int fd, uintptr_t holder);

/* Returns the entry used by `holder` (an address), as another IO may have had the number; valid
 * until the loop's next call. NULL without memory. */
static inline struct gyre_descriptor *gyre_loop_held(struct gyre_loop *loop, int fd, uintptr_t holder) {
  if (fd >= 0 && fd < loop->descriptor_capacity && loop->descriptors[fd].holder == holder)
    return &loop->descriptors[fd];
  return gyre_loop_hold(loop, fd, holder);
}

/* True if a call is known to block: a watch begun now reports a change. It may be wrong after
 * the holder has reopened the number, or after a read that an urgent mark or passed descriptors cut
 * short. The watch asks the kernel before the loop sleeps; a busy loop asks in milliseconds. */
static inline bool gyre_loop_is_drained(const struct gyre_loop *loop, const struct gyre_descriptor *held,
                                        unsigned interest) {
  if ((held->drained & interest) != interest) return false;
  /* Without EDGE a watch ends with its report, and a new watch reports the present state. */
  return (held->registered & interest) == interest || !(loop->backend->capabilities & GYRE_BACKEND_EDGE);
}

/* The holder's call returned "would block", or moved less than requested, on a stream or pipe. */
static inline void gyre_descriptor_drained(struct gyre_descriptor *held, unsigned interest) {
  held->drained |= (uint8_t)(interest & ~held->ended);
}

/* Ends the registration of `fd` before its close. */
void gyre_loop_forget(struct gyre_loop *loop, int fd);

/* The same unless it is watched. */
static inline void gyre_loop_forget_unwatched(struct gyre_loop *loop, int fd) {
  if (fd >= 0 && fd < loop->descriptor_capacity && !loop->descriptors[fd].first) gyre_loop_forget(loop, fd);
}

/* Drops a closed `fd`'s entry, whose registration on a GYRE_BACKEND_EDGE backend has ended. */
void gyre_loop_closed(struct gyre_loop *loop, int fd);

/* Before a close: calls the watches of `fd`, then forgets it. */
void gyre_loop_abandon(struct gyre_loop *loop, int fd);

/* The same; a backend that holds descriptors open has released this one. */
void gyre_loop_let_go(struct gyre_loop *loop, int fd);

/* Passes begun and ended watches to the kernel now. */
void gyre_loop_hand_over(struct gyre_loop *loop);

/* For loop.c: calls the watches of `fd`; false without any. */
bool gyre_loop_report(struct gyre_loop *loop, int fd, unsigned ready);

/* For loop.c, first in a turn: calls watches left by an exception or to be called again. */
void gyre_loop_report_left(struct gyre_loop *loop);

/* reports.c: calls watches of unnoticedly closed descriptors, as poll(2) finds. */
#define GYRE_CLOSED_BATCH 256 /* watches, at most */
void gyre_loop_report_closed(struct gyre_loop *loop, struct gyre_watch *const *watches, int count);

/* Asks the backend once, first without waiting; gives up the GVL only to wait. Then calls watches
 * and fires timers. Raises pending interrupts. */
void gyre_loop_poll(struct gyre_loop *loop, bool wait);

/* The time of the loop's timers. */
static inline int64_t gyre_loop_now(const struct gyre_loop *loop) {
  return __builtin_expect(loop->virtual_ns != 0, 0) ? loop->virtual_ns : gyre_timers_now();
}

/* A coarse time, up to some milliseconds late. */
static inline int64_t gyre_loop_coarse_now(const struct gyre_loop *loop) {
  return __builtin_expect(loop->virtual_ns != 0, 0) ? loop->virtual_ns : gyre_timers_coarse_now();
}

/* Any thread or signal handler may call it. */
void gyre_loop_wake(struct gyre_loop *loop);
