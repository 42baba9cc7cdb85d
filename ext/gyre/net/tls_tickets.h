/* Keys of session tickets (RFC 5077, RFC 8446 section 4.6.1): a chain with one key per interval,
 * equal in processes with the same state. A key encrypts in its interval and decrypts for two more;
 * past keys cannot be computed. Any thread may use it. No ruby.h. */
#pragma once

#include "feature.h"

#ifdef GYRE_HAVE_LIBSSL
#include <openssl/evp.h>
#include <stdint.h>

/* Returns the secret state, for other processes. */
#define GYRE_TLS_TICKETS_BYTES 48

struct gyre_tls_tickets; /* reference-counted */

/* NULL without memory or randomness. */
struct gyre_tls_tickets *gyre_tls_tickets_new(int64_t interval_s);
struct gyre_tls_tickets *gyre_tls_tickets_load(const unsigned char bytes[GYRE_TLS_TICKETS_BYTES]);
struct gyre_tls_tickets *gyre_tls_tickets_retain(struct gyre_tls_tickets *tickets);
void gyre_tls_tickets_release(struct gyre_tls_tickets *tickets);
void gyre_tls_tickets_save(struct gyre_tls_tickets *tickets, unsigned char bytes[GYRE_TLS_TICKETS_BYTES]);

/* For SSL_CTX_set_tlsext_ticket_key_evp_cb: returns 1, 2 for an older key's ticket, 0 for an
 * unknown key, -1 on failure. */
int gyre_tls_tickets_choose(struct gyre_tls_tickets *tickets, unsigned char name[16], unsigned char *vector,
                            EVP_CIPHER_CTX *cipher, EVP_MAC_CTX *mac, int encrypting);
#endif
