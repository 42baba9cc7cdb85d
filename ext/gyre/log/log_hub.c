/* Routes, taps, channels and counts of the ingest (log_hub.h). */
#include "log/log_hub.h"

/* Maximum bytes of service and severity together in the table of channels. */
#define NAMES_LIMIT 255
/* Maximum number of services that have counters. */
#define COUNTERS_MAX ((size_t)1 << 20)

static void channel_free(struct gyre_log_channel *channel) {
  if (!channel) return;
  for (int format = 0; format < GYRE_LOG_FORMATS; format++) gyre_log_buffer_free(&channel->middles[format]);
  free(channel->sinks);
  free(channel);
}

static void clear_channels(struct gyre_log_hub *hub) {
  for (size_t i = 0; i < GYRE_LOG_CHANNELS; i++) {
    channel_free(hub->channels[i]);
    hub->channels[i] = NULL;
  }
  channel_free(hub->single);
  hub->single = hub->latest = NULL;
}

struct gyre_log_hub *gyre_log_hub_open(size_t services_limit) {
  struct gyre_log_hub *const hub = calloc(1, sizeof(*hub));
  if (!hub) return NULL;
  hub->references = 1;
  hub->counters_limit = services_limit < COUNTERS_MAX ? services_limit : COUNTERS_MAX;
  hub->counters = calloc(hub->counters_limit + 1, sizeof(*hub->counters));
  hub->counters_count = hub->counters != NULL;
  if (!hub->counters || gyre_log_buffer_append_text(&hub->counters[0].service, GYRE_LOG_OTHERS) < 0) {
    gyre_log_hub_release(hub);
    return NULL;
  }
  return hub;
}

void gyre_log_route_free(struct gyre_log_route *route) {
  for (size_t i = 0; i < route->severities_count; i++) gyre_log_buffer_free(&route->severities[i]);
  for (size_t i = 0; i < route->sinks_count; i++) gyre_log_sink_release(route->sinks[i]);
  free(route->severities);
  free(route->sinks);
  gyre_log_buffer_free(&route->service);
  memset(route, 0, sizeof(*route));
}

static void tap_free(struct gyre_log_tap *tap) {
  gyre_log_sink_release(tap->sink);
  gyre_log_buffer_free(&tap->service);
}

void gyre_log_hub_release(struct gyre_log_hub *hub) {
  if (!hub || --hub->references > 0) return;
  clear_channels(hub);
  for (size_t i = 0; i < hub->routes_count; i++) gyre_log_route_free(&hub->routes[i]);
  for (size_t i = 0; i < hub->taps_count; i++) tap_free(&hub->taps[i]);
  for (size_t i = 0; i < hub->counters_count; i++) gyre_log_buffer_free(&hub->counters[i].service);
  gyre_log_buffer_free(&hub->scratch);
  gyre_log_origin_free(&hub->datagram);
  free(hub->routes);
  free(hub->taps);
  free(hub->counters);
  free(hub);
}

static bool same_messages(const struct gyre_log_route *one, const struct gyre_log_route *two) {
  if (one->for_all != two->for_all || one->every_severity != two->every_severity) return false;
  if (!one->for_all && !gyre_log_same(gyre_log_text_of(&one->service), gyre_log_text_of(&two->service))) return false;
  if (one->severities_count != two->severities_count) return false;
  for (size_t i = 0; i < one->severities_count; i++) {
    if (!gyre_log_same(gyre_log_text_of(&one->severities[i]), gyre_log_text_of(&two->severities[i]))) return false;
  }
  return true;
}

int gyre_log_hub_route(struct gyre_log_hub *hub, struct gyre_log_route *route) {
  clear_channels(hub);
  for (size_t i = 0; i < hub->routes_count; i++) {
    if (!same_messages(&hub->routes[i], route)) continue;
    gyre_log_route_free(&hub->routes[i]);
    hub->routes[i] = *route;
    return 0;
  }
  struct gyre_log_route *const routes = realloc(hub->routes, (hub->routes_count + 1) * sizeof(*routes));
  if (!routes) {
    gyre_log_route_free(route);
    return -ENOMEM;
  }
  hub->routes = routes;
  routes[hub->routes_count++] = *route;
  return 0;
}

int gyre_log_hub_tap(struct gyre_log_hub *hub, struct gyre_log_sink *sink, const struct gyre_log_text *service) {
  struct gyre_log_tap tap = {sink, service == NULL, {NULL, 0, 0}};
  struct gyre_log_tap *const taps = realloc(hub->taps, (hub->taps_count + 1) * sizeof(*taps));
  if (!taps) return -ENOMEM;
  hub->taps = taps;
  if (service && gyre_log_buffer_append(&tap.service, service->bytes, service->length) < 0) return -ENOMEM;
  sink->references++;
  gyre_log_hub_untap(hub, sink);
  taps[hub->taps_count++] = tap;
  return 0;
}

