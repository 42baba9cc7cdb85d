/*
 * The parts of DNS that Ruby sees: their inits and what they share.
 */
#ifndef GYRE_DNS_H
#define GYRE_DNS_H

#include "dns/wire.h"
#include "gyre.h"

/* Gyre::DNS */
extern VALUE gyre_mDNS;

/* Reads a Ruby String as a name. Raises ArgumentError for an invalid one. */
void gyre_dns_name_of(VALUE text, uint8_t name[GYRE_DNS_NAME_BYTES]);
VALUE gyre_dns_name_string(const uint8_t *name);

void gyre_init_dns_message(void);

#endif
