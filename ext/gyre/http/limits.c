/* Reads a Gyre::HTTP::Limits, for each acceptor (limits.h) and for the server's capacity
 * (admission.c). */
#include "http/acceptor.h"
#include "http/limit_rows.h"

/* Maximum bytes of a response that are queued in a stream before the app waits. */
#define STREAM_OUTPUT_BYTES 65536

#define NUMBER(field, name, most) GYRE_LIMIT_NUMBER(struct gyre_http_limits, field, name, most)
#define TIME(field, name) GYRE_LIMIT_TIME(struct gyre_http_limits, field, name)

static const struct gyre_limit_row rows[] = {
    NUMBER(head.request_line_bytes, "request_line_bytes_limit", 1 << 24),
    NUMBER(head.header_bytes, "header_bytes_limit", 1 << 24),
    NUMBER(head.header_count, "header_count_limit", 0),
    NUMBER(trailers.header_bytes, "trailer_bytes_limit", 1 << 24),
    NUMBER(http2.streams, "streams_limit", 1 << 16),
    NUMBER(http2.resets, "stream_resets_limit", 1 << 24),
    NUMBER(http2.control_frames, "control_frames_limit", 1 << 24),
    NUMBER(http2.stream_window, "stream_window_bytes_limit", INT32_MAX),
    NUMBER(http2.connection_window, "connection_window_bytes_limit", INT32_MAX),
    NUMBER(body_bytes, "body_bytes_limit", 0),
    NUMBER(unread_body_bytes, "unread_body_bytes_limit", 0),
    NUMBER(body_rate, "body_rate_bytes_limit", 0),
    NUMBER(response_rate, "response_rate_bytes_limit", 0),
    NUMBER(body_ahead, "body_ahead_bytes_limit", 1 << 30),
    NUMBER(requests, "keep_alive_requests_limit", 0),
    NUMBER(connections, "connections_limit", 0),
    TIME(body_ns, "body_timeout_s"),
    TIME(body_grace_ns, "body_grace_timeout_s"),
    TIME(unread_body_ns, "unread_body_timeout_s"),
    TIME(handshake_ns, "handshake_timeout_s"),
    TIME(first_byte_ns, "first_byte_timeout_s"),
    TIME(head_ns, "head_timeout_s"),
    TIME(read_ns, "read_timeout_s"),
    TIME(write_ns, "write_timeout_s"),
    TIME(keep_alive_ns, "keep_alive_timeout_s"),
    TIME(linger_ns, "linger_timeout_s"),
    TIME(request_ns, "request_timeout_s"),
};

static const struct gyre_limit_row capacity_rows[] = {
    GYRE_LIMIT_NUMBER(struct gyre_http_capacity, admission.running_limit, "requests_limit", 0),
    GYRE_LIMIT_NUMBER(struct gyre_http_capacity, admission.queue_limit, "queue_limit", 0),
    GYRE_LIMIT_TIME(struct gyre_http_capacity, admission.queue_ns, "queue_timeout_s"),
    GYRE_LIMIT_NUMBER(struct gyre_http_capacity, heads.limit, "heads_bytes_limit", 0),
    GYRE_LIMIT_NUMBER(struct gyre_http_capacity, input.limit, "input_bytes_limit", 0),
    GYRE_LIMIT_NUMBER(struct gyre_http_capacity, output.limit, "output_bytes_limit", 0),
    GYRE_LIMIT_NUMBER(struct gyre_http_capacity, files.limit, "files_limit", UINT32_MAX),
};

void gyre_http_capacity_read(struct gyre_http_capacity *capacity, VALUE limits) {
  GYRE_LIMITS_READ(capacity_rows, capacity, limits);
}

/* Trailers and requests of HTTP/2 share the limits of heads. */
void gyre_http_limits_read(struct gyre_http_limits *table, VALUE limits) {
  GYRE_LIMITS_READ(rows, table, limits);
  table->trailers.request_line_bytes = table->head.request_line_bytes;
  table->trailers.header_count = table->head.header_count;
  table->http2.head = table->head;
  table->http2.trailer_bytes = table->trailers.header_bytes;
  table->http2.output = STREAM_OUTPUT_BYTES;
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
