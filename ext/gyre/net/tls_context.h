/*
 * Shared by TLS contexts and the transports over them; only net/tls*.c include it.
 */
#ifndef GYRE_NET_TLS_CONTEXT_H
#define GYRE_NET_TLS_CONTEXT_H

#include "net/tls.h"
#include "net/tls_tickets.h"

#include <openssl/ssl.h>
#include <stdatomic.h>

struct gyre_tls_name;
struct gyre_tls_session;

struct gyre_tls_context {
  SSL_CTX *ssl;
  atomic_int references;
  bool server;
  enum gyre_tls_verify verify;
  struct gyre_tls_name *names;
  struct gyre_tls_session *sessions; /* sessions of a client, the newest first */
  struct gyre_tls_tickets *tickets;  /* NULL: libssl's own keys, for this context alone */
  unsigned char policy[32];          /* digest of the context: only sessions with the same one are resumed */
  unsigned alpn_length;
  unsigned char alpn[];
};

/* tls_identity.c: reads certificate, key, authorities and revocation lists into `ssl`. Returns
 * false with the reason in `error` (GYRE_TLS_ERROR_BYTES). */
bool gyre_tls_identity_use(SSL_CTX *ssl, const struct gyre_tls_options *options, char *error);

/* tls_context.c, for clients: keeps sessions by `server`, which is also the SSL's app data. */
void gyre_tls_session_offer(struct gyre_tls_context *context, SSL *ssl, const char *server);
void gyre_tls_session_forget(struct gyre_tls_context *context, const char *server);

#endif
