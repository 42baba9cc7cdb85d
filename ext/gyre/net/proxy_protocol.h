/* Parses the header of haproxy's PROXY protocol, versions 1 and 2 (proxy-protocol.txt): before a
 * connection's bytes, a proxy sends its client's address. No socket, no clock, no Ruby.
 *
 *   accepted ─► header ─► TLS's handshake or HTTP
 *                 └► refused, closed */
#pragma once

#include "feature.h"

#define GYRE_PROXY_V1 1u
#define GYRE_PROXY_V2 2u
#define GYRE_PROXY_V1_BYTES 107 /* longest version 1 header, with CRLF */
#define GYRE_PROXY_BYTES 4096   /* longest accepted version 2 header, with extra fields */
#define GYRE_PROXY_WRONG (-1)

struct gyre_proxy_source {
  uint8_t family; /* AF_INET or AF_INET6; 0: use the socket's peer address */
  uint8_t address[16];
};

/* IPv4 uses the first 4 bytes of `address`. */
struct gyre_proxy_range {
  uint8_t family, bits;
  uint8_t address[16];
};

/* Returns the header's length, 0 if the header is incomplete, or GYRE_PROXY_WRONG if it is
 * malformed, too long, or not of one of `versions` (GYRE_PROXY_V1, GYRE_PROXY_V2). */
int gyre_proxy_parse(const uint8_t *bytes, size_t length, unsigned versions, struct gyre_proxy_source *source);

bool gyre_proxy_in_range(const struct gyre_proxy_range *range, uint8_t family, const uint8_t *address);
