/* The loop: watches by descriptor, timers, and one question to the backend a turn. All bookkeeping
 * is here, whatever the backend. It knows nothing of fibers: watches and timers call a function on
 * the loop's thread. */
#ifndef GYRE_LOOP_H
#define GYRE_LOOP_H

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

/* One party's interest in one descriptor, until gyre_loop_unwatch; `ready` is called each time. */
struct gyre_watch {
  struct gyre_watch *next, *previous; /* of the same descriptor */
  struct gyre_list unverified;
  struct gyre_list to_call; /* in loop->to_call or loop->again */
  int fd;                   /* -1 when not watching */
  uint16_t interest;
  uint16_t call_with; /* events of the call that is due; 0: none is due */
  void (*ready)(struct gyre_loop *loop, struct gyre_watch *watch, unsigned ready);
};

struct gyre_descriptor {
  struct gyre_watch *first;
  uint32_t generation; /* never 0 once registered */
  uint8_t registered;  /* what the kernel was last asked to report */
  uint8_t drained;     /* a call has returned "would block" or moved less than it could; no report has come since */
  uint8_t ended;       /* GYRE_READABLE, GYRE_WRITABLE: that side has ended and returns at once; not reported again */
  uint8_t kind;        /* for the holder's use; 0 at first */
  uintptr_t holder;    /* the IO that last used it, see gyre_loop_held; only compared */
};

struct gyre_loop_statistics {
  uint64_t turns, waits, events;
  uint64_t wakeups; /* by other threads, signals, and whatever makes a fiber ready meanwhile */
};

struct gyre_loop {
  const struct gyre_backend_operations *backend;
  void *backend_state;
  struct gyre_timers timers;
  int64_t now_ns;     /* of this turn */
  int64_t virtual_ns; /* a clock that only jumps to the next timer (Gyre::Testing); 0: the real one */
  unsigned outside;   /* work done elsewhere in real time: the virtual clock does not jump */
  int64_t polled_ns;  /* when the backend last returned */
  int64_t unseen_ns;  /* this turn's events came after this time; delays since then may be the loop's fault */

  struct gyre_descriptor *descriptors; /* by number */
  int descriptor_capacity;
  int watched_count; /* descriptors that are watched */
  struct {
    struct gyre_list watches; /* those that trust an earlier registration */
    int64_t since_ns;         /* since when one is unverified; 0: verify all before the next wait */
  } unverified;
  unsigned in_vain; /* empty answers in a row before a sleep */

  struct gyre_list operations; /* in flight */
  struct gyre_list deferred;   /* struct gyre_deferred: runs at the end of the turn */

  struct { /* the backend's answer to the last question */
    struct gyre_event events[GYRE_LOOP_EVENTS];
    int next, count, error;
  } answer;
  struct {
    struct gyre_event event; /* a report for an ended watch */
    uint64_t turn;
  } stale;
  struct gyre_list to_call; /* watches to be called in this turn */
  struct gyre_list again;   /* watches to be called in the next one */

  struct gyre_list open_node; /* in loop_close.c's list */
  unsigned forks;             /* the same */

  bool waiting; /* without the GVL */
  /* Called before each sleep, if set; false prevents the sleep. Interrupts then prevent or end a
   * sleep, which does not raise them. */
  bool (*sleeping)(struct gyre_loop *loop);
  int woken; /* atomic: the next wait returns at once */
  /* An expected, imminent reply: polled for before the next sleep. NULL: none. */
  struct gyre_busy_poll *expected;
  struct gyre_loop_statistics statistics;
  struct gyre_lag lag; /* time between two calls of the backend, without sleeps */
};

/* 0 or -errno. */
int gyre_loop_open(struct gyre_loop *loop, const struct gyre_backend_operations *backend);
void gyre_loop_close(struct gyre_loop *loop);

/* Starts over in a forked child: nothing is watched or timed; the parent's kernel objects stay
 * untouched. */
int gyre_loop_reopen(struct gyre_loop *loop);

/* Continues in the daemon that replaced this process: watches and timers stay. Returns
 * 0 or -errno. */
int gyre_loop_move(struct gyre_loop *loop);

/* Begins a watch. Returns 0 or -errno (-EPERM: always ready, such as a regular file). Without
 * GYRE_LEVEL it is called for changes only, and now and then without a change. */
int gyre_loop_watch(struct gyre_loop *loop, struct gyre_watch *watch, int fd, unsigned interest);

/* Registers it again before the next wait: its number may stand for another file. */
void gyre_loop_ask_again(struct gyre_loop *loop, struct gyre_watch *watch);

