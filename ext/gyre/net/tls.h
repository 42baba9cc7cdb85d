/* TLS by libssl: contexts, and transports over them. No ruby.h. */
#pragma once

#include "feature.h"
#include "net/transport.h"

#define GYRE_TLS_ERROR_BYTES 1024
#define GYRE_TLS_SESSIONS 64 /* kept by a client's context, one per server */

struct gyre_tls_tickets;

enum gyre_tls_verify { GYRE_TLS_VERIFY_NONE, GYRE_TLS_VERIFY_OPTIONAL, GYRE_TLS_VERIFY_REQUIRED };

/* Options of a context, read during the call. Texts are PEM unless noted; NULL: not given. */
struct gyre_tls_options {
  bool server;
  const char *certificate; /* chain: certificates between it and the root */
  const char *key;
  const char *key_passphrase;
  const char *certificate_name, *key_name; /* file names for messages, or NULL */
  const char *ca_file, *ca_folder;         /* paths; both NULL: a client uses the system's */
  const char *authorities;                 /* content of ca_file, to distinguish contexts */
  enum gyre_tls_verify verify;
  const char *crl, *crl_name;       /* revocation lists, one per authority; their file */
  const char *ciphers, *suites;     /* for TLS 1.2 and 1.3; NULL: default */
  int oldest, newest;               /* versions by libssl's numbers; newest 0: the system's */
  const char *groups;               /* for key exchange; NULL: default */
  const char *dh_parameters;        /* a server's, for TLS 1.2; NULL: none */
  struct gyre_tls_tickets *tickets; /* a server's; NULL: keys of its own */
  const unsigned char *alpn;        /* in wire format (RFC 7301): each after its length in a byte */
  unsigned alpn_length;
};

struct gyre_tls_context; /* reference-counted by its transports */

#ifdef GYRE_HAVE_LIBSSL

/* Returns NULL with a reason in `error`. */
struct gyre_tls_context *gyre_tls_context_new(const struct gyre_tls_options *options, char *error);
void gyre_tls_context_release(struct gyre_tls_context *context);
/* Adds an identity for clients that request this name (SNI, RFC 6066); a leading "*." matches one
 * label. Returns 0 or -ENOMEM. */
int gyre_tls_context_add_name(struct gyre_tls_context *context, const char *name, struct gyre_tls_context *identity);

/* The certificate's validity in seconds since 1970. False without a certificate. */
bool gyre_tls_context_times(const struct gyre_tls_context *context, int64_t *from, int64_t *until);

/* Puts TLS under a plain transport; the handshake is next, after queued bytes in plain text. A
 * client sends `name` unless it is an address, checks it if the context verifies, and keeps
 * sessions by `name` and `address`, which distinguishes servers of one name. A server passes NULL.
 * Returns 0 or -errno: -EDESTADDRREQ for a verifying client without a name, -EINVAL for a long
 * name. */
int gyre_tls_start(struct gyre_transport *transport, struct gyre_tls_context *context, const char *name,
                   const char *address);

/* `judge` decides about each certificate of the peer, the highest first, instead of authorities;
 * `required`: a client must show one. Resumes no sessions. It must not switch fibers nor call this
 * transport. Call after gyre_tls_start. */
typedef bool gyre_tls_judge(void *argument, const unsigned char *der, int length);
void gyre_tls_set_judge(struct gyre_transport *transport, bool required, gyre_tls_judge *judge, void *argument);

/* For a copied transport whose original is unused. */
void gyre_tls_moved(struct gyre_transport *transport);

/* True if any byte has come. */
bool gyre_tls_begun(const struct gyre_transport *transport);
/* After -EPROTO of a server's handshake: true if the peer speaks plain HTTP or another text
 * protocol. Makes the transport plain, without the received bytes. */
bool gyre_tls_leave(struct gyre_transport *transport);

/* Returns the reason after -EPROTO or GYRE_TRUNCATED and sets the failed step, as constant texts.
 * NULL: unknown. */
const char *gyre_tls_error(const struct gyre_transport *transport, const char **failed);
bool gyre_tls_agreed(const struct gyre_transport *transport, const char *protocol); /* by ALPN */
bool gyre_tls_resumed(const struct gyre_transport *transport);

extern const struct gyre_transport_operations gyre_transport_tls;

#else /* without contexts there are no transports over TLS */

static inline int gyre_tls_start(struct gyre_transport *transport, struct gyre_tls_context *context, const char *name,
                                 const char *address) {
  return -1;
}
static inline bool gyre_tls_begun(const struct gyre_transport *transport) { return false; }
static inline bool gyre_tls_leave(struct gyre_transport *transport) { return false; }
static inline bool gyre_tls_agreed(const struct gyre_transport *transport, const char *protocol) { return false; }
static inline bool gyre_tls_resumed(const struct gyre_transport *transport) { return false; }

#endif
