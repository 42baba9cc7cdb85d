/* Responds to requests without Ruby: refuses or drops invalid ones, answers from zones, leaves the
 * rest to rules. Also cookies (RFC 7873) and the limit per network. No socket, no ruby.h. */
#pragma once

#include "dns/zone.h"

#include <sys/socket.h>

#define GYRE_DNS_UDP_BYTES 1232 /* largest response over UDP (DNS flag day 2020) */
#define GYRE_DNS_COOKIE 10      /* EDNS option */
#define GYRE_DNS_COOKIE_BYTES 24
#define GYRE_DNS_NETWORKS 4096 /* buckets of the limit */

enum gyre_dns_action { GYRE_DNS_DROP, GYRE_DNS_REPLY, GYRE_DNS_ASK };

/* Counts, in the order of metrics. */
struct gyre_dns_counts {
  uint64_t queries, answers, malformed, dropped, refused, truncated, limited, asked, overload, unsent;
};

struct gyre_dns_responder {
  const struct gyre_dns_zone **zones;
  size_t zone_count;
  bool has_rules;                                     /* rules answer for names outside the zones */
  uint32_t rate_limit;                                /* responses per second to one network; 0: no limit */
  uint64_t (*hash)(const void *bytes, size_t length); /* keyed by a secret of the process */
  struct gyre_dns_counts counts;
  struct gyre_dns_bucket {
    uint64_t network;
    uint32_t second, sent;
  } * buckets; /* GYRE_DNS_NETWORKS, with a limit */
};

struct gyre_dns_request {
  const uint8_t *bytes;
  size_t length;
  const struct sockaddr *from;
  bool stream;    /* TCP, TLS or HTTPS: any length and number */
  uint32_t now_s; /* the wall clock, for cookies and limits */
};

/* The permitted form of a response; kept for rules. */
struct gyre_dns_manner {
  size_t limit;  /* bytes */
  uint16_t type; /* asked for */
  struct gyre_dns_edns edns;
  uint8_t cookie[4 + GYRE_DNS_COOKIE_BYTES];
};

/* GYRE_DNS_REPLY: `to`, with room for GYRE_DNS_MESSAGE_BYTES, has a response of `length`.
 * GYRE_DNS_ASK: a rule responds, in this manner. */
enum gyre_dns_action gyre_dns_respond(struct gyre_dns_responder *responder, const struct gyre_dns_request *request,
                                      struct gyre_dns_manner *manner, uint8_t *to, size_t *length);
