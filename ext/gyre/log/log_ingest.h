/*
 * The log's ingest for Ruby: what its classes share (see log_ingest.c).
 */
#ifndef GYRE_LOG_INGEST_H
#define GYRE_LOG_INGEST_H

#include <ruby.h>

#include "log/log_hub.h"

void gyre_init_log_ingest(void);
void gyre_init_log_sink(VALUE log);
void gyre_init_log_stream(VALUE log);
void gyre_init_log_signals(VALUE log);

extern const rb_data_type_t gyre_log_ingest_type;

struct gyre_log_hub *gyre_log_hub_of(VALUE ingest);
struct gyre_log_sink *gyre_log_sink_of(VALUE sink);
/* NULL for nil. */
struct gyre_log_session *gyre_log_session_of(VALUE session);

/* The methods of an ingest that make the others. */
VALUE gyre_log_open_sink(VALUE self, VALUE format, VALUE cull, VALUE raw, VALUE origin, VALUE limit, VALUE bound,
                         VALUE drops, VALUE key);
VALUE gyre_log_open_session(VALUE self, VALUE client_id, VALUE last);
VALUE gyre_log_open_stream(VALUE self, VALUE kind, VALUE framing, VALUE session, VALUE limit, VALUE host, VALUE pid);

/* What sinks and streams that are given a message in Ruby do with it, at that time. */
VALUE gyre_log_message(struct gyre_log_hub *hub, VALUE texts[3], VALUE time_ns,
                       int (*deliver)(void *, const struct gyre_log_message *), void *to);

/* Raises NoMemoryError for -ENOMEM. */
int gyre_log_check(int result);
/* The text of a Ruby String; a TypeError for anything else. */
struct gyre_log_text gyre_log_text_of_string(VALUE *string);

#endif