/* reports.c. Calls the watch in the next turn, whatever the kernel reports; the loop does not sleep
 * before. Several requests make one call. Harmless if it is not watching. */
void gyre_loop_report_again(struct gyre_loop *loop, struct gyre_watch *watch, unsigned ready);

/* Harmless if it is not watching. */
void gyre_loop_unwatch(struct gyre_loop *loop, struct gyre_watch *watch);

/* A call on `fd` just returned "would block": the next readiness is reported as a change. */
void gyre_loop_drained(struct gyre_loop *loop, int fd, unsigned interest);

/* Resets the descriptor's entry for a new holder. */
struct gyre_descriptor *gyre_loop_hold(struct gyre_loop *loop, int fd, uintptr_t holder);

/* The entry of a descriptor that `holder` uses (compared by address only): another IO may have
 * had the same number. NULL without memory. Valid until the next call of the loop. */
static inline struct gyre_descriptor *gyre_loop_held(struct gyre_loop *loop, int fd, uintptr_t holder) {
  if (fd >= 0 && fd < loop->descriptor_capacity && loop->descriptors[fd].holder == holder)
    return &loop->descriptors[fd];
  return gyre_loop_hold(loop, fd, holder);
}

/* True if a call would return "would block", as far as is known: a watch begun now reports a
 * change. Wrong if the same holder closed, reopened and drained the number meanwhile, or if a
 * stream cut a read short (urgent mark, passed descriptors); the watch then corrects it before the
 * loop sleeps, under load after some milliseconds. */
static inline bool gyre_loop_is_drained(const struct gyre_loop *loop, const struct gyre_descriptor *held,
                                        unsigned interest) {
  if ((held->drained & interest) != interest) return false;
  /* If watches end with their report, a new one reports the present state. */
  return (held->registered & interest) == interest || !(loop->backend->capabilities & GYRE_BACKEND_EDGE);
}

/* The holder's call returned "would block", or moved less than requested for no other reason: on
 * a stream or pipe, not on a socket that moves one message a call. */
static inline void gyre_descriptor_drained(struct gyre_descriptor *held, unsigned interest) {
  held->drained |= (uint8_t)(interest & ~held->ended);
}

/* Ends the registration of `fd`, which the caller is about to close. */
void gyre_loop_forget(struct gyre_loop *loop, int fd);

/* The same for a caller that has ended its watch; does nothing if there is another watch. */
static inline void gyre_loop_forget_unwatched(struct gyre_loop *loop, int fd) {
  if (fd >= 0 && fd < loop->descriptor_capacity && !loop->descriptors[fd].first) gyre_loop_forget(loop, fd);
}

/* Drops the entry of a closed `fd`, whose registration on a GYRE_BACKEND_EDGE backend has ended
 * with it. */
void gyre_loop_closed(struct gyre_loop *loop, int fd);

/* The program is about to close `fd`: calls its watches, then forgets it. */
void gyre_loop_abandon(struct gyre_loop *loop, int fd);

/* The same; on return, a backend that keeps descriptors open has released this one. */
void gyre_loop_let_go(struct gyre_loop *loop, int fd);

/* Passes begun and ended watches to the kernel at once, if the backend would delay them. */
void gyre_loop_hand_over(struct gyre_loop *loop);

/* For loop.c: calls the watches of `fd` for `ready`. Returns whether there were any. */
bool gyre_loop_report(struct gyre_loop *loop, int fd, unsigned ready);

/* For loop.c, first in a turn: calls watches that an exception kept from being called, or that
 * are to be called again. */
void gyre_loop_report_left(struct gyre_loop *loop);

/* reports.c. Calls the watches whose descriptors were closed unnoticed, as poll(2) finds. */
#define GYRE_CLOSED_BATCH 256 /* watches, at most */
void gyre_loop_report_closed(struct gyre_loop *loop, struct gyre_watch *const *watches, int count);

/* Asks the backend once, first without waiting; gives up the GVL only to wait. Then calls
 * watches and fires timers. Raises what a signal or another thread raises here. */
void gyre_loop_poll(struct gyre_loop *loop, bool wait);

/* The time of the loop's timers. */
static inline int64_t gyre_loop_now(const struct gyre_loop *loop) {
  return __builtin_expect(loop->virtual_ns != 0, 0) ? loop->virtual_ns : gyre_timers_now();
}

/* Returns the coarse time, up to some milliseconds late. */
static inline int64_t gyre_loop_coarse_now(const struct gyre_loop *loop) {
  return __builtin_expect(loop->virtual_ns != 0, 0) ? loop->virtual_ns : gyre_timers_coarse_now();
}

/* From any thread or a signal handler. */
void gyre_loop_wake(struct gyre_loop *loop);

#endif
