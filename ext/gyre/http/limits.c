/* Reads a Gyre::HTTP::Limits, for each acceptor (limits.h) and for the server's capacity
 * (admission.c). */
#include "http/acceptor.h"

/* Maximum bytes of a response that are queued in a stream before the app waits. */
#define STREAM_OUTPUT_BYTES 65536

static VALUE limit(VALUE limits, const char *name) { return rb_funcall(limits, rb_intern(name), 0); }

static uint32_t limit_count(VALUE limits, const char *name, uint32_t most) {
  VALUE number = limit(limits, name);
  unsigned long long value = NIL_P(number) ? 0 : NUM2ULL(number);
  return value > most ? most : (uint32_t)value;
}

static int64_t limit_bytes(VALUE limits, const char *name) {
  unsigned long long value = NUM2ULL(limit(limits, name));
  return value > INT64_MAX ? INT64_MAX : (int64_t)value;
}

void gyre_http_capacity_read(struct gyre_http_capacity *capacity, VALUE limits) {
  capacity->admission.running_limit = limit_count(limits, "requests_limit", UINT32_MAX);
  capacity->admission.queue_limit = limit_count(limits, "queue_limit", UINT32_MAX);
  capacity->admission.queue_ns = gyre_duration_ns(limit(limits, "queue_timeout_s"));
  capacity->heads.limit = limit_bytes(limits, "heads_bytes_limit");
  capacity->input.limit = limit_bytes(limits, "input_bytes_limit");
  capacity->output.limit = limit_bytes(limits, "output_bytes_limit");
  capacity->files.limit = limit_count(limits, "files_limit", UINT32_MAX);
}

void gyre_http_limits_read(struct gyre_http_limits *table, VALUE limits) {
  table->head.request_line_bytes = limit_count(limits, "request_line_bytes_limit", 1 << 24);
  table->head.header_bytes = limit_count(limits, "header_bytes_limit", 1 << 24);
  table->head.header_count = (uint16_t)limit_count(limits, "header_count_limit", UINT16_MAX);
  table->trailers = table->head;
  table->trailers.header_bytes = limit_count(limits, "trailer_bytes_limit", 1 << 24);
  table->http2.head = table->head;
  table->http2.trailer_bytes = table->trailers.header_bytes;
  table->http2.streams = limit_count(limits, "streams_limit", 1 << 16);
  table->http2.resets = limit_count(limits, "stream_resets_limit", 1 << 24);
  table->http2.control_frames = limit_count(limits, "control_frames_limit", 1 << 24);
  table->http2.stream_window = limit_count(limits, "stream_window_bytes_limit", INT32_MAX);
  table->http2.connection_window = limit_count(limits, "connection_window_bytes_limit", INT32_MAX);
  table->http2.output = STREAM_OUTPUT_BYTES;
  table->body_bytes = limit_bytes(limits, "body_bytes_limit");
  table->unread_body_bytes = limit_bytes(limits, "unread_body_bytes_limit");
  table->body_rate = limit_bytes(limits, "body_rate_bytes_limit");
  table->response_rate = limit_bytes(limits, "response_rate_bytes_limit");
  table->body_ahead = limit_count(limits, "body_ahead_bytes_limit", 1 << 30);
  table->body_ns = gyre_duration_ns(limit(limits, "body_timeout_s"));
  table->body_grace_ns = gyre_duration_ns(limit(limits, "body_grace_timeout_s"));
  table->unread_body_ns = gyre_duration_ns(limit(limits, "unread_body_timeout_s"));
  table->handshake_ns = gyre_duration_ns(limit(limits, "handshake_timeout_s"));
  table->first_byte_ns = gyre_duration_ns(limit(limits, "first_byte_timeout_s"));
  table->head_ns = gyre_duration_ns(limit(limits, "head_timeout_s"));
  table->read_ns = gyre_duration_ns(limit(limits, "read_timeout_s"));
  table->write_ns = gyre_duration_ns(limit(limits, "write_timeout_s"));
  table->keep_alive_ns = gyre_duration_ns(limit(limits, "keep_alive_timeout_s"));
  table->linger_ns = gyre_duration_ns(limit(limits, "linger_timeout_s"));
  table->requests = limit_count(limits, "keep_alive_requests_limit", UINT32_MAX);
  table->request_ns = gyre_duration_ns(limit(limits, "request_timeout_s"));
  table->connections = limit_count(limits, "connections_limit", UINT32_MAX);
}

static int64_t least(int64_t one_ns, int64_t other_ns) { return one_ns < other_ns ? one_ns : other_ns; }

/* Limits the wait for each piece, the total wait, and the rate after a grace period. */
int64_t gyre_http_body_limit_ns(const struct gyre_http_limits *limits, int64_t received, int64_t waited_ns, bool placed,
                                const char **reason) {
  int64_t limit_ns = limits->read_ns < 0 ? INT64_MAX : limits->read_ns;
  *reason = "the request's body did not come in time";
  if (limits->body_ns >= 0) limit_ns = least(limit_ns, limits->body_ns - waited_ns);
  if (limits->body_rate > 0 && limits->body_grace_ns >= 0) {
    int64_t earned_ns = gyre_http_earned_ns(received, limits->body_rate, placed);
    if (earned_ns < limits->body_grace_ns) earned_ns = limits->body_grace_ns;
    if (earned_ns - waited_ns < limit_ns) {
      limit_ns = earned_ns - waited_ns;
      *reason = "the request's body comes too slowly";
    }
  }
  if (limit_ns == INT64_MAX) return -1;
  return limit_ns < 0 ? 0 : limit_ns;
}
