/* A server's places for requests (admission.h) and its budgets of memory and open files, shared by
 * its connections and protocols. Holders record their share of a budget and give it back. No
 * ruby.h. */
#pragma once

#include "http/admission.h"

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
