/* TLS contexts, for net/tls*.c only. */
#pragma once

#include "net/tls.h"
#include "net/tls_tickets.h"

#include <openssl/ssl.h>
#include <stdatomic.h>

struct gyre_tls_name;
struct gyre_tls_session;

struct gyre_tls_context {
  SSL_CTX *ssl;
  atomic_int references;
  bool server, any_name;
  enum gyre_tls_verify verify;
  struct gyre_tls_name *names;
  struct gyre_tls_session *sessions; /* a client's, the newest first */
  char *challenges;                  /* folder, or NULL */
  struct gyre_tls_tickets *tickets;  /* NULL: keys of this context alone */
  unsigned char policy[32];          /* digest of the settings under which a session resumes */
  unsigned alpn_length;
  unsigned char alpn[];
};

/* tls_identity.c: reads certificate, key, authorities and revocation lists into `ssl`. Returns
 * false with a reason in `error` (GYRE_TLS_ERROR_BYTES). */
bool gyre_tls_identity_use(SSL_CTX *ssl, const struct gyre_tls_options *options, char *error);

/* tls_identity.c: uses FOLDER/NAME.challenge, a PEM of certificate and key for an ACME authority
 * (RFC 8737). Returns false if there is none. */
bool gyre_tls_challenge_use(SSL *ssl, const char *folder, const char *name);

/* tls_context.c: a client's session with `server`. The SSL keeps this pointer as its app data. */
void gyre_tls_session_offer(struct gyre_tls_context *context, SSL *ssl, const char *server);
void gyre_tls_session_forget(struct gyre_tls_context *context, const char *server);

/* tls.c */
SSL *gyre_tls_ssl(const struct gyre_transport *transport);

/* tls_identity.c: the subject of a certificate (RFC 2253) in UTF-8, like Ruby's Name#to_utf8.
 * Returns its length; 0: none. */
int gyre_tls_subject(X509 *certificate, char *text, size_t size);
