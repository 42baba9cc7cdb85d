/*
 * Takes the header of the PROXY protocol off a connection that was accepted, before anything else
 * reads from it. No ruby.h.
 */
#ifndef GYRE_NET_PROXY_HEADER_H
#define GYRE_NET_PROXY_HEADER_H

#include "net/proxy_protocol.h"
#include "net/transport.h"

/* 1: it was there; -EAGAIN: more has to come; 0: the end, or -errno: -EPROTO where it is wrong. No
 * byte behind the header is taken, for those may be TLS's. */
int gyre_proxy_header_take(struct gyre_transport *transport, unsigned versions, struct gyre_proxy_source *source);

#endif
