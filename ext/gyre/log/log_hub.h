/* The ingest without Ruby: a hub routes messages from decoders to sinks. For log_ingest.c, a plain
 * C test and the fuzzer. No ruby.h.
 *
 *   bytes ─► decoder ─► cutter (log_frame.c) ─► hub: channel ─► sink ─► line (log_line.c) ─► bytes
 *                                                     session ┘
 *
 * A channel has what all messages of one service and severity share: their sinks, and the constant
 * part of their lines. A table of fixed size keeps channels; a change of routes empties it.
 *
 * A caller of ..._open holds a reference until ..._release. Routes and taps hold references to
 * their sinks, and decoders to their hub and session. Sinks must be released before their hub;
 * otherwise any order of release is valid. */
#pragma once

#include "log/log_frame.h"
#include "log/log_line.h"

struct gyre_log_hub;

#define GYRE_LOG_CLIENT_ID 32

/* The numbers of one client's records in one sink. */
struct gyre_log_mark {
  uint64_t sink; /* the sink's number */
  uint64_t last;
  uint64_t stored; /* the last number that the output has stored */
  uint64_t turn;   /* the sink's turn when it got the last record */
  size_t client;   /* the client's index in sink->clients in that turn */
  bool unknown;    /* it is unknown which records are stored, so the sink accepts no records */
};

struct gyre_log_session {
  unsigned references;
  char client_id[GYRE_LOG_CLIENT_ID];
  uint64_t received;
  struct gyre_log_mark *marks;
  size_t marks_count;
  size_t unknown; /* number of marks whose `unknown` is true */
  bool refused;   /* a record was refused because a mark's `unknown` was true */
};

struct gyre_log_session *gyre_log_session_open(const char *client_id);
void gyre_log_session_release(struct gyre_log_session *session);
/* Finds or makes the session's mark for a sink. Returns NULL if memory runs out. */
struct gyre_log_mark *gyre_log_session_mark(struct gyre_log_session *session, uint64_t sink);
/* True if a client may have reached this number. Numbers may jump by up to 2^48, because no client
 * drops that many records in its lifetime. */
bool gyre_log_session_may(const struct gyre_log_session *session, uint64_t sequence);
/* Returns the number up to which all outputs have stored the client's records. */
uint64_t gyre_log_session_durable(const struct gyre_log_session *session);

struct gyre_log_client {
  char id[GYRE_LOG_CLIENT_ID];
  uint64_t last;
};

/* Holds what all messages with one service and severity share. */
struct gyre_log_channel {
  size_t service_length, severity_length;
  size_t counter;
  bool wanted;
  size_t routed, sinks_count; /* `sinks`: first the `routed` sinks of a route, then those of taps */
  struct gyre_log_sink **sinks;
  struct gyre_log_buffer middles[GYRE_LOG_FORMATS]; /* constant parts of lines, made on demand */
  char names[];                                     /* the service, then the severity */
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
  struct gyre_log_origin *origin;        /* NULL: unknown */
};

/* Number of the parts that culling compares: service, severity, text, origin. */
#define GYRE_LOG_LAST_PARTS 4

