/* Limits of a client's connection (client_limits.h). */
#include "http/client_limits.h"
#include "fiber/scheduler.h"

const char *const gyre_http_client_steps[] = {"send to", "wait for the response of", "receive from"};

static const char *const names[] = {"write_timeout_s", "head_timeout_s", "read_timeout_s"};

static VALUE row(VALUE limits, const char *name) { return rb_funcall(limits, rb_intern(name), 0); }

struct gyre_http_client_limits gyre_http_client_limits(VALUE rows) {
  struct gyre_http_client_limits limits = {.header_bytes = NUM2UINT(row(rows, "header_bytes_limit")),
                                           .header_count = NUM2USHORT(row(rows, "header_count_limit"))};
  for (int step = 0; step < GYRE_CLIENT_STEPS; step++) limits.ns[step] = gyre_duration_ns(row(rows, names[step]));
  limits.keep_ns = gyre_duration_ns(row(rows, "keep_alive_timeout_s"));
  return limits;
}

void gyre_http_client_time_out(VALUE peer, enum gyre_http_client_step step, int64_t limit_ns) {
  VALUE class = rb_path2class("Gyre::TimeoutError");
  const char *tried = gyre_http_client_steps[step];
  if (limit_ns < 0) rb_raise(class, "%s %" PRIsVALUE ": the request's time is over (timeout_s)", tried, peer);
  rb_raise(class, "%s %" PRIsVALUE ": nothing for %g s (%s)", tried, peer, (double)limit_ns / 1e9, names[step]);
}
