/* The ingest without Ruby: a hub routes messages from decoders to sinks. For log_ingest.c, a plain
 * C test and the fuzzer. No ruby.h.
 *
 *   bytes ─► decoder ─► cutter (log_frame.c) ─► hub: channel ─► sink ─► line (log_line.c) ─► bytes
 *                                                     session ┘
 *
 * A channel is a service with a severity: its sinks, and its lines' constant part. A table of fixed
 * size keeps channels; a change of routes empties it.
 *
 * A caller of ..._open holds a reference until ..._release. Routes and taps also count in
 * `references` of their sinks, decoders in those of their hub and session. Sinks must be released
 * before their hub; otherwise any order of release is valid. */
#pragma once

#include "log/log_frame.h"
#include "log/log_line.h"

struct gyre_log_hub;

#define GYRE_LOG_CLIENT_ID 32

/* A client's record numbers in a sink. */
struct gyre_log_mark {
  uint64_t sink; /* the sink's number */
  uint64_t last;
  uint64_t stored; /* last number that the output has stored */
  uint64_t turn;   /* the sink's turn at its last record */
  size_t client;   /* index in the sink's list of that turn */
  bool unknown;    /* stored records are unknown: the sink accepts none */
};

struct gyre_log_session {
  unsigned references;
  char client_id[GYRE_LOG_CLIENT_ID];
  uint64_t received;
  struct gyre_log_mark *marks;
  size_t marks_count;
  size_t unknown; /* number of unknown marks */
  bool refused;   /* refused a record because of an unknown mark */
};

struct gyre_log_session *gyre_log_session_open(const char *client_id);
void gyre_log_session_release(struct gyre_log_session *session);
/* Finds or makes the session's mark for a sink. Returns NULL if there is no memory. */
struct gyre_log_mark *gyre_log_session_mark(struct gyre_log_session *session, uint64_t sink);
/* True if a client may have reached this number. Allows a jump of 2^48, more records than a client
 * drops in its lifetime. */
bool gyre_log_session_may(const struct gyre_log_session *session, uint64_t sequence);
/* Returns the number up to which all outputs have stored records. */
uint64_t gyre_log_session_durable(const struct gyre_log_session *session);

struct gyre_log_client {
  char id[GYRE_LOG_CLIENT_ID];
  uint64_t last;
};

/* Route of messages with one service and severity. */
struct gyre_log_channel {
  size_t service_length, severity_length;
  size_t counter;
  bool wanted;
  size_t routed, sinks_count; /* first the sinks of routes, then those of taps */
  struct gyre_log_sink **sinks;
  struct gyre_log_buffer middles[GYRE_LOG_FORMATS]; /* made on demand */
  char names[];                                     /* service, severity */
};

static inline struct gyre_log_text gyre_log_channel_service(const struct gyre_log_channel *channel) {
  return (struct gyre_log_text){channel->names, channel->service_length};
}

static inline struct gyre_log_text gyre_log_channel_severity(const struct gyre_log_channel *channel) {
  return (struct gyre_log_text){channel->names + channel->service_length, channel->severity_length};
}

struct gyre_log_arrival {
  struct gyre_log_text text;
  const struct gyre_log_time *time;      /* of arrival */
  const struct gyre_log_time *logged_at; /* NULL: unknown */
  const struct gyre_log_origin *origin;  /* NULL: unknown */
};

/* Parts of a culled message: service, severity, text, origin. */
#define GYRE_LOG_LAST_PARTS 4

struct gyre_log_sink {
  unsigned references;
  size_t *total; /* hub->bytes, which counts sinks that have no limit */
  uint64_t number;
  enum gyre_log_format format;
  bool cull, raw;
  bool origin;  /* lines show the origin */
  size_t limit; /* SIZE_MAX: none */
  /* Beyond the bound the sink is full: senders pause, and messages of senders that cannot pause are
   * dropped. Beyond twice the bound plus 16 MB, refuses records and drops other messages. */
  size_t bound;   /* SIZE_MAX: none */
  size_t pending; /* bytes taken, but not written yet */
  bool drops;     /* drops messages when full: no client waits for its records */
  bool hit;       /* a decoder's message met a full sink */
  struct gyre_log_buffer command;
  struct gyre_log_buffer bytes;
  uint64_t lines, dropped;
  uint64_t turn; /* number of times that the sink was emptied */
  struct gyre_log_client *clients;
  size_t clients_count, clients_capacity;
  /* For culling: the last message, origin and repetitions. */
  struct gyre_log_buffer last;
  size_t last_lengths[GYRE_LOG_LAST_PARTS];
  unsigned last_fields;
  bool has_last;
  uint64_t repeats;
  struct gyre_log_time repeat_time, repeat_logged_at;
};

void gyre_log_sink_release(struct gyre_log_sink *sink);
/* Returns 0 or -ENOMEM. */
int gyre_log_sink_add(struct gyre_log_sink *sink, struct gyre_log_channel *channel,
                      const struct gyre_log_arrival *arrival);
/* Notes that the sink has a client's records. Returns 0 or -ENOMEM. */
int gyre_log_sink_note(struct gyre_log_sink *sink, const struct gyre_log_session *session, struct gyre_log_mark *mark);
/* Writes the line about repeated messages, before bytes and clients are read. Returns 0 or
 * -ENOMEM. */
