/*
 * Routes, taps and counts of the log's ingest (see log_hub.h).
 */
#include "log/log_hub.h"

static int counters_setup(struct gyre_log_hub *hub) {
  static const struct gyre_log_text others = {GYRE_LOG_OTHERS, sizeof(GYRE_LOG_OTHERS) - 1};
  hub->counters = calloc(1, sizeof(*hub->counters));
  if (!hub->counters) return -ENOMEM;
  hub->counters_count = 1;
  return gyre_log_buffer_append(&hub->counters[0].service, others.bytes, others.length);
}

struct gyre_log_hub *gyre_log_hub_open(size_t services_limit) {
  struct gyre_log_hub *const hub = calloc(1, sizeof(*hub));
  if (!hub) return NULL;
  hub->references = 1;
  hub->counters_limit = services_limit;
  if (counters_setup(hub) < 0) {
    gyre_log_hub_release(hub);
    return NULL;
  }
  return hub;
}

void gyre_log_hub_retain(struct gyre_log_hub *hub) { hub->references++; }

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
  gyre_log_channels_clear(hub);
  for (size_t i = 0; i < hub->routes_count; i++) gyre_log_route_free(&hub->routes[i]);
  for (size_t i = 0; i < hub->taps_count; i++) tap_free(&hub->taps[i]);
  for (size_t i = 0; i < hub->counters_count; i++) gyre_log_buffer_free(&hub->counters[i].service);
  gyre_log_buffer_free(&hub->scratch);
  free(hub->routes);
  free(hub->taps);
  free(hub->counters);
  free(hub->counters_table);
  free(hub);
}

static bool same_service(const struct gyre_log_route *one, const struct gyre_log_route *two) {
  return one->for_all == two->for_all &&
         (one->for_all || gyre_log_same(gyre_log_text_of(&one->service), gyre_log_text_of(&two->service)));
}

