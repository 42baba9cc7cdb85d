/* TLS contexts (tls.h): versions, ciphers, a server's choice of identity and protocol, and
 * resumption by a server's tickets and a client's newest sessions. No ruby.h. */
#include "net/tls_context.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/sha.h>
#include <strings.h>
#include <time.h>

/* Mozilla's intermediate configuration 5.7 without DHE. A DHE handshake costs a server far more
 * than its client (CVE-2002-20001), and clients with DHE also have ECDHE. All these ciphers are
 * AEAD with forward secrecy, so the client chooses its fastest. */
#define CIPHERS                                                                                                        \
  "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384:"                           \
  "ECDHE-RSA-AES256-GCM-SHA384:ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305"
#define SUITES "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256"
/* The hybrid group needs libssl 3.5. */
#define GROUPS "X25519:P-256:P-384"
#define HYBRID_GROUPS "X25519MLKEM768:" GROUPS

struct gyre_tls_name {
  struct gyre_tls_name *next;
  struct gyre_tls_context *identity;
  char text[];
};

/* A client's newest session with a server. */
struct gyre_tls_session {
  struct gyre_tls_session *next;
  SSL_SESSION *ssl;
  char server[];
};

static void session_free(struct gyre_tls_session *session) {
  SSL_SESSION_free(session->ssl);
  free(session);
}

/* Removes and returns the server's session; NULL if there is none. */
static struct gyre_tls_session *take_session(struct gyre_tls_context *context, const char *server) {
  for (struct gyre_tls_session **link = &context->sessions, *session; (session = *link); link = &session->next) {
    if (strcmp(session->server, server)) continue;
    *link = session->next;
    return session;
  }
  return NULL;
}

static void keep_session(struct gyre_tls_context *context, struct gyre_tls_session *session) {
  session->next = context->sessions;
  context->sessions = session;
  struct gyre_tls_session *last = session;
  for (int kept = 1; last && kept < GYRE_TLS_SESSIONS; kept++) last = last->next;
  if (!last || !last->next) return;
  session_free(last->next);
  last->next = NULL;
}

void gyre_tls_session_forget(struct gyre_tls_context *context, const char *server) {
  struct gyre_tls_session *session = context->server ? NULL : take_session(context, server);
  if (session) session_free(session);
}

/* Called by libssl, also after the handshake (TLS 1.3). Returns 1 to keep the reference. */
static int new_session(SSL *ssl, SSL_SESSION *given) {
  struct gyre_tls_context *context = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
  const char *server = SSL_get_app_data(ssl);
  if (!server || !SSL_SESSION_is_resumable(given)) return 0;
  struct gyre_tls_session *session = malloc(sizeof(*session) + strlen(server) + 1);
  if (!session) return 0;
  strcpy(session->server, server);
  session->ssl = given;
  gyre_tls_session_forget(context, server);
  keep_session(context, session);
  return 1;
}

void gyre_tls_session_offer(struct gyre_tls_context *context, SSL *ssl, const char *server) {
  SSL_set_app_data(ssl, (char *)server);
  struct gyre_tls_session *session = take_session(context, server);
  if (!session) return;
  SSL_set_session(ssl, session->ssl);
  keep_session(context, session);
}

/* --- a server's decisions in a handshake --- */

/* Takes the server's first protocol that the client offers. */
static int choose_protocol(SSL *ssl, const unsigned char **chosen, unsigned char *chosen_length,
                           const unsigned char *offered, unsigned offered_length, void *argument) {
  struct gyre_tls_context *context = argument;
  unsigned char *found;
  if (SSL_get_app_data(ssl) == context) { /* a challenge: it offers this protocol only */
    *chosen = offered + 1;
    *chosen_length = offered[0];
    return SSL_TLSEXT_ERR_OK;
  }
  if (SSL_select_next_proto(&found, chosen_length, context->alpn, context->alpn_length, offered, offered_length) !=
      OPENSSL_NPN_NEGOTIATED)
    return SSL_TLSEXT_ERR_ALERT_FATAL; /* RFC 7301, section 3.2 */
  *chosen = found;
  return SSL_TLSEXT_ERR_OK;
}

/* "*." stands for one label (RFC 6125, section 6.4.3). */
static bool is_below(const char *pattern, const char *name) {
  const char *rest = strncmp(pattern, "*.", 2) ? NULL : strchr(name, '.');
  return rest && rest != name && strcasecmp(pattern + 1, rest) == 0;
}

