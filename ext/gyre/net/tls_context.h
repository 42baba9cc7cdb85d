/*
 * What TLS contexts and the transports over them share; only net/tls*.c include it.
 */
#ifndef GYRE_NET_TLS_CONTEXT_H
#define GYRE_NET_TLS_CONTEXT_H

#include "net/tls.h"
#include "net/tls_tickets.h"

#include <openssl/ssl.h>
#include <stdatomic.h>

struct gyre_tls_name;
struct gyre_tls_session;

/* An OCSP response that is sent along with a certificate (RFC 6066, section 8). */
struct gyre_tls_staple {
  unsigned char *bytes; /* DER; NULL: there is none */
  int length;
  int64_t until; /* the next one is due, in seconds since 1970; 0: it does not tell */
};

struct gyre_tls_context {
  SSL_CTX *ssl;
  atomic_int references;
  bool server;
  enum gyre_tls_verify verify;
  struct gyre_tls_name *names;
  struct gyre_tls_session *sessions; /* of a client, the newest first */
  struct gyre_tls_tickets *tickets;  /* NULL: libssl's own keys, of this context alone */
  struct gyre_tls_staple staple;
  struct gyre_tls_context *pair; /* the same identity by a key of another kind; or NULL */
  unsigned char policy[32];      /* which sessions may be resumed here */
  unsigned alpn_length;
  unsigned char alpn[];
};

/* tls_identity.c: certificate, key, staple and authorities into context->ssl. False: `error` has
 * the reason, GYRE_TLS_ERROR_BYTES long. */
bool gyre_tls_identity_use(struct gyre_tls_context *context, const struct gyre_tls_options *options, char *error);

/* tls_context.c. Of a client: `server` is what its sessions are kept by, and SSL's app data. */
void gyre_tls_session_offer(struct gyre_tls_context *context, SSL *ssl, const char *server);
void gyre_tls_session_forget(struct gyre_tls_context *context, const char *server);

#endif
