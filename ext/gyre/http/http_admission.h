/*
 * Admission: how many requests run at a time, and the queue of those that wait for a place. Every
 * HTTP protocol asks it between a head that is complete and the handler's fiber. What waits is a
 * node that the protocol embeds in memory of its own (a connection of HTTP/1, a stream of HTTP/2):
 * it holds no fiber and no Ruby object. No ruby.h; it reads and writes nothing.
 *
 *   head complete ── enter ──► ADMITTED: the handler is run; `leave` when the request is done
 *                       ├────► WAITS ──► start(waiter): it has the place now, run the handler
 *                       │        ├─────► refuse(waiter): 503; it waited too long, or made room
 *                       │        └ withdraw: the client has reset the connection or the stream
 *                       └────► REFUSED: 503 at once, the queue is full
 *
 * First in, first out, but that requests whose client has ended its side (HTTP/1: it will send no
 * more, and may be gone) come after all others and are the first to make room.
 *
 * start and refuse are called from the loop's timers, never from within enter, leave or withdraw.
 * The waiter is off the queue by then, and its memory is not touched after the call.
 */
#ifndef GYRE_HTTP_ADMISSION_H
#define GYRE_HTTP_ADMISSION_H

#include "http/http_histogram.h"
#include "loop/loop.h"

enum gyre_admission_answer { GYRE_ADMISSION_ADMITTED, GYRE_ADMISSION_WAITS, GYRE_ADMISSION_REFUSED };

struct gyre_admission_waiter {
  struct gyre_list node; /* in admission->waiting or admission->ended; unlinked: it does not wait */
  int64_t since_ns;      /* when it entered */
  int64_t deadline_ns;   /* INT64_MAX: none */
  void (*start)(struct gyre_admission_waiter *waiter);
  void (*refuse)(struct gyre_admission_waiter *waiter);
};

struct gyre_admission {
  struct gyre_loop *loop;              /* NULL before start */
  uint32_t running_limit, queue_limit; /* running_limit 0: every request runs at once */
  int64_t queue_ns;                    /* how long one may wait; -1: as long as it takes */
  uint32_t running;                    /* places that are taken */
  uint32_t waiting_count;              /* in both lists */
  struct gyre_list waiting, ended;     /* struct gyre_admission_waiter, oldest first */
  struct gyre_timer places, late;      /* there are places for some that wait; the next deadline */
  uint64_t waited, refused;            /* requests that had to wait; that were refused, at once or later */
  struct gyre_http_histogram waits;    /* how long those waited that have a place now, were refused or withdrawn */
};

void gyre_admission_init(struct gyre_admission *admission);
void gyre_admission_start(struct gyre_admission *admission, struct gyre_loop *loop);

/* The loop closes: nothing is called any more. What waits is unlinked. */
void gyre_admission_stop(struct gyre_admission *admission);
/* The same where the loop is gone, as in a forked child: nothing of it is touched. */
void gyre_admission_forget(struct gyre_admission *admission);

/* Whether a request that comes now would run at once. It then takes its place by
 * gyre_admission_take. */
static inline bool gyre_admission_has_place(const struct gyre_admission *admission) {
  return !admission->running_limit || (admission->running < admission->running_limit && admission->waiting_count == 0);
}

static inline void gyre_admission_take(struct gyre_admission *admission) { admission->running++; }

/* A request comes for which there is no place. WAITS: the waiter, with start and refuse set, is in
 * the queue. */
enum gyre_admission_answer gyre_admission_enter(struct gyre_admission *admission, struct gyre_admission_waiter *waiter);

/* Whether the queue is full, so that the next request beyond the places is refused. */
static inline bool gyre_admission_is_full(const struct gyre_admission *admission) {
  return admission->running_limit && admission->running >= admission->running_limit &&
         admission->waiting_count >= admission->queue_limit;
}

/* Its client will send no more, and may be gone. */
void gyre_admission_put_last(struct gyre_admission *admission, struct gyre_admission_waiter *waiter);

/* It waits no longer; harmless when it did not wait. */
void gyre_admission_withdraw(struct gyre_admission *admission, struct gyre_admission_waiter *waiter);

/* Gives a place back, once for each start and gyre_admission_take. */
void gyre_admission_leave(struct gyre_admission *admission);

#endif
