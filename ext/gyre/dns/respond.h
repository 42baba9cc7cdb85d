/* Responds without Ruby: refuses or drops invalid requests, answers from zones, leaves others to
 * rules. Checks cookies (RFC 7873), limits responses per network. No socket, no ruby.h. */
#pragma once

#include "dns/zone.h"

#include <sys/socket.h>

#define GYRE_DNS_UDP_BYTES 1232 /* largest response over UDP (DNS flag day 2020) */
#define GYRE_DNS_COOKIE 10      /* EDNS option */
#define GYRE_DNS_COOKIE_BYTES 24
#define GYRE_DNS_NETWORKS 4096 /* buckets of the rate limit */
/* A network's address bytes (4 or 16), bits of its prefix, and address. */
#define GYRE_DNS_NETWORK_BYTES 18

enum gyre_dns_action { GYRE_DNS_DROP, GYRE_DNS_REPLY, GYRE_DNS_ASK };

/* Counters under the names of their rows of Gyre::Web::Figure. */
/* clang-format off */
#define GYRE_DNS_COUNTERS(COUNTER) \
  COUNTER(queries) COUNTER(answers) COUNTER(malformed) COUNTER(dropped) COUNTER(refused) \
  COUNTER(truncated) COUNTER(limited) COUNTER(asked) COUNTER(overload) COUNTER(unsent)
/* clang-format on */
#define GYRE_DNS_COUNTER_FIELD(name) uint64_t name;

struct gyre_dns_counts {
  GYRE_DNS_COUNTERS(GYRE_DNS_COUNTER_FIELD)
};

struct gyre_dns_responder {
  const struct gyre_dns_zone **zones; /* a hash table by origin; NULL: a free place */
  size_t zone_places, zone_count;     /* `zone_places`: 0 or a power of two above zone_count */
  unsigned zone_labels;               /* maximum of an origin */
  const uint8_t *networks;            /* that have recursion, each of GYRE_DNS_NETWORK_BYTES */
  size_t network_count;
  bool has_rules;                                     /* rules answer for names outside the zones */
  uint32_t rate_limit;                                /* responses per second to one network; 0: no limit */
  uint64_t (*hash)(const void *bytes, size_t length); /* keyed by a secret of the process */
  struct gyre_dns_counts counts;
  struct gyre_dns_bucket {
    uint64_t network;
    uint32_t second, sent;
  } * buckets; /* an array of GYRE_DNS_NETWORKS; NULL: unlimited */
};

struct gyre_dns_request {
  const uint8_t *bytes;
  size_t length;
  const struct sockaddr *from;
  bool stream;    /* came by TCP, TLS or HTTPS: no rate limit, long responses */
  uint32_t now_s; /* the wall clock, for cookies and limits */
};

/* The limit and options of a response, whether zones or rules make it. */
struct gyre_dns_manner {
  size_t limit;   /* bytes */
  uint16_t type;  /* the question's type */
  uint16_t flags; /* of all responses: RA if the client has recursion */
  struct gyre_dns_edns edns;
  uint8_t cookie[4 + GYRE_DNS_COOKIE_BYTES];
};

/* Adds a zone to the table, unless it has a zone of this origin. */
void gyre_dns_responder_add(struct gyre_dns_responder *responder, const struct gyre_dns_zone *zone);
/* Returns GYRE_DNS_REPLY if `to` has a response of `length` bytes, or GYRE_DNS_ASK if rules must
 * respond, with `manner`. `to` must have room for GYRE_DNS_MESSAGE_BYTES, or for GYRE_DNS_UDP_BYTES
 * if `stream` is false. */
enum gyre_dns_action gyre_dns_respond(struct gyre_dns_responder *responder, const struct gyre_dns_request *request,
                                      struct gyre_dns_manner *manner, uint8_t *to, size_t *length);
