/* Formats a message as an escaped line: text, JSON or a Redis command (twin:
 * test/oracle/log/line.rb). No ruby.h. Functions return 0 or -ENOMEM. */
#pragma once

#include "log/log_buffer.h"
#include "log/log_time.h"

enum gyre_log_format { GYRE_LOG_TEXT, GYRE_LOG_JSON, GYRE_LOG_REDIS, GYRE_LOG_FORMATS };

/* Where an origin is shown: in one of the formats, or STATED: in text, only what the message itself
 * states. */
enum gyre_log_form { GYRE_LOG_STATED = GYRE_LOG_FORMATS, GYRE_LOG_FORMS, GYRE_LOG_NO_ORIGIN = GYRE_LOG_FORMS };

struct gyre_log_origin_text {
  struct gyre_log_text text;
  unsigned fields; /* number of fields in `text` */
};

struct gyre_log_names {
  struct gyre_log_text host, pid; /* empty: unknown */
};

/* Where a message comes from. Texts are made on demand, once for each message of syslog, or for all
 * messages of another decoder. All zero is an unknown origin. */
struct gyre_log_origin {
  struct gyre_log_names stated, peer; /* by the message; of the connection */
  struct gyre_log_text facility;
  struct gyre_log_buffer names; /* the bytes of `peer`, if gyre_log_origin_set copied them */
  struct gyre_log_buffer forms[GYRE_LOG_FORMS];
  unsigned fields[GYRE_LOG_FORMS]; /* UINT_MAX: the form is to be made */
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

/* Sets `peer`. Call once for each origin. `pid` 0: unknown. */
int gyre_log_origin_set(struct gyre_log_origin *origin, struct gyre_log_text host, uint64_t pid);
/* Sets what a message of syslog states; its texts are valid as long as those. */
void gyre_log_origin_state(struct gyre_log_origin *origin, struct gyre_log_names names, struct gyre_log_text facility);
/* `text` is empty if nothing is known. It is valid until the origin changes. */
int gyre_log_origin_text(struct gyre_log_origin *origin, unsigned form, struct gyre_log_origin_text *text);
void gyre_log_origin_free(struct gyre_log_origin *origin);
size_t gyre_log_origin_size(const struct gyre_log_origin *origin);

int gyre_log_line_text(struct gyre_log_buffer *buffer, const struct gyre_log_line *line, int raw);
int gyre_log_line_json(struct gyre_log_buffer *buffer, const struct gyre_log_line *line);
int gyre_log_line_redis(struct gyre_log_buffer *buffer, const struct gyre_log_line *line, struct gyre_log_text command);
