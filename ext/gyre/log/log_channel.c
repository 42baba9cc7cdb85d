/*
 * Which way a service's messages of a severity take (see log_hub.h), found once and remembered.
 */
#include "log/log_hub.h"

/* Longer names are looked up each time, so that the table stays small. */
#define NAMES_LIMIT 255

uint64_t gyre_log_hash(struct gyre_log_text text, uint64_t seed) {
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

void gyre_log_channel_free(struct gyre_log_channel *channel) {
  if (!channel) return;
  for (int format = 0; format < GYRE_LOG_FORMATS; format++) gyre_log_buffer_free(&channel->middles[format]);
  free(channel->sinks);
  free(channel);
}

void gyre_log_channels_clear(struct gyre_log_hub *hub) {
  for (size_t i = 0; i < GYRE_LOG_CHANNELS; i++) {
    gyre_log_channel_free(hub->channels[i]);
    hub->channels[i] = NULL;
  }
  gyre_log_channel_free(hub->single);
  hub->single = hub->latest = NULL;
}

static const struct gyre_log_route *route_of(const struct gyre_log_hub *hub, struct gyre_log_text service) {
  const struct gyre_log_route *for_all = NULL;
  for (size_t i = 0; i < hub->routes_count; i++) {
    const struct gyre_log_route *const route = &hub->routes[i];
    if (route->for_all)
      for_all = route;
    else if (gyre_log_same(gyre_log_text_of(&route->service), service))
      return route;
  }
  return for_all;
}

static bool wants(const struct gyre_log_route *route, struct gyre_log_text severity) {
  if (!route || route->every_severity) return route != NULL;
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

static int find_sinks(const struct gyre_log_hub *hub, struct gyre_log_channel *channel, struct gyre_log_text service,
                      struct gyre_log_text severity) {
  const struct gyre_log_route *const route = route_of(hub, service);
  channel->wanted = wants(route, severity);
  if (!channel->wanted) return 0;
  channel->sinks = calloc(route->sinks_count + hub->taps_count + 1, sizeof(*channel->sinks));
  if (!channel->sinks) return -ENOMEM;
  for (size_t i = 0; i < route->sinks_count; i++) add_sink(channel, route->sinks[i]);
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
  channel->counter = gyre_log_hub_counter(hub, service);
  if (channel->counter == SIZE_MAX || find_sinks(hub, channel, service, severity) < 0) {
    gyre_log_channel_free(channel);
    return NULL;
  }
  return channel;
}

static bool is_for(const struct gyre_log_channel *channel, struct gyre_log_text service,
                   struct gyre_log_text severity) {
  return channel && channel->service_length == service.length && channel->severity_length == severity.length &&
         memcmp(channel->names, service.bytes, service.length) == 0 &&
         memcmp(channel->names + service.length, severity.bytes, severity.length) == 0;
}

struct gyre_log_channel *gyre_log_channel_of(struct gyre_log_hub *hub, struct gyre_log_text service,
                                             struct gyre_log_text severity) {
  if (is_for(hub->latest, service, severity)) return hub->latest;
  const bool single = service.length + severity.length > NAMES_LIMIT;
  const size_t slot = gyre_log_hash(severity, gyre_log_hash(service, 0)) & (GYRE_LOG_CHANNELS - 1);
  struct gyre_log_channel **const place = single ? &hub->single : &hub->channels[slot];
  if (!is_for(*place, service, severity)) {
    struct gyre_log_channel *const channel = channel_open(hub, service, severity);
    if (!channel) return NULL;
    if (hub->latest == *place) hub->latest = NULL;
    gyre_log_channel_free(*place);
    *place = channel;
  }
  return hub->latest = *place;
}
