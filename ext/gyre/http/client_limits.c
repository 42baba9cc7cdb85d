/* Limits of a client's connection (client_limits.h). */
#include "http/client_limits.h"
#include "http/limit_rows.h"

const char *const gyre_http_client_steps[] = {"send to", "wait for the response of", "receive from"};

#define ROW(kind, ...) GYRE_LIMIT_##kind(struct gyre_http_client_limits, __VA_ARGS__)

/* The first ones are the steps' limits, in the order of enum gyre_http_client_step. */
static const struct gyre_limit_row rows[] = {
    ROW(TIME, ns[GYRE_CLIENT_SENDS], "write_timeout_s"),
    ROW(TIME, ns[GYRE_CLIENT_AWAITS_HEAD], "head_timeout_s"),
    ROW(TIME, ns[GYRE_CLIENT_RECEIVES], "read_timeout_s"),
    ROW(TIME, keep_ns, "keep_alive_timeout_s"),
    ROW(NUMBER, header_bytes, "header_bytes_limit", 0),
    ROW(NUMBER, header_count, "header_count_limit", 0),
    ROW(NUMBER, streams, "streams_limit", 0),
};

struct gyre_http_client_limits gyre_http_client_limits(VALUE given) {
  struct gyre_http_client_limits limits;
  GYRE_LIMITS_READ(rows, &limits, given);
  return limits;
}

void gyre_http_client_time_out(VALUE peer, enum gyre_http_client_step step, int64_t limit_ns) {
  VALUE class = rb_path2class("Gyre::TimeoutError");
  const char *tried = gyre_http_client_steps[step];
  if (limit_ns < 0) rb_raise(class, "%s %" PRIsVALUE ": the request's time is over (timeout_s)", tried, peer);
  rb_raise(class, "%s %" PRIsVALUE ": nothing for %g s (%s)", tried, peer, (double)limit_ns / 1e9, rows[step].name);
}
