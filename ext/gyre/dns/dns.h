/* Functions and structs that the Ruby classes of dns/ share. */
#pragma once

#include "dns/respond.h"
#include "gyre.h"
#include "net/datagram.h"

extern VALUE gyre_mDNS;

/* Raises ArgumentError if the name is invalid. */
void gyre_dns_name_of(VALUE text, uint8_t name[GYRE_DNS_NAME_BYTES]);
VALUE gyre_dns_name_string(const uint8_t *name);

struct gyre_dns_responder_object {
  struct gyre_dns_responder responder;
  VALUE zones; /* keeps the responder's zones alive */
  VALUE rules; /* nil: none */
};

struct gyre_dns_responder_object *gyre_dns_responder_get(VALUE self);

#define GYRE_DNS_PLAIN_RECORDS 4 /* records that fit into 512 bytes with any name and EDNS */

/* A question for rules. While `plain` is true, it has the response, too. */
struct gyre_dns_transaction {
  VALUE rules, bytes, receiver;
  VALUE name; /* nil before the first call */
  struct gyre_dns_manner manner;
  uint16_t type, rcode;
  bool plain;    /* the response is here, not in a Message */
  bool deferred; /* was passed to a forwarder */
  unsigned count;
  struct {
    uint32_t ttl;
    uint8_t data[16];
  } records[GYRE_DNS_PLAIN_RECORDS];
  struct gyre_datagram_local local;
  socklen_t from_length;
  union {
    struct sockaddr any;
    struct sockaddr_in6 ip6; /* as long as any IP address */
  } from;
};

struct gyre_dns_transaction *gyre_dns_transaction_get(VALUE self);
/* `receiver` and `local`: of the request's packet; nil and NULL for a request over a stream. */
VALUE gyre_dns_transaction_new(VALUE rules, const struct gyre_dns_request *request,
                               const struct gyre_dns_manner *manner, const struct gyre_datagram_address *from,
                               VALUE receiver, const struct gyre_datagram_local *local);
/* Runs the rules, or only `otherwise` if a forwarder got no usable answer. Returns the response: a
 * String, nil if gyre_dns_transaction_write has it, or false if a forwarder will answer. */
VALUE gyre_dns_transaction_call(VALUE self);
/* Writes up to 512 bytes. Returns their number. */
size_t gyre_dns_transaction_write(VALUE self, uint8_t *to);

size_t gyre_dns_transaction_read_name(VALUE self, uint8_t name[GYRE_DNS_NAME_BYTES]);