int gyre_log_sink_finish(struct gyre_log_sink *sink);
/* Called after bytes and clients are read. */
void gyre_log_sink_clear(struct gyre_log_sink *sink);

/* True if the sink's bytes, with unwritten bytes, exceed its bound divided by `parts`. */
static inline bool gyre_log_sink_exceeds(const struct gyre_log_sink *sink, size_t parts) {
  return sink->bytes.length + sink->pending > sink->bound / parts;
}

/* True if memory is large and hardly used: the caller frees it. Other memory is reused. */
static inline bool gyre_log_is_waste(size_t capacity, size_t needed) {
  return capacity > (size_t)4 << 20 && needed < capacity / 8;
}

struct gyre_log_route {
  bool for_all; /* for services that have no route */
  struct gyre_log_buffer service;
  bool every_severity;
  struct gyre_log_buffer *severities;
  size_t severities_count;
  struct gyre_log_sink **sinks;
  size_t sinks_count;
};

struct gyre_log_tap {
  struct gyre_log_sink *sink;
  bool every_service;
  struct gyre_log_buffer service;
};

/* Longer names have no counter. */
#define GYRE_LOG_SERVICE_LIMIT 255
/* Name of counter 0, for services that have no counter. */
#define GYRE_LOG_OTHERS "(others)"

struct gyre_log_counter {
  struct gyre_log_buffer service;
  uint64_t count;
};

#define GYRE_LOG_CHANNELS 1024 /* a power of two */

struct gyre_log_hub {
  unsigned references;
  uint64_t messages, filtered;
  size_t bytes;      /* bytes of incomplete messages and of sinks that have no limit */
  size_t incomplete; /* bytes of incomplete messages */
  uint64_t sinks_opened;
  bool crowded;                         /* a decoder's message met a full sink */
  const struct gyre_log_origin *origin; /* origin of the present message; NULL: unknown */
  bool unstoppable;                     /* the present message's sender cannot pause */
  struct gyre_log_time time, logged_at;
  struct gyre_log_buffer scratch;
  struct gyre_log_route *routes;
  size_t routes_count;
  struct gyre_log_tap *taps;
  size_t taps_count;
  struct gyre_log_channel *channels[GYRE_LOG_CHANNELS];
  struct gyre_log_channel *latest; /* in the table, or `single` */
  struct gyre_log_channel *single; /* for names beyond the table's limit */
  struct gyre_log_counter *counters;
  size_t counters_count, counters_limit;
};

struct gyre_log_hub *gyre_log_hub_open(size_t services_limit);
void gyre_log_hub_release(struct gyre_log_hub *hub);

/* Opens a sink, which must be released before the hub. `key`: the stream's name for GYRE_LOG_REDIS.
 * Returns NULL if there is no memory. */
struct gyre_log_sink *gyre_log_hub_open_sink(struct gyre_log_hub *hub, enum gyre_log_format format,
                                             struct gyre_log_text key);

/* Replaces the service's route. Takes `route`'s contents even on failure. Returns 0 or -ENOMEM. */
int gyre_log_hub_route(struct gyre_log_hub *hub, struct gyre_log_route *route);
void gyre_log_route_free(struct gyre_log_route *route);
/* `service`: NULL for all services. Returns 0 or -ENOMEM. */
int gyre_log_hub_tap(struct gyre_log_hub *hub, struct gyre_log_sink *sink, const struct gyre_log_text *service);
void gyre_log_hub_untap(struct gyre_log_hub *hub, struct gyre_log_sink *sink);
/* Delivers a message of hub->time. Returns 0, -ENOMEM, or -EAGAIN if a sink cannot take the record;
 * no sink has it then. */
int gyre_log_hub_deliver(struct gyre_log_hub *hub, const struct gyre_log_message *message,
                         struct gyre_log_session *session);

struct gyre_log_decoder {
  struct gyre_log_hub *hub;
  struct gyre_log_session *session; /* or NULL */
  struct gyre_log_cutter cutter;
  struct gyre_log_buffer rest;   /* an incomplete message */
  struct gyre_log_buffer lines;  /* whole JSON lines, which Ruby parses */
  struct gyre_log_origin origin; /* set before the first message, if known */
  uint64_t messages;
  int wrong; /* an enum gyre_log_wrong, or 0 */
};

/* Takes a reference to the hub, and to the session unless NULL. */
void gyre_log_decoder_open(struct gyre_log_decoder *decoder, struct gyre_log_hub *hub, struct gyre_log_session *session,
                           enum gyre_log_kind kind, enum gyre_log_framing framing, size_t limit);
void gyre_log_decoder_close(struct gyre_log_decoder *decoder);
/* Delivers a message of hub->time that Ruby has parsed. Returns as gyre_log_hub_deliver. */
int gyre_log_decoder_deliver(struct gyre_log_decoder *decoder, const struct gyre_log_message *message);
/* Returns 0, an enum gyre_log_wrong, or -ENOMEM. */
int gyre_log_decoder_feed(struct gyre_log_decoder *decoder, const char *bytes, size_t length, int64_t time_ns);
/* Ends the input. Returns as gyre_log_decoder_feed. */
int gyre_log_decoder_finish(struct gyre_log_decoder *decoder, int64_t time_ns);
