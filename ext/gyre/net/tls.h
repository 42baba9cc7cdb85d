/* TLS by libssl: contexts, and transports that use them. No ruby.h. */
#pragma once

#include "net/transport.h"

#define GYRE_TLS_ERROR_BYTES 1024
#define GYRE_TLS_CHALLENGE "acme-tls/1" /* the protocol of a challenge, which carries no data */
#define GYRE_TLS_SESSIONS 64            /* sessions that a client's context keeps, one per server */

struct gyre_tls_tickets;

/* OPTIONAL: a client may show none; a server's certificate may have any name. */
enum gyre_tls_verify { GYRE_TLS_VERIFY_NONE, GYRE_TLS_VERIFY_OPTIONAL, GYRE_TLS_VERIFY_REQUIRED };

/* Options of a context, which keeps none of the texts. Texts are NULL or, unless noted, PEM. */
struct gyre_tls_options {
  bool server;
  const char *certificate; /* followed by the certificates between it and the root */
  const char *key;
  const char *key_passphrase;
  const char *certificate_name, *key_name; /* file names for messages, or NULL */
  const char *ca_file, *ca_folder;         /* paths; if both are NULL, a client uses the system's */
  const char *authorities;                 /* content of ca_file, to distinguish contexts */
  void *store;                             /* X509_STORE in place of authorities, or NULL */
  bool any_name;                           /* a client takes a certificate of another name */
  enum gyre_tls_verify verify;
  const char *crl, *crl_name;       /* revocation lists, one per authority; name of their file */
  const char *ciphers, *suites;     /* for TLS 1.2 and 1.3; NULL: default */
  int oldest, newest;               /* TLS versions in libssl's numbers; newest 0: the system's */
  const char *groups;               /* for key exchange; NULL: default */
  const char *dh_parameters;        /* a server's, for TLS 1.2; NULL: none */
  struct gyre_tls_tickets *tickets; /* a server's ticket keys; NULL: the context's own */
  const char *challenges;           /* NULL, or a server's folder of NAME.challenge (RFC 8737); needs alpn */
  const unsigned char *alpn;        /* in wire format (RFC 7301): each name after a length byte */
  unsigned alpn_length;
};

struct gyre_tls_context; /* reference-counted by its transports */
#ifdef GYRE_HAVE_LIBSSL

/* Returns NULL on failure, with the reason in `error`. */
struct gyre_tls_context *gyre_tls_context_new(const struct gyre_tls_options *options, char *error);
void gyre_tls_context_release(struct gyre_tls_context *context);
/* Adds an identity for clients that request this name (SNI, RFC 6066); a leading "*." matches one
 * label. Returns 0 or -ENOMEM. */
int gyre_tls_context_add_name(struct gyre_tls_context *context, const char *name, struct gyre_tls_context *identity);

/* Writes the certificate's validity, in seconds since 1970. Returns false without a certificate. */
bool gyre_tls_context_times(const struct gyre_tls_context *context, int64_t *from, int64_t *until);

/* Switches a plain transport to TLS. Queued bytes leave in plain text, then the handshake begins. A
 * client sends `name` unless it is an IP address. If the context verifies, the certificate must
 * have this name. A client keeps sessions by `name` and `address`, because several servers may have
 * the same name. A server passes NULL for both. Returns 0 or -errno: -EDESTADDRREQ if a verifying
 * client has no name, -EINVAL if the name is too long. */
int gyre_tls_start(struct gyre_transport *transport, struct gyre_tls_context *context, const char *name,
                   const char *address);

/* `judge` trusts or rejects each certificate of the peer, from the top of the chain down;
 * authorities are not asked. `required`: a client must send a certificate. Resumes no sessions. The
 * judge must not switch fibers or call this transport. Call this after gyre_tls_start. */
typedef bool gyre_tls_judge(void *argument, const unsigned char *der, int length);
void gyre_tls_set_judge(struct gyre_transport *transport, bool required, gyre_tls_judge *judge, void *argument);

/* True if any byte was received. */
bool gyre_tls_begun(const struct gyre_transport *transport);
/* Call after a server's handshake failed with -EPROTO. If the peer speaks plain HTTP or another
 * text protocol, drops the received bytes, makes the transport plain and returns true. */
bool gyre_tls_leave(struct gyre_transport *transport);

/* Call after -EPROTO or GYRE_TRUNCATED. Returns the reason, NULL if unknown, and sets `*failed`
 * to the failed step. Both are constant texts. */
const char *gyre_tls_error(const struct gyre_transport *transport, const char **failed);
bool gyre_tls_agreed(const struct gyre_transport *transport, const char *protocol); /* by ALPN */
bool gyre_tls_resumed(const struct gyre_transport *transport);

extern const struct gyre_transport_operations gyre_transport_tls;

#else /* without libssl there are no contexts, and so no transports over TLS */

static inline int gyre_tls_start(struct gyre_transport *transport, struct gyre_tls_context *context, const char *name,
                                 const char *address) {
  return -1;
}
static inline bool gyre_tls_begun(const struct gyre_transport *transport) { return false; }
static inline bool gyre_tls_leave(struct gyre_transport *transport) { return false; }
static inline bool gyre_tls_agreed(const struct gyre_transport *transport, const char *protocol) { return false; }
static inline bool gyre_tls_resumed(const struct gyre_transport *transport) { return false; }

#endif
