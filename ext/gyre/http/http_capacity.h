/*
 * What one server has to give, whatever its acceptors and protocols: places for requests
 * (http_admission.h), and budgets of memory and open files. Connections and streams hold a part of
 * a budget and give it back; each notes in a field of its own how much that is. No ruby.h.
 */
#ifndef GYRE_HTTP_CAPACITY_H
#define GYRE_HTTP_CAPACITY_H

#include "http/http_admission.h"

struct gyre_http_budget {
  int64_t used, limit;
};

struct gyre_http_capacity {
  struct gyre_admission admission;
  struct gyre_http_budget heads;  /* that have come in part, or wait for a place */
  struct gyre_http_budget input;  /* bodies of requests that the app has not read */
  struct gyre_http_budget output; /* of responses, that clients have not taken */
  struct gyre_http_budget files;  /* descriptors that are being sent */
  uint32_t owners;                /* the Ruby object, and acceptors */
  uint32_t started;               /* acceptors on the loop */
};

/* A part's holder has so much from now on. */
static inline void gyre_http_budget_hold(struct gyre_http_budget *budget, uint32_t *held, size_t amount) {
  budget->used += (int64_t)amount - *held;
  *held = (uint32_t)amount;
}

static inline bool gyre_http_budget_is_over(const struct gyre_http_budget *budget) {
  return budget->used > budget->limit;
}

/* Of an acceptor: the first start gives the admission its loop, the last stop takes it. */
void gyre_http_capacity_start(struct gyre_http_capacity *capacity, struct gyre_loop *loop);
void gyre_http_capacity_stop(struct gyre_http_capacity *capacity);
/* In a forked child: nothing of the loop is touched. */
void gyre_http_capacity_forget(struct gyre_http_capacity *capacity);
/* Frees it with the last owner. */
void gyre_http_capacity_release(struct gyre_http_capacity *capacity);

#endif