static struct gyre_tls_context *find_identity(const struct gyre_tls_context *context, const char *name) {
  struct gyre_tls_name *found = context->names, *below = NULL;
  for (; found && strcasecmp(found->text, name); found = found->next)
    if (!below && is_below(found->text, name)) below = found;
  if (!found) found = below;
  return found ? found->identity : NULL;
}

static bool show(SSL *ssl, const struct gyre_tls_context *identity) {
  STACK_OF(X509) *chain = NULL;
  SSL_CTX_get0_chain_certs(identity->ssl, &chain);
  return SSL_use_cert_and_key(ssl, SSL_CTX_get0_certificate(identity->ssl), SSL_CTX_get0_privatekey(identity->ssl),
                              chain, 1) == 1;
}

/* Reads the hello's host name (RFC 6066, section 3): the list's length, a type, the name's length,
 * the name. libssl parses it only later. Returns false if the name is missing. */
static bool asked_name(SSL *ssl, char name[TLSEXT_MAXLEN_host_name + 1]) {
  const unsigned char *bytes;
  size_t size;
  if (SSL_client_hello_get0_ext(ssl, TLSEXT_TYPE_server_name, &bytes, &size) != 1 || size < 5) return false;
  size_t length = (size_t)bytes[3] << 8 | bytes[4];
  if (bytes[2] != TLSEXT_NAMETYPE_host_name || length > size - 5 || length > TLSEXT_MAXLEN_host_name ||
      memchr(bytes + 5, '\0', length))
    return false;
  memcpy(name, bytes + 5, length);
  name[length] = '\0';
  return true;
}

/* Adds bytes to a policy, the digest of accepted clients and identities. A session resumes only
 * under the same policy, even in a context that shares the ticket keys. */
static void extend_policy(const unsigned char *policy, const void *bytes, size_t length, unsigned char *extended) {
  unsigned char both[2 * SHA256_DIGEST_LENGTH];
  memcpy(both, policy, SHA256_DIGEST_LENGTH);
  SHA256(bytes, length, both + SHA256_DIGEST_LENGTH);
  SHA256(both, sizeof(both), extended);
}

/* Lets sessions resume only under the same certificate. */
static bool limit_sessions(SSL *ssl, const struct gyre_tls_context *context, const struct gyre_tls_context *identity) {
  unsigned char policy[SHA256_DIGEST_LENGTH];
  extend_policy(context->policy, identity->policy, SHA256_DIGEST_LENGTH, policy);
  return SSL_set_session_id_context(ssl, policy, sizeof(policy)) == 1;
}

/* Returns true for an ACME authority that validates a name (RFC 8737, section 3). */
static bool is_challenge(SSL *ssl) {
  static const unsigned char only[] = "\0\x0b\x0a" GYRE_TLS_CHALLENGE;
  const unsigned char *bytes;
  size_t size;
  return SSL_client_hello_get0_ext(ssl, TLSEXT_TYPE_application_layer_protocol_negotiation, &bytes, &size) == 1 &&
         size == sizeof(only) - 1 && memcmp(bytes, only, size) == 0;
}

/* Reads the identity from its file each time, so that all processes and machines with the folder
 * have it at once. Resumes nothing. The client needs no certificate, because it can send no data.
 */
static bool show_challenge(SSL *ssl, struct gyre_tls_context *context, const char *name) {
  SSL_certs_clear(ssl);
  SSL_set_verify(ssl, SSL_VERIFY_NONE, NULL);
  SSL_set_options(ssl, SSL_OP_NO_TICKET);
  SSL_set_app_data(ssl, context);
  return gyre_tls_challenge_use(ssl, context->challenges, name) && SSL_set_num_tickets(ssl, 0) == 1;
}

/* Takes only certificates and key from the identity; SSL_set_SSL_CTX would also replace other
 * settings, such as accepted clients. Called before libssl looks for a session. */
static int choose_identity(SSL *ssl, int *alert, void *argument) {
  struct gyre_tls_context *context = argument;
  char name[TLSEXT_MAXLEN_host_name + 1];
  bool named = asked_name(ssl, name);
  struct gyre_tls_context *identity = named ? find_identity(context, name) : NULL;
  *alert = SSL_AD_INTERNAL_ERROR;
  if (named && context->challenges && is_challenge(ssl)) {
    *alert = SSL_AD_NO_APPLICATION_PROTOCOL;
    return show_challenge(ssl, context, name) ? SSL_CLIENT_HELLO_SUCCESS : SSL_CLIENT_HELLO_ERROR;
  }
  if (SSL_get_app_data(ssl) == context) return SSL_CLIENT_HELLO_ERROR; /* the hello before a retry was a challenge */
  if (!identity) return SSL_CLIENT_HELLO_SUCCESS;                      /* the default identity */
  SSL_certs_clear(ssl);                                                /* else the default key might be chosen */
  if (!show(ssl, identity) || !limit_sessions(ssl, context, identity)) return SSL_CLIENT_HELLO_ERROR;
  SSL_set_app_data(ssl, identity);
  return SSL_CLIENT_HELLO_SUCCESS;
}

