/*
 * What the Ruby classes of net/ declare to each other and to gyre.c.
 */
#ifndef GYRE_NET_H
#define GYRE_NET_H

#include "feature.h"
#include "gyre.h"

struct gyre_tls_context;
struct gyre_transport;

void gyre_init_net_transport(void);
void gyre_init_net_transport_available(void);
void gyre_init_net_tls(void);
void gyre_init_net_tls_facts(void);
void gyre_init_net_datagram(void);

/* A Gyre::Transport in the place of one that a protocol has had: it takes over all but the
 * number of the descriptor, which the caller forgets. Raises; then nothing is taken. */
VALUE gyre_net_transport_take(struct gyre_transport *transport, VALUE peer);

/* Of a Gyre::Transport. */
struct gyre_transport *gyre_transport_of(VALUE transport);

/* The certificate of a transport's peer as DER, nil without one; Qundef where none was asked
 * for. */
VALUE gyre_net_peer_certificate(const struct gyre_transport *transport);

/* Of a Gyre::TLS::Context. */
struct gyre_tls_context *gyre_tls_context_get(VALUE context);

#endif
