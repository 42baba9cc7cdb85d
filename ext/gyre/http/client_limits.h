/* Limits of a client's connection, for both versions (h1/client.c, h2/client.c): read from
 * Gyre::HTTP::Client::Limits, named in errors. Never waits. */
#pragma once

#include <ruby.h>
#include <stdint.h>

/* Waits with a limit each. */
enum gyre_http_client_step { GYRE_CLIENT_SENDS, GYRE_CLIENT_AWAITS_HEAD, GYRE_CLIENT_RECEIVES, GYRE_CLIENT_STEPS };

struct gyre_http_client_limits {
  float ns[GYRE_CLIENT_STEPS], keep_ns; /* exact to a ten-millionth; negative: none */
  uint32_t header_bytes;
  uint16_t header_count;
};

extern const char *const gyre_http_client_steps[GYRE_CLIENT_STEPS]; /* words for errors */

struct gyre_http_client_limits gyre_http_client_limits(VALUE limits);

/* Negative: the request's own time is over. */
NORETURN(void gyre_http_client_time_out(VALUE peer, enum gyre_http_client_step step, int64_t limit_ns));
