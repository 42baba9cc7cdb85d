/* Decides whether to poll the backend for some microseconds before a sleep: a local server's reply
 * arrives sooner than a process can sleep and wake. Each failure in a row doubles the number of
 * sleeps that skip the polling. No ruby.h. */
#pragma once

#include "feature.h"

#define GYRE_BUSY_POLL_NS INT64_C(50000)
#define GYRE_BUSY_POLL_IN_VAIN_LIMIT 10 /* maximum of in_vain: 1,024 sleeps then skip the polling */

/* Must be zero at first. */
struct gyre_busy_poll {
  unsigned in_vain;  /* failures in a row */
  unsigned left_out; /* sleeps that still skip the polling */
};

static inline bool gyre_busy_poll_is_due(struct gyre_busy_poll *busy) {
  if (busy->left_out == 0) return true;
  busy->left_out--;
  return false;
}

static inline void gyre_busy_poll_done(struct gyre_busy_poll *busy, bool found) {
  if (found) {
    busy->in_vain = 0;
    return;
  }
  if (busy->in_vain < GYRE_BUSY_POLL_IN_VAIN_LIMIT) busy->in_vain++;
  busy->left_out = 1u << busy->in_vain;
}
