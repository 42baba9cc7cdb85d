/* Functions of net/ for its own Ruby classes and those of http/ and memcached/. */
#pragma once

#include "gyre.h"

struct gyre_tls_context;
struct gyre_transport;

struct gyre_transport *gyre_transport_of(VALUE transport);

/* Returns the peer's certificate as DER, nil if none was sent, Qundef if none was requested. */
VALUE gyre_net_peer_certificate(const struct gyre_transport *transport);

struct gyre_tls_context *gyre_tls_context_get(VALUE context);
