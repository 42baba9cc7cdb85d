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
  VALUE networks;
};

struct gyre_dns_responder_object *gyre_dns_responder_get(VALUE self);

/* Maximum addresses of a plain response: with any name and EDNS they fit into 512 bytes. */
#define GYRE_DNS_PLAIN_RECORDS 4

/* A question for rules, with its response while `plain` is true. */
struct gyre_dns_transaction {
  VALUE rules, bytes, receiver;
  VALUE name; /* nil until transaction_name or _ask sets it */
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
    struct sockaddr_in6 ip6; /* no IP address is longer */
  } from;
};

struct gyre_dns_transaction *gyre_dns_transaction_get(VALUE self);
/* `receiver` and `local` belong to the request's packet. For a request over a stream: nil, NULL. */
VALUE gyre_dns_transaction_new(VALUE rules, const struct gyre_dns_request *request,
                               const struct gyre_dns_manner *manner, const struct gyre_datagram_address *from,
                               VALUE receiver, const struct gyre_datagram_local *local);
/* Runs the rules, or only the last rule (Rules#otherwise) if a forwarder got no usable answer.
 * Returns the response as a String, nil if it is plain, or false if a forwarder will answer. */
VALUE gyre_dns_transaction_call(VALUE self);
/* Writes the plain response, at most 512 bytes. Returns its length. */
size_t gyre_dns_transaction_write(VALUE self, uint8_t *to);

/* Makes an upstream's reply the response, in `to`, which has room for the transaction's limit.
 * Copies the records unchanged, except OPT; if they are too long, sets TC and copies none. Returns
 * the response's length; 0: the reply is unusable. */
size_t gyre_dns_transaction_adopt(VALUE self, const char *reply, size_t length, uint8_t *to);
size_t gyre_dns_transaction_read_name(VALUE self, uint8_t name[GYRE_DNS_NAME_BYTES]);
