/*
 * TLS by libssl: contexts, and the operations of transports over them. No ruby.h.
 */
#ifndef GYRE_NET_TLS_H
#define GYRE_NET_TLS_H

#include "net/transport.h"

#define GYRE_TLS_ERROR_BYTES 1024
#define GYRE_TLS_SESSIONS 64 /* that a client's context keeps, one of each server */

struct gyre_tls_tickets;

enum gyre_tls_verify { GYRE_TLS_VERIFY_NONE, GYRE_TLS_VERIFY_OPTIONAL, GYRE_TLS_VERIFY_REQUIRED };

/* What a context is made of. Texts are PEM unless noted; NULL: not given. Each is used during
 * the call only. */
struct gyre_tls_options {
  bool server;
  const char *certificate; /* and behind it those between it and the root */
  const char *key;
  const char *key_passphrase;
  const char *certificate_name, *key_name; /* their files, for messages; NULL: there are none */
  const char *ca_file, *ca_folder;         /* paths; both NULL: a client takes the system's */
  const char *authorities;                 /* what tells those of different contexts apart: the file's content */
  enum gyre_tls_verify verify;
  const char *crl, *crl_name;   /* revocation lists, one of each authority; their file */
  const char *ciphers, *suites; /* of TLS 1.2 and 1.3, for a server; NULL: the usual ones */
  bool only_1_3;
  struct gyre_tls_tickets *tickets; /* of a server; NULL: the context has keys of its own */
  const unsigned char *alpn;        /* protocols as on the wire (RFC 7301): a byte of length before each */
  unsigned alpn_length;
};

struct gyre_tls_context; /* counted: each transport over it holds it */

/* NULL: `error` has the reason, as text. */
struct gyre_tls_context *gyre_tls_context_new(const struct gyre_tls_options *options, char *error);
void gyre_tls_context_release(struct gyre_tls_context *context);
/* Another identity, for clients that ask for this name (SNI, RFC 6066), or one below it where it
 * begins with "*.". 0 or -ENOMEM. */
int gyre_tls_context_add_name(struct gyre_tls_context *context, const char *name, struct gyre_tls_context *identity);

/* From and until when its certificate is good, in seconds since 1970. False: it has none. */
bool gyre_tls_context_times(const struct gyre_tls_context *context, int64_t *from, int64_t *until);

/* Puts TLS under a transport over a plain socket; the handshake is next. `name` is the peer's
 * for a client: sent (unless it is an address), and checked where the context verifies; with
 * `address`, any text that distinguishes servers of one name, it is what sessions are kept by. Of a
 * server both are NULL. What is queued is sent before the handshake, as it is. 0 or -errno:
 * -EDESTADDRREQ: a client that verifies has no name to verify; -EINVAL: the name is too long. */
int gyre_tls_start(struct gyre_transport *transport, struct gyre_tls_context *context, const char *name,
                   const char *address);

/* The transport is a copy of the one that TLS was put under, which is not used any more. */
void gyre_tls_moved(struct gyre_transport *transport);

/* Of a transport over TLS: whether anything has come. */
bool gyre_tls_begun(const struct gyre_transport *transport);
/* Of a server's transport over TLS, after -EPROTO of the handshake: the peer speaks no TLS, but
 * plain HTTP or another protocol of words. The transport is a plain one again then, and what the
 * peer sent first is gone. */
bool gyre_tls_leave(struct gyre_transport *transport);

/* Of a transport over TLS, after -EPROTO or GYRE_TRUNCATED: why, and what failed; both are
 * constant texts. NULL: nothing is known. */
const char *gyre_tls_error(const struct gyre_transport *transport, const char **failed);
const char *gyre_tls_version(const struct gyre_transport *transport);
const char *gyre_tls_cipher(const struct gyre_transport *transport);
/* The protocol that was agreed on; its length, 0 if none was. */
unsigned gyre_tls_alpn(const struct gyre_transport *transport, const unsigned char **protocol);
bool gyre_tls_resumed(const struct gyre_transport *transport);
bool gyre_tls_verifies(const struct gyre_transport *transport); /* the peer was asked for its certificate */
/* The peer's certificate as DER, for gyre_tls_free; the length, 0 without one. */
int gyre_tls_peer_certificate(const struct gyre_transport *transport, unsigned char **der);
void gyre_tls_free(unsigned char *der);
/* The name in the peer's certificate, as RFC 2253 in UTF-8, not terminated; its length, 0
 * without one. */
int gyre_tls_peer_subject(const struct gyre_transport *transport, char *text, size_t size);

extern const struct gyre_transport_operations gyre_transport_tls;

#endif
