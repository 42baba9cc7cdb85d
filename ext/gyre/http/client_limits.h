/* Time and size limits of a client's connection, for h1/client.c and h2/client.c. They are read
 * from Gyre::HTTP::Client::Limits and named in errors. Never waits. */
#pragma once

#include "feature.h"

#include <ruby.h>

/* The kinds of wait, each with its own time limit. */
enum gyre_http_client_step { GYRE_CLIENT_SENDS, GYRE_CLIENT_AWAITS_HEAD, GYRE_CLIENT_RECEIVES, GYRE_CLIENT_STEPS };

struct gyre_http_client_limits {
  float ns[GYRE_CLIENT_STEPS], keep_ns; /* inexact by up to 1e-7 of the value; negative: no limit */
  uint32_t header_bytes, streams;
  uint16_t header_count;
};

extern const char *const gyre_http_client_steps[GYRE_CLIENT_STEPS]; /* words for errors */

struct gyre_http_client_limits gyre_http_client_limits(VALUE limits);

/* Raises Gyre::TimeoutError. A negative limit_ns means that the request's own time is over. */
NORETURN(void gyre_http_client_time_out(VALUE peer, enum gyre_http_client_step step, int64_t limit_ns));