struct gyre_log_sink {
  unsigned references;
  size_t *total; /* points to hub->bytes, which counts the bytes of sinks without a limit */
  uint64_t number;
  enum gyre_log_format format;
  bool cull, raw;
  unsigned origin; /* how lines show the origin: enum gyre_log_form */
  size_t limit;    /* SIZE_MAX: none */
  /* Beyond the bound, the sink is full: senders pause; messages whose senders cannot pause are
   * dropped. Beyond twice the bound plus 16 MB, it refuses records and drops other messages. */
  size_t bound;   /* SIZE_MAX: none */
  size_t pending; /* bytes given to the output and not yet written */
  bool drops;     /* drops messages while full; its records count as stored at once */
  bool hit;       /* the full sink has taken a message since the last `hit?` */
  struct gyre_log_buffer command;
  struct gyre_log_buffer bytes;
  uint64_t lines, dropped;
  uint64_t turn; /* number of times that the sink was emptied */
  struct gyre_log_client *clients;
  size_t clients_count, clients_capacity;
  /* For culling: the last message, its origin, and how often it was repeated. */
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
/* Enters mark->last, the client's last number, in the sink's clients. Returns 0 or -ENOMEM. */
int gyre_log_sink_note(struct gyre_log_sink *sink, const struct gyre_log_session *session, struct gyre_log_mark *mark);
/* Call before reading bytes and clients: writes the line about repeated messages, if there are any.
 * Returns 0 or -ENOMEM. */
int gyre_log_sink_finish(struct gyre_log_sink *sink);
/* Call after reading bytes and clients: empties the sink. */
void gyre_log_sink_clear(struct gyre_log_sink *sink);

/* True if the bytes in the sink and those pending exceed its bound divided by `parts`. */
static inline bool gyre_log_sink_exceeds(const struct gyre_log_sink *sink, size_t parts) {
  return sink->bytes.length + sink->pending > sink->bound / parts;
}

/* True if memory is large and hardly used; the caller then frees it instead of reusing it. */
static inline bool gyre_log_is_waste(size_t capacity, size_t needed) {
  return capacity > (size_t)4 << 20 && needed < capacity / 8;
}

struct gyre_log_route {
  bool for_all; /* for all services that have no route of their own */
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

/* Maximum bytes of the name of a service that has a counter. */
#define GYRE_LOG_SERVICE_LIMIT 255
/* Name of counter 0, which counts the messages of services without a counter of their own. */
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
  bool crowded;                    /* a decoder's message has come while a sink was full */
  struct gyre_log_origin *origin;  /* origin of the present message; NULL: unknown */
  struct gyre_log_origin datagram; /* for messages of syslog without a decoder */
  bool unstoppable;                /* the present message's sender cannot pause */
  struct gyre_log_time time, logged_at;
  struct gyre_log_buffer scratch;
  struct gyre_log_route *routes;
  size_t routes_count;
  struct gyre_log_tap *taps;
  size_t taps_count;
  struct gyre_log_channel *channels[GYRE_LOG_CHANNELS];
  struct gyre_log_channel *latest; /* the last used channel, in the table or `single` */
  struct gyre_log_channel *single; /* a channel whose names are too long for the table */
  struct gyre_log_counter *counters;
  size_t counters_count, counters_limit;
};

struct gyre_log_hub *gyre_log_hub_open(size_t services_limit);
void gyre_log_hub_release(struct gyre_log_hub *hub);

/* Opens a sink, which must be released before the hub. `key`: the stream's name for GYRE_LOG_REDIS.
 * Returns NULL if memory runs out. */
struct gyre_log_sink *gyre_log_hub_open_sink(struct gyre_log_hub *hub, enum gyre_log_format format,
                                             struct gyre_log_text key);

/* Adds a route, or replaces that of the same service and severities. From then on the hub owns the
 * contents of `route`; a failure frees them. Returns 0 or -ENOMEM. */
int gyre_log_hub_route(struct gyre_log_hub *hub, struct gyre_log_route *route);
void gyre_log_route_free(struct gyre_log_route *route);
/* Adds or replaces the sink's tap. `service`: NULL for all services. Returns 0 or -ENOMEM. */
int gyre_log_hub_tap(struct gyre_log_hub *hub, struct gyre_log_sink *sink, const struct gyre_log_text *service);
void gyre_log_hub_untap(struct gyre_log_hub *hub, struct gyre_log_sink *sink);
/* Delivers a message that arrived at hub->time. Returns 0, -ENOMEM, or -EAGAIN if a sink refuses
 * the record; then no sink gets it. */
int gyre_log_hub_deliver(struct gyre_log_hub *hub, const struct gyre_log_message *message,
                         struct gyre_log_session *session);

struct gyre_log_decoder {
  struct gyre_log_hub *hub;
  struct gyre_log_session *session; /* or NULL */
  struct gyre_log_cutter cutter;
  struct gyre_log_buffer rest;   /* bytes of an incomplete message */
  struct gyre_log_buffer lines;  /* whole JSON lines, which Ruby parses */
  struct gyre_log_origin origin; /* set before the first message, if known */
  uint64_t messages;
  int wrong; /* an enum gyre_log_wrong, or 0 */
};

/* Takes a reference to the hub and, unless NULL, to the session. */
void gyre_log_decoder_open(struct gyre_log_decoder *decoder, struct gyre_log_hub *hub, struct gyre_log_session *session,
                           enum gyre_log_kind kind, enum gyre_log_framing framing, size_t limit);
void gyre_log_decoder_close(struct gyre_log_decoder *decoder);
/* Delivers a message that Ruby has parsed. Otherwise works as gyre_log_hub_deliver. */
int gyre_log_decoder_deliver(struct gyre_log_decoder *decoder, const struct gyre_log_message *message);
/* Returns 0, an enum gyre_log_wrong, or -ENOMEM. */
int gyre_log_decoder_feed(struct gyre_log_decoder *decoder, const char *bytes, size_t length, int64_t time_ns);
/* Ends the input. Returns as gyre_log_decoder_feed. */
int gyre_log_decoder_finish(struct gyre_log_decoder *decoder, int64_t time_ns);
