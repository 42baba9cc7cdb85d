/* Formats a message as an escaped line: text, JSON or a Redis command (twin:
 * test/oracle/log/line.rb). No ruby.h. Functions return 0 or -ENOMEM. */
#pragma once

#include "log/log_buffer.h"
#include "log/log_time.h"

enum gyre_log_format { GYRE_LOG_TEXT, GYRE_LOG_JSON, GYRE_LOG_REDIS, GYRE_LOG_FORMATS };

struct gyre_log_origin_text {
  struct gyre_log_text text;
  unsigned fields; /* number of fields in `text`: 0, 1 (host) or 2 (host and pid) */
};

/* A sender's host and pid in each format; all zero until gyre_log_origin_set. */
struct gyre_log_origin {
  struct gyre_log_buffer bytes;
  struct gyre_log_origin_text texts[GYRE_LOG_FORMATS];
};

struct gyre_log_line {
  struct gyre_log_text middle;               /* written by gyre_log_line_middle */
  struct gyre_log_text text;                 /* the message */
  const struct gyre_log_time *time;          /* of arrival */
  const struct gyre_log_time *logged_at;     /* NULL: unknown */
  const struct gyre_log_origin_text *origin; /* NULL: none */
};

/* Writes the part between time and message; lines of one service and severity share it. */
int gyre_log_line_middle(struct gyre_log_buffer *buffer, enum gyre_log_format format, struct gyre_log_text service,
                         struct gyre_log_text severity);
/* Writes the start that all Redis commands for the stream `key` share. */
int gyre_log_line_command(struct gyre_log_buffer *buffer, struct gyre_log_text key);

/* Call once for each origin. `pid` 0: unknown. */
int gyre_log_origin_set(struct gyre_log_origin *origin, struct gyre_log_text host, uint64_t pid);

int gyre_log_line_text(struct gyre_log_buffer *buffer, const struct gyre_log_line *line, int raw);
int gyre_log_line_json(struct gyre_log_buffer *buffer, const struct gyre_log_line *line);
int gyre_log_line_redis(struct gyre_log_buffer *buffer, const struct gyre_log_line *line, struct gyre_log_text command);
