/*
 * What the Ruby classes of net/ declare to each other and to gyre.c.
 */
#ifndef GYRE_NET_H
#define GYRE_NET_H

#include "feature.h"
#include "gyre.h"

struct gyre_tls_context;

void gyre_init_net_transport(void);
void gyre_init_net_tls(void);
void gyre_init_net_datagram(void);

/* Of a Gyre::TLS::Context. */
struct gyre_tls_context *gyre_tls_context_get(VALUE context);

#endif
