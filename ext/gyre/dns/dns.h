/*
 * The parts of DNS that Ruby sees: their inits and what they share.
 */
#ifndef GYRE_DNS_H
#define GYRE_DNS_H

#include "dns/respond.h"
#include "gyre.h"

/* Gyre::DNS */
extern VALUE gyre_mDNS;

/* Reads a Ruby String as a name. Raises ArgumentError for an invalid one. */
void gyre_dns_name_of(VALUE text, uint8_t name[GYRE_DNS_NAME_BYTES]);
VALUE gyre_dns_name_string(const uint8_t *name);

VALUE gyre_dns_edns_new(const struct gyre_dns_edns *edns, VALUE options);

struct gyre_dns_responder_object {
  struct gyre_dns_responder responder;
  VALUE zones; /* keeps the zones that the responder reads */
};

struct gyre_dns_responder_object *gyre_dns_responder_get(VALUE self);
/* The EDNS of a response as Ruby's object, or nil. */
VALUE gyre_dns_manner_edns(const struct gyre_dns_manner *manner);
/* The wall clock, for cookies and limits. */
uint32_t gyre_dns_now_s(void);

void gyre_init_dns_message(void);
void gyre_init_dns_zone(void);
void gyre_init_dns_receiver(void);

#endif
