/*
 * TLS by libssl: contexts, and the operations of transports over them. No ruby.h.
 */
#ifndef GYRE_NET_TLS_H
#define GYRE_NET_TLS_H

#include "feature.h"
#include "net/transport.h"

#define GYRE_TLS_ERROR_BYTES 1024
#define GYRE_TLS_SESSIONS 64 /* kept by a client's context, one per server */

struct gyre_tls_tickets;

enum gyre_tls_verify { GYRE_TLS_VERIFY_NONE, GYRE_TLS_VERIFY_OPTIONAL, GYRE_TLS_VERIFY_REQUIRED };

/* For making a context. Texts are PEM unless noted; NULL: not given. They are read during the
 * call only. */
struct gyre_tls_options {
  bool server;
  const char *certificate; /* chain: certificates between it and the root */
  const char *key;
  const char *key_passphrase;
  const char *certificate_name, *key_name; /* file names for messages, or NULL */
  const char *ca_file, *ca_folder;         /* paths; if both are NULL, a client takes the system's */
  const char *authorities;                 /* content of ca_file, which distinguishes the authorities of two contexts */
  enum gyre_tls_verify verify;
  const char *crl, *crl_name;   /* revocation lists, one of each authority; their file */
  const char *ciphers, *suites; /* for TLS 1.2 and 1.3 of a server; NULL: the usual ones */
  bool only_1_3;
  int oldest, newest;               /* versions as libssl's numbers; 0: the usual ones */
  const char *groups;               /* for key exchange; NULL: the usual ones */
  const char *dh_parameters;        /* of a server, for ciphers of TLS 1.2; NULL: none */
  struct gyre_tls_tickets *tickets; /* of a server; NULL: the context has its own keys */
  const unsigned char *alpn;        /* protocols in wire format (RFC 7301): each after a byte with its length */
  unsigned alpn_length;
};

struct gyre_tls_context; /* reference-counted: each transport over it has a reference */

#ifdef GYRE_HAVE_LIBSSL

/* Returns NULL with the reason in `error`, as text. */
struct gyre_tls_context *gyre_tls_context_new(const struct gyre_tls_options *options, char *error);
void gyre_tls_context_release(struct gyre_tls_context *context);
/* Adds an identity for clients that request this name (SNI, RFC 6066); a leading "*." matches one
 * label. Returns 0 or -ENOMEM. */
int gyre_tls_context_add_name(struct gyre_tls_context *context, const char *name, struct gyre_tls_context *identity);

/* When its certificate's validity begins and ends, in seconds since 1970. False without a
 * certificate. */
bool gyre_tls_context_times(const struct gyre_tls_context *context, int64_t *from, int64_t *until);

/*
 * Puts TLS under a transport over a plain socket; the handshake is next. Queued bytes leave before
 * it, in plain text. A client sends `name`, the peer's, unless it is an address, and checks it if
 * the context verifies. Keeps sessions by `name` and `address`, a text that distinguishes servers
 * of one name. For a server both are NULL. Returns 0 or -errno: -EDESTADDRREQ for a verifying
 * client without a name, -EINVAL for a name that is too long.
 */
int gyre_tls_start(struct gyre_transport *transport, struct gyre_tls_context *context, const char *name,
                   const char *address);

/*
 * Lets `judge` decide about each certificate of the peer, the highest first, in the place of
 * authorities; `required`: a client must show one. Sessions are not resumed. The judge runs within
 * calls of the transport: it must not switch fibers, nor call this transport. Call behind
 * gyre_tls_start.
 */
typedef bool gyre_tls_judge(void *argument, const unsigned char *der, int length);
void gyre_tls_set_judge(struct gyre_transport *transport, bool required, gyre_tls_judge *judge, void *argument);

/* Called for a copied transport whose original is not used any more. */
void gyre_tls_moved(struct gyre_transport *transport);

/* True if the peer has sent anything. */
bool gyre_tls_begun(const struct gyre_transport *transport);
/* For a server, after -EPROTO of the handshake: true if the peer speaks plain HTTP or another
 * protocol of words instead of TLS. Turns the transport into a plain one, without the bytes
 * received so far. */
bool gyre_tls_leave(struct gyre_transport *transport);

/* Returns the reason after -EPROTO or GYRE_TRUNCATED, and sets the failed step; both are constant
 * texts. NULL: unknown. */
const char *gyre_tls_error(const struct gyre_transport *transport, const char **failed);
const char *gyre_tls_version(const struct gyre_transport *transport);
const char *gyre_tls_cipher(const struct gyre_transport *transport);
/* The protocol chosen by ALPN. Returns its length, 0 without one. */
unsigned gyre_tls_alpn(const struct gyre_transport *transport, const unsigned char **protocol);
int gyre_tls_cipher_bits(const struct gyre_transport *transport);
/* The name that a client asked for (SNI); NULL without one. */
const char *gyre_tls_server_name(const struct gyre_transport *transport);
bool gyre_tls_agreed(const struct gyre_transport *transport, const char *protocol);
bool gyre_tls_resumed(const struct gyre_transport *transport);
bool gyre_tls_verifies(const struct gyre_transport *transport); /* the context requests the peer's certificate */
/* The peer's certificate as DER, to be freed by gyre_tls_free. Returns its length, 0 without
 * one. */
int gyre_tls_peer_certificate(const struct gyre_transport *transport, unsigned char **der);
void gyre_tls_free(unsigned char *der);
/* The subject of the peer's certificate (RFC 2253) in UTF-8, not terminated. Returns its length,
 * 0 without one. */
int gyre_tls_peer_subject(const struct gyre_transport *transport, char *text, size_t size);

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

#endif
