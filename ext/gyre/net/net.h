/* Shared by the Ruby classes of net/, and with gyre.c. */
#pragma once

#include "feature.h"
#include "gyre.h"

struct gyre_tls_context;
struct gyre_transport;

/* Makes a Gyre::Transport of a protocol's, with its buffers and descriptor, which the caller
 * forgets. Takes nothing if it raises. */
VALUE gyre_net_transport_take(struct gyre_transport *transport, VALUE peer);

struct gyre_transport *gyre_transport_of(VALUE transport);

/* Returns the peer's certificate as DER, nil without one; Qundef if none was requested. */
VALUE gyre_net_peer_certificate(const struct gyre_transport *transport);

struct gyre_tls_context *gyre_tls_context_get(VALUE context);
