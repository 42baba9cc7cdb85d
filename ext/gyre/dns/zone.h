/* A zone in memory: names with records, looked up by RFC 1034, section 4.3.2, and RFC 4592
 * (wildcards). Filled by zone_object.c, asked by respond.c. No socket, clock or ruby.h. */
#pragma once

#include "dns/wire.h"

struct gyre_dns_zone;

/* Returns NULL if memory runs out. */
struct gyre_dns_zone *gyre_dns_zone_new(const uint8_t *origin);
void gyre_dns_zone_free(struct gyre_dns_zone *zone);
const uint8_t *gyre_dns_zone_origin(const struct gyre_dns_zone *zone);

/* Adds a valid record, unless it is among the name's first thousand records already. Returns 0,
 * -ENOMEM, or -EINVAL: outside the zone, a second or misplaced SOA, a CNAME with other records. */
int gyre_dns_zone_add(struct gyre_dns_zone *zone, const uint8_t *name, uint16_t type, uint32_t ttl, const uint8_t *data,
                      size_t length);
/* Call after the last record. Sorts names for NSEC. Returns 0, -ENOMEM, or -ENOENT: no SOA. */
int gyre_dns_zone_finish(struct gyre_dns_zone *zone);

#define GYRE_DNS_PROOFS 80 /* more than the names on the way through all zones of a response */

struct gyre_dns_lookup {
  struct gyre_dns_writer *writer;
  uint16_t type;
  bool dnssec;        /* the client wants signatures */
  bool authoritative; /* false in a referral */
  bool full;          /* a necessary record did not fit */
  uint8_t rcode;
  uint16_t counts[4];
  const void *proofs[GYRE_DNS_PROOFS]; /* nodes whose NSEC records prove absence or wildcards */
  unsigned proof_count, proven;        /* of which the first `proven` are written */
  uint8_t name[GYRE_DNS_NAME_BYTES];   /* the requested name, then each CNAME's target */
};

/* Hashes a lower-case name. */
uint32_t gyre_dns_name_hash(const uint8_t *name);
unsigned gyre_dns_label_count(const uint8_t *name);
bool gyre_dns_zone_covers(const struct gyre_dns_zone *zone, const uint8_t *name);
/* Returns true if a CNAME leads out of the zone. */
bool gyre_dns_zone_lookup(const struct gyre_dns_zone *zone, struct gyre_dns_lookup *lookup);
/* Writes the proofs that are not written yet: those of wildcards wait for the last answer. */
void gyre_dns_zone_prove(struct gyre_dns_lookup *lookup);
