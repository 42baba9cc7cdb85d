/* Reads a Gyre::HTTP::Limits, for each acceptor (limits.h) and for the server's capacity
 * (admission.c). */
#include "http/acceptor.h"

/* Maximum bytes of a response that are queued in a stream before the app waits. */
#define STREAM_OUTPUT_BYTES 65536

#define HEAD(field, name) GYRE_LIMIT_NUMBER(struct gyre_http_limits, field, name, 1 << 24)
#define NUMBER(type, name, most) GYRE_LIMIT_NUMBER(struct gyre_http_limits, name, #name "_limit", most),
#define TIME(name) GYRE_LIMIT_TIME(struct gyre_http_limits, name##_ns, #name "_timeout_s"),
#define HTTP2(type, name, most) GYRE_LIMIT_NUMBER(struct gyre_http_limits, http2.name, #name "_limit", most),
#define WEBSOCKET_NUMBER(type, name, most) GYRE_LIMIT_NUMBER(struct gyre_websocket_limits, name, #name "_limit", most),
#define WEBSOCKET_TIME(name) GYRE_LIMIT_TIME(struct gyre_websocket_limits, name##_ns, #name "_timeout_s"),

/* clang-format off */
static const struct gyre_limit_row rows[] = {
    HEAD(head.request_line_bytes, "request_line_bytes_limit"),
    HEAD(head.header_bytes, "header_bytes_limit"),
    HEAD(head.header_count, "header_count_limit"),
    HEAD(trailers.header_bytes, "trailer_bytes_limit"),
    GYRE_HTTP_LIMITS(NUMBER, TIME)
    GYRE_HTTP2_LIMITS(HTTP2)
};

static const struct gyre_limit_row websocket_rows[] = {GYRE_WEBSOCKET_LIMITS(WEBSOCKET_NUMBER, WEBSOCKET_TIME)};
/* clang-format on */

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

void gyre_websocket_limits_read(struct gyre_websocket_limits *table, VALUE limits) {
  GYRE_LIMITS_READ(websocket_rows, table, limits);
}

/* Trailers and requests of HTTP/2 share the limits of heads. */
void gyre_http_limits_read(struct gyre_http_limits *table, VALUE limits) {
  GYRE_LIMITS_READ(rows, table, limits);
  gyre_websocket_limits_read(&table->websocket, rb_funcall(limits, rb_intern("websocket"), 0));
  table->trailers.request_line_bytes = table->head.request_line_bytes;
  table->trailers.header_count = table->head.header_count;
  table->http2.head = table->head;
  table->http2.trailers = table->trailers;
  table->http2.output = STREAM_OUTPUT_BYTES;
}

static int64_t least(int64_t one_ns, int64_t other_ns) { return one_ns < other_ns ? one_ns : other_ns; }

/* Limits the wait for each piece, the total wait, and the rate after a grace period. */
int64_t gyre_http_body_limit_ns(const struct gyre_http_limits *limits, int64_t received, int64_t waited_ns, bool placed,
                                const char **reason) {
  int64_t limit_ns = limits->read_ns < 0 ? INT64_MAX : limits->read_ns;
  *reason = "the request's body did not come in time";
  if (limits->body_ns >= 0) limit_ns = least(limit_ns, limits->body_ns - waited_ns);
  if (limits->body_rate_bytes > 0 && limits->body_grace_ns >= 0) {
    int64_t earned_ns = gyre_http_earned_ns(received, limits->body_rate_bytes, placed);
    if (earned_ns < limits->body_grace_ns) earned_ns = limits->body_grace_ns;
    if (earned_ns - waited_ns < limit_ns) {
      limit_ns = earned_ns - waited_ns;
      *reason = "the request's body comes too slowly";
    }
  }
  if (limit_ns == INT64_MAX) return -1;
  return limit_ns < 0 ? 0 : limit_ns;
}
