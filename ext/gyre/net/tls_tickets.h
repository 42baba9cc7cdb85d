/* Keys of session tickets (RFC 5077, RFC 8446 section 4.6.1): a chain with one key per interval.
 * Processes with the same state have the same keys. A key encrypts in its interval and decrypts in
 * two more. Past keys cannot be computed. Any thread may call these functions. No ruby.h. */
#pragma once

#include "feature.h"

#ifdef GYRE_HAVE_LIBSSL
#include <openssl/evp.h>

/* Size of the secret state that one process saves and others load. */
#define GYRE_TLS_TICKETS_BYTES 48

struct gyre_tls_tickets; /* reference-counted */

/* _new and _load return NULL on failure. */
struct gyre_tls_tickets *gyre_tls_tickets_new(int64_t interval_s);
struct gyre_tls_tickets *gyre_tls_tickets_load(const unsigned char bytes[GYRE_TLS_TICKETS_BYTES]);
struct gyre_tls_tickets *gyre_tls_tickets_retain(struct gyre_tls_tickets *tickets);
void gyre_tls_tickets_release(struct gyre_tls_tickets *tickets);
void gyre_tls_tickets_save(struct gyre_tls_tickets *tickets, unsigned char bytes[GYRE_TLS_TICKETS_BYTES]);

/* Chooses the key of a ticket, for SSL_CTX_set_tlsext_ticket_key_evp_cb. Returns 1 for the
 * present key, 2 for an older one, 0 for an unknown one, or -1 on failure. */
int gyre_tls_tickets_choose(struct gyre_tls_tickets *tickets, unsigned char name[16], unsigned char *vector,
                            EVP_CIPHER_CTX *cipher, EVP_MAC_CTX *mac, int encrypting);
#endif