static int acknowledge_name(SSL *ssl, int *alert, void *argument) {
  return SSL_get_app_data(ssl) ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_NOACK;
}

static int choose_ticket_key(SSL *ssl, unsigned char *name, unsigned char *vector, EVP_CIPHER_CTX *cipher,
                             EVP_MAC_CTX *mac, int encrypting) {
  struct gyre_tls_context *context = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
  int result = gyre_tls_tickets_choose(context->tickets, name, vector, cipher, mac, encrypting);
  /* A TLS 1.3 ticket is used once (RFC 8446, appendix C.4): 2 makes libssl issue a new one. */
  return result == 1 && !encrypting && SSL_version(ssl) >= TLS1_3_VERSION ? 2 : result;
}

static bool refuse(char *error, const char *what, const char *given) {
  snprintf(error, GYRE_TLS_ERROR_BYTES, "%s %s: libssl has none of them here", what, given ? given : "");
  ERR_clear_error();
  return false;
}

static bool add_to_policy(struct gyre_tls_context *context, const void *bytes, size_t length) {
  extend_policy(context->policy, bytes, length, context->policy);
  return SSL_CTX_set_session_id_context(context->ssl, context->policy, sizeof(context->policy)) == 1;
}

static bool add_certificate_to_policy(struct gyre_tls_context *context, const struct gyre_tls_context *identity) {
  X509 *certificate = SSL_CTX_get0_certificate(identity->ssl);
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned length = 0;
  if (certificate && X509_digest(certificate, EVP_sha256(), digest, &length) != 1) return false;
  return add_to_policy(context, digest, length);
}

static bool set_policy(struct gyre_tls_context *context, const struct gyre_tls_options *options) {
  const char *authorities = options->authorities ? options->authorities : "", *crl = options->crl ? options->crl : "";
  return add_to_policy(context, &options->verify, sizeof(options->verify)) &&
         add_to_policy(context, authorities, strlen(authorities)) && add_to_policy(context, crl, strlen(crl)) &&
         add_certificate_to_policy(context, context);
}

static bool set_server(struct gyre_tls_context *context, const struct gyre_tls_options *options) {
  SSL_CTX *ssl = context->ssl;
  SSL_CTX_set_session_cache_mode(ssl, SSL_SESS_CACHE_OFF); /* tickets hold the sessions */
  SSL_CTX_set_num_tickets(ssl, 1);
  SSL_CTX_set_client_hello_cb(ssl, choose_identity, context);
  SSL_CTX_set_tlsext_servername_callback(ssl, acknowledge_name);
  if (options->alpn_length) SSL_CTX_set_alpn_select_cb(ssl, choose_protocol, context);
  if (options->tickets) {
    context->tickets = gyre_tls_tickets_retain(options->tickets);
    SSL_CTX_set_tlsext_ticket_key_evp_cb(ssl, choose_ticket_key);
  }
  return true;
}

