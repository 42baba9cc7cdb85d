/*
 * Admission: limits the requests that run at a time, and queues those that wait for a place. Each
 * protocol asks it between a complete head and the handler's fiber. A waiter is a node in the
 * protocol's own memory (a connection of HTTP/1, a stream of HTTP/2), without a fiber or a Ruby
 * object. No ruby.h; reads and writes nothing.
 *
 *   head complete ── enter ──► ADMITTED: the handler is run; `leave` when the request is done
 *                       ├────► WAITS ──► start(waiter): it has the place now, run the handler
 *                       │        ├─────► refuse(waiter): 503; it waited too long, or made room
 *                       │        └ withdraw: the client has reset the connection or the stream
 *                       └────► REFUSED: 503 at once, the queue is full
 *
 * First in, first out. Requests whose client has ended its side (HTTP/1: it sends no more, and may
 * be gone) come last and are the first to make room.
 *
 * start and refuse are called from the loop's timers, never from within enter, leave or withdraw.
 * The waiter is off the queue by then; its memory is not touched after the call.
 */
#ifndef GYRE_HTTP_ADMISSION_H
#define GYRE_HTTP_ADMISSION_H

#include "http/statistics.h"
#include "loop/loop.h"

enum gyre_admission_answer { GYRE_ADMISSION_ADMITTED, GYRE_ADMISSION_WAITS, GYRE_ADMISSION_REFUSED };

struct gyre_admission_waiter {
  struct gyre_list node; /* in admission->waiting or admission->ended; unlinked unless it waits */
  int64_t since_ns;      /* when it entered */
  int64_t deadline_ns;   /* INT64_MAX: none */
  void (*start)(struct gyre_admission_waiter *waiter);
  void (*refuse)(struct gyre_admission_waiter *waiter);
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
void gyre_admission_start(struct gyre_admission *admission, struct gyre_loop *loop);

/* Unlinks all waiters without further calls, as the loop closes. */
void gyre_admission_stop(struct gyre_admission *admission);
/* In a forked child: forgets all waiters without touching the loop. */
void gyre_admission_forget(struct gyre_admission *admission);

/* True if a new request would run at once. Must be followed by gyre_admission_take, which takes the
 * place. */
static inline bool gyre_admission_has_place(const struct gyre_admission *admission) {
  return !admission->running_limit || (admission->running < admission->running_limit && admission->waiting_count == 0);
}

static inline void gyre_admission_take(struct gyre_admission *admission) { admission->running++; }

/* Queues a request that finds no free place. WAITS: the waiter, with start and refuse set, is
 * queued. */
enum gyre_admission_answer gyre_admission_enter(struct gyre_admission *admission, struct gyre_admission_waiter *waiter);

/* True if the queue is full, so that a request without a place is refused. */
static inline bool gyre_admission_is_full(const struct gyre_admission *admission) {
  return admission->running_limit && admission->running >= admission->running_limit &&
         admission->waiting_count >= admission->queue_limit;
}

/* Moves the waiter to the end of the queue: its half-closed client may be gone. */
void gyre_admission_put_last(struct gyre_admission *admission, struct gyre_admission_waiter *waiter);

/* Ends the wait, if any. */
void gyre_admission_withdraw(struct gyre_admission *admission, struct gyre_admission_waiter *waiter);

/* Frees a place; called once for each start and each gyre_admission_take. */
void gyre_admission_leave(struct gyre_admission *admission);

#endif
