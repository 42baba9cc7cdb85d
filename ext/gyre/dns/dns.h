/* DNS's parts for Ruby. */
#ifndef GYRE_DNS_H
#define GYRE_DNS_H

#include "dns/respond.h"
#include "gyre.h"

extern VALUE gyre_mDNS;

/* Raises ArgumentError for an invalid name. */
void gyre_dns_name_of(VALUE text, uint8_t name[GYRE_DNS_NAME_BYTES]);
VALUE gyre_dns_name_string(const uint8_t *name);

VALUE gyre_dns_edns_new(const struct gyre_dns_edns *edns, VALUE options);

struct gyre_dns_responder_object {
  struct gyre_dns_responder responder;
  VALUE zones; /* keeps the zones that the responder reads */
};

struct gyre_dns_responder_object *gyre_dns_responder_get(VALUE self);
/* Returns a response's EDNS object, or nil. */
VALUE gyre_dns_manner_edns(const struct gyre_dns_manner *manner);
/* For cookies and limits. */
uint32_t gyre_dns_now_s(void);

void gyre_init_dns_message(void);
void gyre_init_dns_zone(void);
void gyre_init_dns_receiver(void);

#endif
