/*
 * TLS by libssl: contexts, and the operations of transports over them. No ruby.h.
 */
#ifndef GYRE_NET_TLS_H
#define GYRE_NET_TLS_H

#include "feature.h"
#include "net/transport.h"

#define GYRE_TLS_ERROR_BYTES 1024
#define GYRE_TLS_SESSIONS 64 /* kept by a client's context, one for each server */

struct gyre_tls_tickets;

enum gyre_tls_verify { GYRE_TLS_VERIFY_NONE, GYRE_TLS_VERIFY_OPTIONAL, GYRE_TLS_VERIFY_REQUIRED };

/* For making a context. Texts are PEM unless noted; NULL: not given. They are read during the
 * call only. */
struct gyre_tls_options {
  bool server;
  const char *certificate; /* followed by those between it and the root */
  const char *key;
  const char *key_passphrase;
  const char *certificate_name, *key_name; /* their files, for messages, or NULL */
  const char *ca_file, *ca_folder;         /* paths; both NULL: a client takes the system's */
  const char *authorities; /* the content of ca_file, which tells the authorities of two contexts apart */
  enum gyre_tls_verify verify;
  const char *crl, *crl_name;   /* revocation lists, one of each authority; their file */
  const char *ciphers, *suites; /* of TLS 1.2 and 1.3, for a server; NULL: the usual ones */
  bool only_1_3;
  struct gyre_tls_tickets *tickets; /* of a server; NULL: the context has keys of its own */
  const unsigned char *alpn;        /* protocols as on the wire (RFC 7301): a byte of length before each */
  unsigned alpn_length;
};

struct gyre_tls_context; /* reference-counted: each transport over it has a reference */

#ifdef GYRE_HAVE_LIBSSL

/* Returns NULL with the reason in `error`, as text. */
struct gyre_tls_context *gyre_tls_context_new(const struct gyre_tls_options *options, char *error);
void gyre_tls_context_release(struct gyre_tls_context *context);
/* Adds an identity for clients that ask for this name (SNI, RFC 6066); "*." at its beginning
 * stands for one label. Returns 0 or -ENOMEM. */
int gyre_tls_context_add_name(struct gyre_tls_context *context, const char *name, struct gyre_tls_context *identity);

/* When its certificate's validity begins and ends, in seconds since 1970. False without a
 * certificate. */
bool gyre_tls_context_times(const struct gyre_tls_context *context, int64_t *from, int64_t *until);

/*
 * Puts TLS under a transport over a plain socket; the handshake is next. Queued bytes leave before
 * it, in plain text. For a client `name` is the peer's: it is sent (unless it is an address) and
 * checked if the context verifies. Sessions are kept by `name` and `address`, any text that tells
 * servers of one name apart. For a server both are NULL. Returns 0 or -errno: -EDESTADDRREQ for a
 * verifying client without a name, -EINVAL for a name that is too long.
 */
int gyre_tls_start(struct gyre_transport *transport, struct gyre_tls_context *context, const char *name,
                   const char *address);

/* Call for a copied transport, whose original is not used any more. */
void gyre_tls_moved(struct gyre_transport *transport);

/* True if the peer has sent anything. */
bool gyre_tls_begun(const struct gyre_transport *transport);
/* For a server, after -EPROTO of the handshake: true if the peer speaks plain HTTP or another
 * protocol of words instead of TLS. The transport then is a plain one again, without the bytes
 * received so far. */
bool gyre_tls_leave(struct gyre_transport *transport);

/* After -EPROTO or GYRE_TRUNCATED: returns the reason and sets the failed step; both are
 * constant texts. NULL: unknown. */
const char *gyre_tls_error(const struct gyre_transport *transport, const char **failed);
const char *gyre_tls_version(const struct gyre_transport *transport);
const char *gyre_tls_cipher(const struct gyre_transport *transport);
/* The protocol chosen by ALPN. Returns its length, 0 without one. */
unsigned gyre_tls_alpn(const struct gyre_transport *transport, const unsigned char **protocol);
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

#else /* there are no contexts, and so no transports over TLS */

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