void gyre_log_hub_untap(struct gyre_log_hub *hub, struct gyre_log_sink *sink) {
  clear_channels(hub);
  for (size_t i = 0; i < hub->taps_count; i++) {
    if (hub->taps[i].sink != sink) continue;
    struct gyre_log_tap tap = hub->taps[i];
    memmove(&hub->taps[i], &hub->taps[i + 1], (--hub->taps_count - i) * sizeof(tap));
    tap_free(&tap);
    return;
  }
}

/* Hashes eight bytes at a time; collisions only cost time. */
static uint64_t hash_of(struct gyre_log_text text, uint64_t seed) {
  uint64_t hash = seed ^ text.length * UINT64_C(0x9e3779b97f4a7c15), eight;
  for (; text.length >= 8; text.length -= 8, text.bytes += 8) {
    memcpy(&eight, text.bytes, 8);
    hash = (hash ^ eight) * UINT64_C(0xff51afd7ed558ccd);
    hash ^= hash >> 32;
  }
  eight = 0;
  if (text.length > 0) memcpy(&eight, text.bytes, text.length);
  hash = (hash ^ eight) * UINT64_C(0xff51afd7ed558ccd);
  return hash ^ hash >> 32;
}

/* Finds or makes the service's counter. Returns its index, or SIZE_MAX if memory runs out. */
static size_t counter_of(struct gyre_log_hub *hub, struct gyre_log_text service) {
  if (service.length > GYRE_LOG_SERVICE_LIMIT) return 0;
  for (size_t i = 1; i < hub->counters_count; i++) {
    if (gyre_log_same(gyre_log_text_of(&hub->counters[i].service), service)) return i;
  }
  if (hub->counters_count > hub->counters_limit) return 0;
  struct gyre_log_buffer *const name = &hub->counters[hub->counters_count].service;
  if (gyre_log_buffer_append(name, service.bytes, service.length) < 0) return SIZE_MAX;
  return hub->counters_count++;
}

static bool is_own(const struct gyre_log_route *route, struct gyre_log_text service) {
  return !route->for_all && gyre_log_same(gyre_log_text_of(&route->service), service);
}

static bool has_own(const struct gyre_log_hub *hub, struct gyre_log_text service) {
  for (size_t i = 0; i < hub->routes_count; i++) {
    if (is_own(&hub->routes[i], service)) return true;
  }
  return false;
}

static bool includes(const struct gyre_log_route *route, struct gyre_log_text severity) {
  if (route->every_severity) return true;
  for (size_t i = 0; i < route->severities_count; i++) {
    if (gyre_log_same(gyre_log_text_of(&route->severities[i]), severity)) return true;
  }
  return false;
}

static void add_sink(struct gyre_log_channel *channel, struct gyre_log_sink *sink) {
  for (size_t i = 0; i < channel->sinks_count; i++) {
    if (channel->sinks[i] == sink) return;
  }
  channel->sinks[channel->sinks_count++] = sink;
}

/* A service's own routes replace those for all services. */
static int find_sinks(const struct gyre_log_hub *hub, struct gyre_log_channel *channel, struct gyre_log_text service,
                      struct gyre_log_text severity) {
  const bool own = has_own(hub, service);
  size_t limit = hub->taps_count + 1;
  for (size_t i = 0; i < hub->routes_count; i++) limit += hub->routes[i].sinks_count;
  channel->sinks = calloc(limit, sizeof(*channel->sinks));
  if (!channel->sinks) return -ENOMEM;
  for (size_t i = 0; i < hub->routes_count; i++) {
    const struct gyre_log_route *const route = &hub->routes[i];
    if (!(own ? is_own(route, service) : route->for_all) || !includes(route, severity)) continue;
    channel->wanted = true;
    for (size_t j = 0; j < route->sinks_count; j++) add_sink(channel, route->sinks[j]);
  }
  if (!channel->wanted) return 0;
  channel->routed = channel->sinks_count;
  for (size_t i = 0; i < hub->taps_count; i++) {
    const struct gyre_log_tap *const tap = &hub->taps[i];
    if (tap->every_service || gyre_log_same(gyre_log_text_of(&tap->service), service)) add_sink(channel, tap->sink);
  }
  return 0;
}

static struct gyre_log_channel *channel_open(struct gyre_log_hub *hub, struct gyre_log_text service,
                                             struct gyre_log_text severity) {
  struct gyre_log_channel *const channel = calloc(1, sizeof(*channel) + service.length + severity.length);
  if (!channel) return NULL;
  if (service.length > 0) memcpy(channel->names, service.bytes, service.length);
  if (severity.length > 0) memcpy(channel->names + service.length, severity.bytes, severity.length);
  channel->service_length = service.length;
  channel->severity_length = severity.length;
  channel->counter = counter_of(hub, service);
  if (channel->counter == SIZE_MAX || find_sinks(hub, channel, service, severity) < 0) {
    channel_free(channel);
    return NULL;
  }
  return channel;
}

static bool is_for(const struct gyre_log_channel *channel, struct gyre_log_text service,
                   struct gyre_log_text severity) {
  return channel && gyre_log_same(gyre_log_channel_service(channel), service) &&
         gyre_log_same(gyre_log_channel_severity(channel), severity);
}

