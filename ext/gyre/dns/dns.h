/* DNS's parts for Ruby. */
#pragma once

#include "dns/respond.h"
#include "gyre.h"
#include "net/datagram.h"

extern VALUE gyre_mDNS;

/* Raises ArgumentError for an invalid name. */
void gyre_dns_name_of(VALUE text, uint8_t name[GYRE_DNS_NAME_BYTES]);
VALUE gyre_dns_name_string(const uint8_t *name);

/* Reads a Ruby String as data of A and AAAA records. Returns its length; 0 for anything else. */
size_t gyre_dns_address_of(uint16_t type, VALUE text, uint8_t bytes[16]);

struct gyre_dns_responder_object {
  struct gyre_dns_responder responder;
  VALUE zones; /* keeps the zones that the responder reads */
  VALUE rules; /* nil: none */
};

struct gyre_dns_responder_object *gyre_dns_responder_get(VALUE self);
/* The wall clock, for cookies and limits. */
uint32_t gyre_dns_now_s(void);

/* `local` is NULL but for UDP. */
VALUE gyre_dns_transaction_new(VALUE rules, const struct gyre_dns_request *request,
                               const struct gyre_dns_manner *manner, const struct gyre_datagram_address *from,
                               const struct gyre_datagram_local *local);
/* The sender; `from` also receives the address. */
const struct gyre_datagram_local *gyre_dns_transaction_sender(VALUE self, struct gyre_datagram_address *from);
/* Runs the rules. Returns the response as a String; nil: gyre_dns_transaction_write has it. */
VALUE gyre_dns_transaction_call(VALUE self);
/* Writes up to 512 bytes. Returns their number. */
size_t gyre_dns_transaction_write(VALUE self, uint8_t *to);
