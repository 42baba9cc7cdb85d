/* Admission: limits running requests, and queues those without a place. Protocols ask it between a
 * complete head and the handler's fiber. A waiter is a node in the protocol's memory, without a
 * fiber or Ruby object. No ruby.h; reads and writes nothing.
 *
 *   head complete ── has_place, take ──► the handler is run; `leave` when the request is done
 *         └─────────── enter ──► waits ──► decided(waiter, true): it has the place now, run the handler
 *                        │        ├──────► decided(waiter, false): 503; it waited too long, or made room
 *                        │        └ withdraw: the client has reset the connection or the stream
 *                        └────► refused: 503 at once, the queue is full
 *
 * First in, first out. Requests of half-closed clients (HTTP/1: maybe gone) come last and make room
 * first.
 *
 * decided is called from the loop's timers, never within enter, leave or withdraw. The waiter has
 * left the queue by then; its memory is not touched afterwards. */
#pragma once

#include "http/statistics.h"
#include "loop/loop.h"

struct gyre_admission_waiter {
  struct gyre_list node; /* in admission->waiting or admission->ended, while it waits */
  int64_t since_ns;      /* when it entered */
  int64_t deadline_ns;   /* INT64_MAX: none */
  void (*decided)(struct gyre_admission_waiter *waiter, bool placed);
};

struct gyre_admission {
  struct gyre_loop *loop;              /* NULL before start */
  uint32_t running_limit, queue_limit; /* running_limit 0: all requests run at once */
  int64_t queue_ns;                    /* limit of a wait; -1: none */
  uint32_t running;                    /* places taken */
  uint32_t waiting_count;              /* in both lists */
  struct gyre_list waiting, ended;     /* struct gyre_admission_waiter, oldest first */
  struct gyre_timer places, late;      /* places: starts waiters for free places; late: the next deadline */
  uint64_t waited, refused;            /* counts of requests: waited; refused, at once or later */
  struct gyre_http_histogram waits;    /* durations of ended waits: admitted, refused or withdrawn */
};

void gyre_admission_init(struct gyre_admission *admission);

/* Unlinks all waiters without calls, as the loop closes. */
void gyre_admission_stop(struct gyre_admission *admission);
/* Forgets all waiters without touching the loop, in a forked child. */
void gyre_admission_forget(struct gyre_admission *admission);

/* True if a request would run at once; gyre_admission_take must follow. */
static inline bool gyre_admission_has_place(const struct gyre_admission *admission) {
  return !admission->running_limit || (admission->running < admission->running_limit && admission->waiting_count == 0);
}

static inline void gyre_admission_take(struct gyre_admission *admission) { admission->running++; }

/* Queues a request without a place; false: refused. */
bool gyre_admission_enter(struct gyre_admission *admission, struct gyre_admission_waiter *waiter);

/* True if a request without a place would be refused. */
static inline bool gyre_admission_is_full(const struct gyre_admission *admission) {
  return admission->running_limit && admission->running >= admission->running_limit &&
         admission->waiting_count >= admission->queue_limit;
}

/* Moves a waiter to the queue's end: its half-closed client may be gone. */
void gyre_admission_put_last(struct gyre_admission *admission, struct gyre_admission_waiter *waiter);

void gyre_admission_withdraw(struct gyre_admission *admission, struct gyre_admission_waiter *waiter);

/* Frees a place. Called once for each place that was given or taken (gyre_admission_take). */
void gyre_admission_leave(struct gyre_admission *admission);

/* A server's places for requests and its budgets of memory and open files, shared by its
 * connections and protocols. Holders record their share of a budget and give it back. */
struct gyre_http_budget {
  int64_t used, limit;
};

struct gyre_http_capacity {
  struct gyre_admission admission;
  struct gyre_http_budget heads;  /* heads: incomplete, or waiting for a place */
  struct gyre_http_budget input;  /* request bodies that the app has not read */
  struct gyre_http_budget output; /* responses that clients have not taken */
  struct gyre_http_budget files;  /* descriptors being sent */
};

static inline void gyre_http_budget_hold(struct gyre_http_budget *budget, uint32_t *held, size_t amount) {
  budget->used += (int64_t)amount - *held;
  *held = (uint32_t)amount;
}

static inline bool gyre_http_budget_is_over(const struct gyre_http_budget *budget) {
  return budget->used > budget->limit;
}

/* Reasons for a 503. */
#define GYRE_HTTP_WAITED_TOO_LONG "the server has too many requests, and this one waited for its turn too long"
#define GYRE_HTTP_BODIES_HOLD_TOO_MUCH "the bodies of requests hold too much memory"
#define GYRE_HTTP_WAITING_HOLD_TOO_MUCH "the requests that wait hold too much memory"

/* Queues a request with this much memory of its head; `last`: its client is half-closed. Returns
 * NULL, or a refusal's reason; a refused request holds no memory. */
const char *gyre_http_capacity_enter(struct gyre_http_capacity *capacity, struct gyre_admission_waiter *waiter,
                                     uint32_t *counted, size_t bytes, bool last);
