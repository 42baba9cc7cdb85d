/*
 * The loop: which descriptor has which watches, which timers run, and one question to the backend a
 * turn. All bookkeeping is here, once, whatever the backend. It does not deal with fibers: what is
 * watched or timed brings a function that is called on the loop's thread when the time has come.
 */
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

#define GYRE_LOOP_EVENTS 256 /* asked from the kernel at once */

struct gyre_loop;

/* One party's interest in one descriptor. Stays until gyre_loop_unwatch; `ready` is called each
 * time. */
struct gyre_watch {
  struct gyre_watch *next, *previous; /* of the same descriptor */
  struct gyre_list unverified;
  struct gyre_list to_call; /* in loop->to_call or loop->again */
  int fd;                   /* -1 when not watching */
  uint16_t interest;
  uint16_t call_with; /* what it is going to be called with; 0 when it is in neither */
  void (*ready)(struct gyre_loop *loop, struct gyre_watch *watch, unsigned ready);
};

struct gyre_descriptor {
  struct gyre_watch *first;
  uint32_t generation; /* never 0 once registered */
  uint8_t registered;  /* what the kernel was last asked to report */
  uint8_t drained;     /* a call answered "would block" or moved less than it could, and nothing was reported since */
  /* GYRE_READABLE, GYRE_WRITABLE: that side has ended, which is not reported again; calls answer at
   * once */
  uint8_t ended : 4;
  /* Reported to a standing watch whose registration ended with that: asked for again once it is
   * drained. */
  uint8_t unread : 4;
  uint8_t kind;     /* for the holder's use; 0 at first */
  uintptr_t holder; /* the last caller, see gyre_loop_held; only ever compared */
};

struct gyre_loop_statistics {
  uint64_t turns, waits, events;
  uint64_t wakeups; /* by other threads, signals and what makes a fiber ready meanwhile */
};

struct gyre_loop {
  const struct gyre_backend_operations *backend;
  void *backend_state;
  struct gyre_timers timers;
  int64_t now_ns;     /* of this turn */
  int64_t virtual_ns; /* a clock that stands still but for jumps to the next timer (Gyre::Testing); 0: the real one */
  unsigned outside;   /* parts of the work that others do in real time: then that clock does not jump */
  int64_t polled_ns;  /* when the backend last answered */
  int64_t unseen_ns;  /* what is reported in this turn had not happened by then: later, the loop may have been held */

  struct gyre_descriptor *descriptors; /* by number */
  int descriptor_capacity;
  int watched_count;           /* descriptors that are watched */
  struct gyre_list unverified; /* watches that trust an earlier registration */
  int64_t unverified_ns;       /* since when there are such; 0: the kernel is to be asked before the next wait */
  unsigned in_vain;            /* questions that found nothing, one after another, before a sleep */

  struct gyre_list operations; /* in flight */
  struct gyre_list deferred;   /* struct gyre_deferred: for the end of the turn */

  struct gyre_event events[GYRE_LOOP_EVENTS];
  int event_next, event_count, error;
  struct gyre_event stale; /* a report for a watch that was over, and the turn in which it came */
  uint64_t stale_turn;
  struct gyre_list to_call; /* watches that this turn is still to call */
  struct gyre_list again;   /* those that the next one is to call */

  struct gyre_list open_node; /* in loop_close.c's list */
  unsigned forks;             /* the same */

  bool waiting; /* without the GVL */
  /* Asked before each sleep, if set; false: this poll does not sleep. Then interrupts end a sleep
   * without being raised by it, and one that is under way already keeps it from beginning. */
  bool (*sleeping)(struct gyre_loop *loop);
  int woken; /* atomic: the next wait is not to begin */
  /* Of what something is to come at once: asked for before the next sleep. NULL: of nothing. */
  struct gyre_busy_poll *expected;
  struct gyre_loop_statistics statistics;
  struct gyre_lag lag; /* from one question to the backend to the next, without the sleep */
};

/* 0 or -errno. */
int gyre_loop_open(struct gyre_loop *loop, const struct gyre_backend_operations *backend);
/* Operations in flight end with -ECANCELED. */
void gyre_loop_close(struct gyre_loop *loop);

/* The operations in flight have no waiters any more: these are gone. */
void gyre_loop_orphan(struct gyre_loop *loop);

/* Starts over in a forked child: nothing is watched or timed; the parent's kernel objects are
 * untouched. */
int gyre_loop_reopen(struct gyre_loop *loop);

/* Goes on in a process that took the place of this one (daemon): everything that is watched or
 * timed stays so, operations in flight end with -ECANCELED. 0 or -errno. */
int gyre_loop_move(struct gyre_loop *loop);

/* Begins a watch; 0 or -errno (-EPERM: the descriptor is always ready, as a regular file is).
 * Without GYRE_LEVEL in `interest` it is called for changes only, and may now and then be called
 * without one. */
int gyre_loop_watch(struct gyre_loop *loop, struct gyre_watch *watch, int fd, unsigned interest);

/* The kernel is asked about it before the next wait: what has its number may have changed. */
void gyre_loop_ask_again(struct gyre_loop *loop, struct gyre_watch *watch);

/* reports.c. Has it called in the next turn, whatever the kernel reports: there is more than one
 * turn is for, or what the kernel does not know of. Once, however often it is asked for; the loop
 * does not sleep before. Harmless when it is not watching. */
void gyre_loop_report_again(struct gyre_loop *loop, struct gyre_watch *watch, unsigned ready);

