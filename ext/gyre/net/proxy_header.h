/* Takes the PROXY header off an accepted connection. No ruby.h. */
#pragma once

#include "net/proxy_protocol.h"
#include "net/transport.h"

/* Returns 1 once taken, -EAGAIN while incomplete, 0 at the end, or -errno (-EPROTO: invalid). Takes
 * no byte after it, which may be TLS's. */
int gyre_proxy_header_take(struct gyre_transport *transport, unsigned versions, struct gyre_proxy_source *source);