static bool set_client(struct gyre_tls_context *context, const struct gyre_tls_options *options) {
  SSL_CTX_set_session_cache_mode(context->ssl, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
  SSL_CTX_sess_set_new_cb(context->ssl, new_session);
  return SSL_CTX_set_alpn_protos(context->ssl, context->alpn, context->alpn_length) == 0;
}

static bool use_dh_parameters(SSL_CTX *ssl, const char *text) {
  BIO *bio = BIO_new_mem_buf(text, -1);
  EVP_PKEY *parameters = bio ? PEM_read_bio_Parameters(bio, NULL) : NULL;
  bool used = parameters && SSL_CTX_set0_tmp_dh_pkey(ssl, parameters) == 1;
  if (!used) EVP_PKEY_free(parameters);
  BIO_free(bio);
  return used;
}

/* A client uses libssl's defaults for options that are not given. */
static bool set_ciphers(SSL_CTX *ssl, const struct gyre_tls_options *options, char *error) {
  const char *ciphers = options->ciphers ? options->ciphers : options->server ? CIPHERS : NULL;
  const char *suites = options->suites ? options->suites : options->server ? SUITES : NULL;
  const char *groups = options->groups ? options->groups : options->server ? HYBRID_GROUPS : NULL;
  if (ciphers && SSL_CTX_set_cipher_list(ssl, ciphers) != 1) return refuse(error, "the ciphers of TLS 1.2", ciphers);
  if (suites && SSL_CTX_set_ciphersuites(ssl, suites) != 1) return refuse(error, "the ciphers of TLS 1.3", suites);
  if (groups && SSL_CTX_set1_groups_list(ssl, groups) != 1 &&
      (options->groups || SSL_CTX_set1_groups_list(ssl, GROUPS) != 1))
    return refuse(error, "the groups", groups);
  if (options->dh_parameters && !use_dh_parameters(ssl, options->dh_parameters))
    return refuse(error, "the parameters of DH", "given");
  ERR_clear_error();
  return true;
}

struct gyre_tls_context *gyre_tls_context_new(const struct gyre_tls_options *options, char *error) {
  struct gyre_tls_context *context = calloc(1, sizeof(*context) + options->alpn_length);
  SSL_CTX *ssl = NULL;
  snprintf(error, GYRE_TLS_ERROR_BYTES, "no memory");
  if (!context || !(ssl = SSL_CTX_new(options->server ? TLS_server_method() : TLS_client_method()))) goto fail;
  ERR_clear_error();
  context->ssl = ssl;
  context->server = options->server;
  context->verify = options->verify;
  context->any_name = options->any_name;
  if (options->challenges && options->alpn_length && !(context->challenges = strdup(options->challenges))) goto fail;
  atomic_init(&context->references, 1);
  context->alpn_length = options->alpn_length;
  if (options->alpn_length) memcpy(context->alpn, options->alpn, options->alpn_length);

  SSL_CTX_set_app_data(ssl, context);
  SSL_CTX_set_min_proto_version(ssl, options->oldest);
  if (options->newest) SSL_CTX_set_max_proto_version(ssl, options->newest); /* else the system's */
  SSL_CTX_set_options(ssl, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_mode(ssl, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_read_ahead(ssl, 0);
  if (!(options->server ? set_server : set_client)(context, options)) goto fail_context;
  if (!set_ciphers(ssl, options, error) || !gyre_tls_identity_use(ssl, options, error)) goto fail_context;
  int mode = options->verify == GYRE_TLS_VERIFY_NONE ? SSL_VERIFY_NONE : SSL_VERIFY_PEER;
  if (options->server && options->verify == GYRE_TLS_VERIFY_REQUIRED) mode |= SSL_VERIFY_FAIL_IF_NO_PEER_CERT;
  SSL_CTX_set_verify(ssl, mode, NULL);
  if (set_policy(context, options)) return context;
  snprintf(error, GYRE_TLS_ERROR_BYTES, "no memory");

fail_context:
  gyre_tls_context_release(context);
  return NULL;

fail:
  SSL_CTX_free(ssl);
  free(context);
  return NULL;
}

void gyre_tls_context_release(struct gyre_tls_context *context) {
  if (!context || atomic_fetch_sub(&context->references, 1) > 1) return;
  SSL_CTX_free(context->ssl);
  for (struct gyre_tls_session *session = context->sessions, *next; session; session = next) {
    next = session->next;
    session_free(session);
  }
  for (struct gyre_tls_name *name = context->names, *next; name; name = next) {
    next = name->next;
    gyre_tls_context_release(name->identity);
    free(name);
  }
  gyre_tls_tickets_release(context->tickets);
  free(context->challenges);
  free(context);
}

int gyre_tls_context_add_name(struct gyre_tls_context *context, const char *text, struct gyre_tls_context *identity) {
  struct gyre_tls_name *name = malloc(sizeof(*name) + strlen(text) + 1);
  if (!name) return -ENOMEM;
  if (!add_to_policy(context, text, strlen(text)) || !add_certificate_to_policy(context, identity)) {
    free(name);
    return -ENOMEM;
  }
  strcpy(name->text, text);
  atomic_fetch_add(&identity->references, 1);
  name->identity = identity;
  name->next = context->names;
  context->names = name;
  return 0;
}

static int64_t seconds_of(const ASN1_TIME *when) {
  struct tm parts;
  return when && ASN1_TIME_to_tm(when, &parts) == 1 ? (int64_t)timegm(&parts) : 0;
}

bool gyre_tls_context_times(const struct gyre_tls_context *context, int64_t *from, int64_t *until) {
  X509 *certificate = SSL_CTX_get0_certificate(context->ssl);
  if (!certificate) return false;
  *from = seconds_of(X509_get0_notBefore(certificate));
  *until = seconds_of(X509_get0_notAfter(certificate));
  return true;
}
