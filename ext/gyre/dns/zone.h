/*
 * A zone in memory: names with their records, looked up as RFC 1034, section 4.3.2, and RFC 4592
 * (wildcards) say; writes a response's records. No socket, clock or ruby.h. Filled by
 * zone_object.c, asked by respond.c.
 */
#ifndef GYRE_DNS_ZONE_H
#define GYRE_DNS_ZONE_H

#include "dns/wire.h"

struct gyre_dns_zone;

/* `origin` is lower-case. NULL without memory. */
struct gyre_dns_zone *gyre_dns_zone_new(const uint8_t *origin);
void gyre_dns_zone_free(struct gyre_dns_zone *zone);
const uint8_t *gyre_dns_zone_origin(const struct gyre_dns_zone *zone);
size_t gyre_dns_zone_memory(const struct gyre_dns_zone *zone);

/* Adds a record with valid data, unless it is there. Returns 0 or -ENOMEM, or -EINVAL if it cannot
 * stand: outside the zone, or a CNAME beside other records. */
int gyre_dns_zone_add(struct gyre_dns_zone *zone, const uint8_t *name, uint16_t type, uint32_t ttl, const uint8_t *data,
                      size_t length);
/* Sorts the names, for NSEC. Called once, after the last record. Returns 0, -ENOMEM, or -ENOENT
 * without a SOA record. */
int gyre_dns_zone_finish(struct gyre_dns_zone *zone);

struct gyre_dns_lookup {
  struct gyre_dns_writer *writer;
  uint16_t type;
  bool dnssec;        /* signatures are wanted */
  bool authoritative; /* false in a referral */
  bool full;          /* a necessary record did not fit */
  uint8_t rcode;
  uint16_t counts[4];
  const void *proof;                 /* the record that proves a wildcard's use, until the answers are complete */
  uint8_t name[GYRE_DNS_NAME_BYTES]; /* asked for; later the target of a CNAME that leads out of the zone */
};

/* True if `name`, of these labels, is in the zone. */
bool gyre_dns_zone_covers(const struct gyre_dns_zone *zone, const uint8_t *name);
/* Writes the records. Returns true if a CNAME leads out of the zone. */
bool gyre_dns_zone_lookup(const struct gyre_dns_zone *zone, struct gyre_dns_lookup *lookup);
/* Begins the authority section, if no lookup did: proves that a wildcard was used rightly. */
void gyre_dns_zone_prove(struct gyre_dns_lookup *lookup);

#endif
