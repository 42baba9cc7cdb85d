/* Admission: limits the number of running requests and queues the others. Protocols call it when
 * a head is complete, before the handler's fiber starts. A waiter is a list node in the protocol's
 * memory and needs no fiber and no Ruby object. No ruby.h, no I/O.
 *
 *   head complete ── has_place, take ──► the handler is run; `leave` when the request is done
 *         └─────────── enter ──► waits ──► decided(waiter, true): it has the place now, run the handler
 *                        │        ├──────► decided(waiter, false): 503; it waited too long, or made room
 *                        │        └ withdraw: the client has reset the connection or the stream
 *                        └────► refused: 503 at once, the queue is full
 *
 * First in, first out. The requests of half-closed clients come last and are the first to be
 * refused, because a half-closed HTTP/1 client may be gone.
 *
 * Timers of the loop call `decided`; enter, leave and withdraw never do. The waiter has left the
 * queue before the call, and its memory is not touched after the call. */
#pragma once

#include "http/statistics.h"
#include "loop/loop.h"

struct gyre_admission_waiter {
  struct gyre_list node; /* in admission->waiting or admission->ended while the request waits */
  int64_t since_ns;      /* when it entered */
  int64_t deadline_ns;   /* INT64_MAX: none */
  void (*decided)(struct gyre_admission_waiter *waiter, bool placed);
};

struct gyre_admission {
  struct gyre_loop *loop;              /* NULL before start */
  uint32_t running_limit, queue_limit; /* running_limit 0: no limit */
  int64_t queue_ns;                    /* limit of a wait; -1: none */
  uint32_t running;                    /* places taken */
  uint32_t waiting_count;              /* number of waiters in both lists */
  struct gyre_list waiting, ended;     /* waiters; those of half-closed clients are in `ended` */
  struct gyre_timer places, late;      /* places: starts waiters; late: refuses late waiters */
  struct gyre_http_statistics *statistics;
};

/* The caller keeps `statistics`. */
void gyre_admission_init(struct gyre_admission *admission, struct gyre_http_statistics *statistics);

/* Cancels the timers and forgets all waiters, without calling `decided`. */
void gyre_admission_stop(struct gyre_admission *admission);
/* Forgets all waiters without touching the loop, which may be freed or the parent process's. */
void gyre_admission_forget(struct gyre_admission *admission);

/* True if a place is free and no request waits. The caller must then call gyre_admission_take. */
static inline bool gyre_admission_has_place(const struct gyre_admission *admission) {
  return !admission->running_limit || (admission->running < admission->running_limit && admission->waiting_count == 0);
}

static inline void gyre_admission_take(struct gyre_admission *admission) { admission->running++; }

/* Queues a request that has no place. Returns false if the queue is full and cannot make room. */
bool gyre_admission_enter(struct gyre_admission *admission, struct gyre_admission_waiter *waiter);

/* True if no place is free and the queue is full. */
static inline bool gyre_admission_is_full(const struct gyre_admission *admission) {
  return admission->running_limit && admission->running >= admission->running_limit &&
         admission->waiting_count >= admission->queue_limit;
}

/* Moves a waiter to the queue's end, because its client is half-closed and may be gone. */
void gyre_admission_put_last(struct gyre_admission *admission, struct gyre_admission_waiter *waiter);

void gyre_admission_withdraw(struct gyre_admission *admission, struct gyre_admission_waiter *waiter);

/* Frees a place. Called once for each gyre_admission_take and each decided(waiter, true). */
void gyre_admission_leave(struct gyre_admission *admission);

/* A budget of memory or open files. Each holder records its share and gives the share back. */
struct gyre_http_budget {
  int64_t used, limit;
  void (*relieved)(struct gyre_http_budget *budget); /* NULL, or called when it is over no more */
};

/* Limits that all connections of an acceptor share. */
struct gyre_http_capacity {
  struct gyre_admission admission;
  struct gyre_http_budget heads;  /* bytes of heads that are incomplete or wait for a place */
  struct gyre_http_budget input;  /* bytes of request bodies that the app has not read */
  struct gyre_http_budget output; /* bytes of responses that clients have not taken */
  struct gyre_http_budget files;  /* open files that are being sent */
};

static inline bool gyre_http_budget_is_over(const struct gyre_http_budget *budget) {
  return budget->used > budget->limit;
}

static inline void gyre_http_budget_add(struct gyre_http_budget *budget, int64_t amount) {
  bool over = gyre_http_budget_is_over(budget);
  budget->used += amount;
  if (over && budget->relieved && !gyre_http_budget_is_over(budget)) budget->relieved(budget);
}

static inline void gyre_http_budget_hold(struct gyre_http_budget *budget, uint32_t *held, size_t amount) {
  int64_t more = (int64_t)amount - *held;
  *held = (uint32_t)amount;
  gyre_http_budget_add(budget, more);
}

/* Reasons for a 503. */
#define GYRE_HTTP_WAITED_TOO_LONG "the server has too many requests, and this one waited for its turn too long"
#define GYRE_HTTP_BODIES_HOLD_TOO_MUCH "the bodies of requests hold too much memory"
#define GYRE_HTTP_WAITING_HOLD_TOO_MUCH "the requests that wait hold too much memory"

/* Queues a request, and counts the `bytes` of its head in *counted and in the budget. `last`: its
 * client is half-closed. Returns NULL, or a refusal's reason; a refusal counts no bytes. */
const char *gyre_http_capacity_enter(struct gyre_http_capacity *capacity, struct gyre_admission_waiter *waiter,
                                     uint32_t *counted, size_t bytes, bool last);