int gyre_log_hub_route(struct gyre_log_hub *hub, struct gyre_log_route *route) {
  gyre_log_channels_clear(hub);
  for (size_t i = 0; i < hub->routes_count; i++) {
    if (!same_service(&hub->routes[i], route)) continue;
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
  gyre_log_sink_retain(sink);
  gyre_log_hub_untap(hub, sink);
  taps[hub->taps_count++] = tap;
  return 0;
}

void gyre_log_hub_untap(struct gyre_log_hub *hub, struct gyre_log_sink *sink) {
  gyre_log_channels_clear(hub);
  for (size_t i = 0; i < hub->taps_count; i++) {
    if (hub->taps[i].sink != sink) continue;
    struct gyre_log_tap tap = hub->taps[i];
    memmove(&hub->taps[i], &hub->taps[i + 1], (--hub->taps_count - i) * sizeof(tap));
    tap_free(&tap);
    return;
  }
}

/* Where a service stands in the table, or where it would. */
static uint32_t *table_slot(const struct gyre_log_hub *hub, struct gyre_log_text service) {
  size_t slot = gyre_log_hash(service, 0);
  for (;; slot++) {
    uint32_t *const number = &hub->counters_table[slot & (hub->counters_table_size - 1)];
    if (*number == 0 || gyre_log_same(gyre_log_text_of(&hub->counters[*number].service), service)) return number;
  }
}

/* The table is at most half full. */
static int grow_counters(struct gyre_log_hub *hub) {
  const size_t size = hub->counters_table_size ? hub->counters_table_size * 2 : 64;
  struct gyre_log_counter *const counters = realloc(hub->counters, (size / 2 + 1) * sizeof(*counters));
  if (!counters) return -ENOMEM;
  hub->counters = counters;
  uint32_t *const table = calloc(size, sizeof(*table));
  if (!table) return -ENOMEM;
  free(hub->counters_table);
  hub->counters_table = table;
  hub->counters_table_size = size;
  for (size_t i = 1; i < hub->counters_count; i++)
    *table_slot(hub, gyre_log_text_of(&counters[i].service)) = (uint32_t)i;
  return 0;
}

size_t gyre_log_hub_counter(struct gyre_log_hub *hub, struct gyre_log_text service) {
  uint32_t *slot = NULL;
  if (service.length > GYRE_LOG_SERVICE_LIMIT || hub->counters_limit == 0) return 0;
  if (hub->counters_table_size > 0) {
    slot = table_slot(hub, service);
    if (*slot > 0) return *slot;
  }
  if (hub->counters_count - 1 >= hub->counters_limit || hub->counters_count >= UINT32_MAX / 4) return 0;
  if (hub->counters_count > hub->counters_table_size / 2) {
    if (grow_counters(hub) < 0) return SIZE_MAX;
    slot = table_slot(hub, service);
  }
  struct gyre_log_counter counter = {{NULL, 0, 0}, 0};
  if (gyre_log_buffer_append(&counter.service, service.bytes, service.length) < 0) return SIZE_MAX;
  hub->counters[hub->counters_count] = counter;
  *slot = (uint32_t)hub->counters_count;
  return hub->counters_count++;
}

static bool is_full(const struct gyre_log_sink *sink) { return sink->bytes.length + sink->pending > sink->bound; }

/* What many connections may bring with one read each, before they are told to wait. */
#define SLACK ((size_t)16 << 20)

static bool is_overfull(const struct gyre_log_sink *sink) {
  const size_t bytes = sink->bytes.length + sink->pending;
  return is_full(sink) && bytes / 2 > sink->bound && bytes - 2 * sink->bound > SLACK;
}

/* Whether a message has to be dropped; else its sender is told when the sink is full. */
static bool drops(struct gyre_log_sink *sink, bool anyway) {
  if (!is_full(sink)) return false;
  if (sink->drops || anyway) {
    sink->dropped++;
    return true;
  }
  sink->hit = sink->hub->crowded = true;
  return false;
}

/* A record that one of the sinks cannot take is given to none: it comes again. 0, -EAGAIN or -ENOMEM. */
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

/* A record that the sink has had is not given to it again. Returns whether it was new, or -ENOMEM. */
static int give(struct gyre_log_sink *sink, struct gyre_log_channel *channel, const struct gyre_log_message *message,
                const struct gyre_log_time *logged_at, struct gyre_log_session *session) {
  struct gyre_log_mark *const mark = gyre_log_session_mark(session, sink->number);
  if (!mark) return -ENOMEM;
  if (message->sequence <= mark->last) return 0;
  if (sink->drops) mark->stored = message->sequence;
  if (drops(sink, false)) {
    mark->last = message->sequence;
    return 1;
  }
  if (gyre_log_sink_add(sink, channel, message->text, logged_at) < 0) return -ENOMEM;
  mark->last = message->sequence;
  if (sink->drops) return 1;
  return gyre_log_sink_note(sink, session, mark) < 0 ? -ENOMEM : 1;
}

/* Sinks of taps come and go: no session remembers them. They get what is new for one of the others. */
static int give_all(struct gyre_log_channel *channel, const struct gyre_log_message *message,
                    const struct gyre_log_time *logged_at, struct gyre_log_session *session) {
  bool fresh = !session;
  size_t i = 0;
  for (; session && i < channel->routed; i++) {
    const int result = give(channel->sinks[i], channel, message, logged_at, session);
    if (result < 0) return -ENOMEM;
    fresh |= result > 0;
  }
  for (; fresh && i < channel->sinks_count; i++) {
    struct gyre_log_sink *const sink = channel->sinks[i];
    if (drops(sink, sink->hub->held_by_none || is_overfull(sink))) continue;
    if (gyre_log_sink_add(channel->sinks[i], channel, message->text, logged_at) < 0) return -ENOMEM;
  }
  return 0;
}

int gyre_log_hub_deliver(struct gyre_log_hub *hub, const struct gyre_log_message *message,
                         struct gyre_log_session *session) {
  struct gyre_log_channel *const channel = gyre_log_channel_of(hub, message->service, message->severity);
  if (!channel) return -ENOMEM;
  if (session && channel->wanted) {
    const int result = check_record(channel, message->sequence, session);
    if (result < 0) return result;
  }
  hub->messages++;
  hub->counters[channel->counter].count++;
  if (channel->wanted) {
    const bool logged = message->has_time && gyre_log_time_at_us(&hub->logged_at, message->time_us);
    if (give_all(channel, message, logged ? &hub->logged_at : NULL, session) < 0) return -ENOMEM;
  } else {
    hub->filtered++;
  }
  if (session && message->sequence > session->received) session->received = message->sequence;
  return 0;
}
