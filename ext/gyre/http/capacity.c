/* Queues requests within a server's places and budgets (capacity.h). */
#include "http/capacity.h"

const char *gyre_http_capacity_enter(struct gyre_http_capacity *capacity, struct gyre_admission_waiter *waiter,
                                     uint32_t *counted, size_t bytes, bool last) {
  const char *reason = NULL;
  gyre_http_budget_hold(&capacity->heads, counted, bytes);
  if (gyre_http_budget_is_over(&capacity->heads)) {
    capacity->admission.refused++;
    reason = GYRE_HTTP_WAITING_HOLD_TOO_MUCH;
  } else if (!gyre_admission_enter(&capacity->admission, waiter)) {
    reason = "too many requests wait already";
  }
  if (reason) {
    gyre_http_budget_hold(&capacity->heads, counted, 0);
  } else if (last) {
    gyre_admission_put_last(&capacity->admission, waiter);
  }
  return reason;
}