/* Ends it; harmless when it is not watching. */
void gyre_loop_unwatch(struct gyre_loop *loop, struct gyre_watch *watch);

/* A call on `fd` just answered "would block": the next readiness will be reported as a change. */
void gyre_loop_drained(struct gyre_loop *loop, int fd, unsigned interest);

/* What was kept of it is dropped: it has another holder. */
struct gyre_descriptor *gyre_loop_hold(struct gyre_loop *loop, int fd, uintptr_t holder);

/* What is kept of a descriptor that `holder` uses, of which only the address is compared: an IO
 * that has the same number is another one. NULL when there is no memory. Until the next call of the
 * loop. */
static inline struct gyre_descriptor *gyre_loop_held(struct gyre_loop *loop, int fd, uintptr_t holder) {
  if (fd >= 0 && fd < loop->descriptor_capacity && loop->descriptors[fd].holder == holder)
    return &loop->descriptors[fd];
  return gyre_loop_hold(loop, fd, holder);
}

/* Whether a call would answer "would block", by what was seen last: a watch begun now reports when
 * that changes. Wrong where the number was closed, opened and drained by the same holder meanwhile,
 * or where a stream ended a read early (at an urgent mark, at passed descriptors); then the watch
 * corrects it before the loop sleeps, a busy one after some milliseconds. */
static inline bool gyre_loop_is_drained(const struct gyre_loop *loop, const struct gyre_descriptor *held,
                                        unsigned interest) {
  if ((held->drained & interest) != interest) return false;
  /* Where a watch ends with its report, one that begins reports the present state. */
  return (held->registered & interest) == interest || !(loop->backend->capabilities & GYRE_BACKEND_EDGE);
}

/* The holder's call answered "would block", or moved less than it was asked to where nothing but
 * that explains it: on a stream or a pipe, not where each call moves one message. */
static inline void gyre_descriptor_drained(struct gyre_descriptor *held, unsigned interest) {
  held->drained |= (uint8_t)(interest & ~held->ended);
}

/* `fd` is about to be closed by the caller: its registration ends with it. */
void gyre_loop_forget(struct gyre_loop *loop, int fd);

/* The same for one that the caller watches no longer, unless another watch remains. */
static inline void gyre_loop_forget_unwatched(struct gyre_loop *loop, int fd) {
  if (fd >= 0 && fd < loop->descriptor_capacity && !loop->descriptors[fd].first) gyre_loop_forget(loop, fd);
}

/* `fd` was closed: what a backend that keeps registrations (GYRE_BACKEND_EDGE) was asked for ended
 * with that, and says nothing of what has the number next. */
void gyre_loop_closed(struct gyre_loop *loop, int fd);

/* `fd` is about to be closed by the program: its watches are called, then it is forgotten. */
void gyre_loop_abandon(struct gyre_loop *loop, int fd);

/* The same, and the kernel has let go of it when this returns, on a backend that holds open what it
 * watches. */
void gyre_loop_let_go(struct gyre_loop *loop, int fd);

/* Watches that have begun and ended reach the kernel at once, where a backend would hand them over
 * with the next wait. */
void gyre_loop_hand_over(struct gyre_loop *loop);

/* A new operation with room for `length` bytes in `bytes`; NULL without memory. Free it by the next
 * one. */
struct gyre_operation *gyre_operation_new(enum gyre_operation_kind kind, size_t length);
void gyre_operation_free(struct gyre_operation *operation);

/* Hands an operation to the kernel; 0 or -errno. -ENOSYS: the backend does not support it, do it
 * another way. It is the loop's until it is completed. */
int gyre_loop_submit(struct gyre_loop *loop, struct gyre_operation *operation);

/* Nothing waits for it any more: it ends by itself, and the loop frees it. */
void gyre_loop_cancel(struct gyre_loop *loop, struct gyre_operation *operation);

/* For loop.c: calls those that watch `fd` for something of `ready`. Whether there were any. */
bool gyre_loop_report(struct gyre_loop *loop, int fd, unsigned ready);

/* For loop.c, first in a turn: calls those that an exception has left, or that are to be called
 * again. */
void gyre_loop_report_left(struct gyre_loop *loop);

/* For loop.c: its end was reported. */
void gyre_operation_complete(struct gyre_operation *operation);

/* For loop.c, before the backend closes: cancels those in flight and waits for their ends for a
 * while. What has not ended in time, or cannot be asked for from this thread, is never freed;
 * whether it will be done is unknown, so it must not be done again. */
void gyre_loop_end_operations(struct gyre_loop *loop);

/* Asks the backend once, at first without waiting; gives the GVL up only to wait. Then calls the
 * watches and fires the timers. Raises what a signal or another thread raises here. */
void gyre_loop_poll(struct gyre_loop *loop, bool wait);

/* The time that the loop's timers go by. */
static inline int64_t gyre_loop_now(const struct gyre_loop *loop) {
  return __builtin_expect(loop->virtual_ns != 0, 0) ? loop->virtual_ns : gyre_timers_now();
}

/* The same, some milliseconds behind. */
static inline int64_t gyre_loop_coarse_now(const struct gyre_loop *loop) {
  return __builtin_expect(loop->virtual_ns != 0, 0) ? loop->virtual_ns : gyre_timers_coarse_now();
}

/* From any thread, or a signal handler. */
void gyre_loop_wake(struct gyre_loop *loop);

#endif