/* Finds or makes a channel, which is valid until the next call. Returns NULL without memory. */
static struct gyre_log_channel *channel_of(struct gyre_log_hub *hub, struct gyre_log_text service,
                                           struct gyre_log_text severity) {
  if (is_for(hub->latest, service, severity)) return hub->latest;
  const bool single = service.length + severity.length > NAMES_LIMIT;
  const size_t slot = hash_of(severity, hash_of(service, 0)) & (GYRE_LOG_CHANNELS - 1);
  struct gyre_log_channel **const place = single ? &hub->single : &hub->channels[slot];
  if (!is_for(*place, service, severity)) {
    struct gyre_log_channel *const channel = channel_open(hub, service, severity);
    if (!channel) return NULL;
    if (hub->latest == *place) hub->latest = NULL;
    channel_free(*place);
    *place = channel;
  }
  return hub->latest = *place;
}

/* Bytes of a sink beyond twice its bound: many connections may send before they pause. */
#define SLACK ((size_t)16 << 20)

static bool is_overfull(const struct gyre_log_sink *sink) {
  const size_t bytes = sink->bytes.length + sink->pending;
  return gyre_log_sink_exceeds(sink, 1) && bytes / 2 > sink->bound && bytes - 2 * sink->bound > SLACK;
}

/* Returns true if the message is dropped. If a full sink takes the message, the sender pauses. */
static bool drops(struct gyre_log_hub *hub, struct gyre_log_sink *sink, bool anyway) {
  if (!gyre_log_sink_exceeds(sink, 1)) return false;
  if (sink->drops || anyway) {
    sink->dropped++;
    return true;
  }
  sink->hit = hub->crowded = true;
  return false;
}

/* Returns -EAGAIN if a sink refuses the record: then no sink gets it, and the client repeats it.
 * Otherwise returns 0 or -ENOMEM. */
static int check_record(const struct gyre_log_channel *channel, uint64_t sequence, struct gyre_log_session *session) {
  for (size_t i = 0; i < channel->routed; i++) {
    const struct gyre_log_sink *const sink = channel->sinks[i];
    const bool no_room = !sink->drops && is_overfull(sink);
    if (session->unknown == 0 && !no_room) continue;
    const struct gyre_log_mark *const mark = gyre_log_session_mark(session, sink->number);
    if (!mark) return -ENOMEM;
    session->refused |= mark->unknown;
    if (mark->unknown || (no_room && sequence > mark->last)) return -EAGAIN;
  }
  return 0;
}

/* Gives a record to a sink. Returns 0 if the sink has had it already, otherwise 1 or -ENOMEM. */
static int give(struct gyre_log_hub *hub, struct gyre_log_sink *sink, struct gyre_log_channel *channel,
                const struct gyre_log_arrival *arrival, uint64_t sequence, struct gyre_log_session *session) {
  struct gyre_log_mark *const mark = gyre_log_session_mark(session, sink->number);
  if (!mark) return -ENOMEM;
  if (sequence <= mark->last) return 0;
  if (sink->drops) mark->stored = sequence;
  const bool dropped = drops(hub, sink, false);
  if (!dropped && gyre_log_sink_add(sink, channel, arrival) < 0) return -ENOMEM;
  mark->last = sequence;
  if (sink->drops || dropped) return 1;
  return gyre_log_sink_note(sink, session, mark) < 0 ? -ENOMEM : 1;
}

/* Sessions do not track taps: a tap gets a record if the record was new for another sink. */
static int give_all(struct gyre_log_hub *hub, struct gyre_log_channel *channel, const struct gyre_log_arrival *arrival,
                    uint64_t sequence, struct gyre_log_session *session) {
  bool fresh = !session;
  size_t i = 0;
  for (; session && i < channel->routed; i++) {
    const int result = give(hub, channel->sinks[i], channel, arrival, sequence, session);
    if (result < 0) return -ENOMEM;
    fresh |= result > 0;
  }
  for (; fresh && i < channel->sinks_count; i++) {
    struct gyre_log_sink *const sink = channel->sinks[i];
    if (drops(hub, sink, hub->unstoppable || is_overfull(sink))) continue;
    if (gyre_log_sink_add(sink, channel, arrival) < 0) return -ENOMEM;
  }
  return 0;
}

int gyre_log_hub_deliver(struct gyre_log_hub *hub, const struct gyre_log_message *message,
                         struct gyre_log_session *session) {
  struct gyre_log_channel *const channel = channel_of(hub, message->service, message->severity);
  if (!channel) return -ENOMEM;
  if (session && channel->wanted) {
    const int result = check_record(channel, message->sequence, session);
    if (result < 0) return result;
  }
  hub->messages++;
  hub->counters[channel->counter].count++;
  if (channel->wanted) {
    const bool logged = message->has_time && gyre_log_time_at_us(&hub->logged_at, message->time_us);
    const struct gyre_log_arrival arrival = {message->text, &hub->time, logged ? &hub->logged_at : NULL, hub->origin};
    if (give_all(hub, channel, &arrival, message->sequence, session) < 0) return -ENOMEM;
  } else {
    hub->filtered++;
  }
  if (session && message->sequence > session->received) session->received = message->sequence;
  return 0;
}
