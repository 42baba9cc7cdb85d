/* Reads certificates, key, authorities and revocation lists into a libssl context. Error messages
 * name the file and the remedy. No ruby.h. */
#include "net/tls_context.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <stdio.h>

/* Writes the error message, with libssl's reason if there is one. Returns false. */
static bool explain(char *error, const char *what, const char *name, const char *then) {
  unsigned long code = ERR_peek_last_error();
  const char *reason = code ? ERR_reason_error_string(code) : NULL;
  snprintf(error, GYRE_TLS_ERROR_BYTES, "%s%s%s%s%s%s", what, name ? " " : "", name ? name : "", then,
           reason ? ": " : "", reason ? reason : "");
  ERR_clear_error();
  return false;
}

struct passphrase {
  const char *text;
  bool asked;
};

static int give_passphrase(char *buffer, int size, int writing, void *argument) {
  struct passphrase *passphrase = argument;
  if (!passphrase) return -1;
  passphrase->asked = true;
  size_t length = passphrase->text ? strlen(passphrase->text) : 0;
  if (!length || length > (size_t)size) return -1;
  memcpy(buffer, passphrase->text, length);
  return (int)length;
}

/* Returns the certificates in the text's order; NULL if unreadable. */
static STACK_OF(X509) * read_certificates(const char *text) {
  BIO *bio = BIO_new_mem_buf(text, -1);
  STACK_OF(X509) *chain = sk_X509_new_null();
  X509 *next = bio && chain ? PEM_read_bio_X509_AUX(bio, NULL, give_passphrase, NULL) : NULL;
  bool good = next != NULL;
  while (good && next) {
    good = sk_X509_push(chain, next) > 0;
    if (!good) X509_free(next);
    next = good ? PEM_read_bio_X509(bio, NULL, give_passphrase, NULL) : NULL;
  }
  if (good && ERR_GET_REASON(ERR_peek_last_error()) != PEM_R_NO_START_LINE)
    good = false; /* reading stopped before the end of the text */
  BIO_free(bio);
  if (good) {
    ERR_clear_error();
    return chain;
  }
  sk_X509_pop_free(chain, X509_free);
  return NULL;
}

int gyre_tls_subject(X509 *certificate, char *text, size_t size) {
  BIO *bio = BIO_new(BIO_s_mem());
  int length = 0;
  if (bio &&
      X509_NAME_print_ex(bio, X509_get_subject_name(certificate), 0, XN_FLAG_RFC2253 & ~ASN1_STRFLGS_ESC_MSB) >= 0)
    length = BIO_read(bio, text, (int)size - 1);
  if (length < 0) length = 0;
  text[length] = '\0';
  BIO_free(bio);
  ERR_clear_error();
  return length;
}

/* Checks that each certificate issued the one before (RFC 5246, section 7.4.2), as clients do. */
static bool check_order(STACK_OF(X509) * chain, const struct gyre_tls_options *options, char *error) {
  for (int i = 1; i < sk_X509_num(chain); i++) {
    X509 *before = sk_X509_value(chain, i - 1), *signer = sk_X509_value(chain, i);
    if (X509_NAME_cmp(X509_get_issuer_name(before), X509_get_subject_name(signer)) == 0) continue;
    char names[2][160];
    (void)gyre_tls_subject(before, names[0], sizeof(names[0]));
    (void)gyre_tls_subject(signer, names[1], sizeof(names[1]));
    const char *file = options->certificate_name;
    snprintf(error, GYRE_TLS_ERROR_BYTES,
             "the certificate%s%s: number %d in it, %s, did not sign number %d, %s: the server's own comes first, and "
             "behind each the one that signed it",
             file ? " " : "", file ? file : "", i + 1, names[1], i, names[0]);
    return false;
  }
  return true;
}

static bool use_certificates(SSL_CTX *ssl, STACK_OF(X509) * chain, const struct gyre_tls_options *options,
                             char *error) {
  if (!check_order(chain, options, error)) return false;
  bool good = SSL_CTX_use_certificate(ssl, sk_X509_value(chain, 0)) == 1 && SSL_CTX_clear_chain_certs(ssl) == 1;
  for (int i = 1; good && i < sk_X509_num(chain); i++)
    good = SSL_CTX_add1_chain_cert(ssl, sk_X509_value(chain, i)) == 1;
  if (!good) return explain(error, "the certificate", options->certificate_name, " cannot be used");
  ERR_clear_error();
  return true;
}

static bool refuse_key(const struct gyre_tls_options *options, const struct passphrase *passphrase, char *error) {
  const char *reason = " cannot be read: it must be a private key in PEM";
  if (passphrase->asked)
    reason = passphrase->text ? " is encrypted, and the passphrase given is not its own"
                              : " is encrypted: give its passphrase (key_passphrase), or store it "
                                "without a passphrase (openssl pkey -in KEY -out NEW)";
  ERR_clear_error(); /* libssl's message does not help */
  return explain(error, "the key", options->key_name, reason);
}

static bool use_key(SSL_CTX *ssl, STACK_OF(X509) * chain, const struct gyre_tls_options *options, char *error) {
  struct passphrase passphrase = {.text = options->key_passphrase};
  BIO *bio = BIO_new_mem_buf(options->key, -1);
  EVP_PKEY *key = bio ? PEM_read_bio_PrivateKey(bio, NULL, give_passphrase, &passphrase) : NULL;
  BIO_free(bio);
  if (!key) return refuse_key(options, &passphrase, error);
  ERR_clear_error();
  bool fits = !chain || X509_check_private_key(sk_X509_value(chain, 0), key) == 1;
  bool used = fits && SSL_CTX_use_PrivateKey(ssl, key) == 1 && (!chain || SSL_CTX_check_private_key(ssl) == 1);
  if (!fits) {
    const char *name = options->key_name ? options->key_name : "given", *certificate = options->certificate_name;
    snprintf(error, GYRE_TLS_ERROR_BYTES, "the key %s does not belong to the certificate%s%s", name,
             certificate ? " " : "", certificate ? certificate : "");
  } else if (!used) {
    (void)explain(error, "the key", options->key_name, " cannot be used");
  }
  EVP_PKEY_free(key);
  ERR_clear_error();
  return used;
}

/* Reads the system's authorities once per process. A context with revocation lists reads its own
 * copy, because the lists are added to it. */
static bool use_system(SSL_CTX *ssl, const struct gyre_tls_options *options) {
  static _Atomic(X509_STORE *) shared;
  X509_STORE *store = options->crl ? NULL : atomic_load(&shared), *none = NULL;
  if (store) return SSL_CTX_set1_cert_store(ssl, store), true;
  if (SSL_CTX_set_default_verify_paths(ssl) != 1) return false;
  store = SSL_CTX_get_cert_store(ssl);
  if (!options->crl && X509_STORE_up_ref(store) && !atomic_compare_exchange_strong(&shared, &none, store))
    X509_STORE_free(store); /* another thread was faster */
  return true;
}

static bool use_authorities(SSL_CTX *ssl, const struct gyre_tls_options *options, char *error) {
  const char *name = options->ca_file ? options->ca_file : options->ca_folder;
  if (options->store) return SSL_CTX_set1_cert_store(ssl, options->store), true;
  if (!name && options->server) return true;
  if (!name) return use_system(ssl, options) || explain(error, "the system's authorities cannot be read", NULL, "");
  if (SSL_CTX_load_verify_locations(ssl, options->ca_file, options->ca_folder) != 1)
    return explain(error, "the ca", name, " cannot be read");
  if (!options->server || !options->ca_file) return true;
  STACK_OF(X509_NAME) *names = SSL_load_client_CA_file(options->ca_file);
  if (!names) return explain(error, "the ca", name, " cannot be read");
  SSL_CTX_set_client_CA_list(ssl, names); /* takes the names over */
  return true;
}

/* Reads the lists and makes libssl check the whole chain, where each authority must have a list. */
static bool use_revocations(SSL_CTX *ssl, const struct gyre_tls_options *options, char *error) {
  BIO *bio = BIO_new_mem_buf(options->crl, -1);
  X509_STORE *store = SSL_CTX_get_cert_store(ssl);
  int count = 0;
  bool good = bio != NULL;
  for (X509_CRL *list; good && (list = PEM_read_bio_X509_CRL(bio, NULL, NULL, NULL)); count++) {
    good = X509_STORE_add_crl(store, list) == 1;
    X509_CRL_free(list);
  }
  BIO_free(bio);
  good = good && count > 0 && ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  if (!good) return explain(error, "the crl", options->crl_name, " cannot be read: it must be revocation lists in PEM");
  ERR_clear_error();
  return X509_STORE_set_flags(store, X509_V_FLAG_CRL_CHECK | X509_V_FLAG_CRL_CHECK_ALL) == 1;
}

bool gyre_tls_identity_use(SSL_CTX *ssl, const struct gyre_tls_options *options, char *error) {
  STACK_OF(X509) *chain = NULL;
  if (options->certificate && !(chain = read_certificates(options->certificate)))
    return explain(error, "the certificate", options->certificate_name, " cannot be read");
  bool good = (!chain || use_certificates(ssl, chain, options, error)) &&
              (!options->key || use_key(ssl, chain, options, error)) &&
              (options->verify == GYRE_TLS_VERIFY_NONE || use_authorities(ssl, options, error)) &&
              (!options->crl || use_revocations(ssl, options, error));
  sk_X509_pop_free(chain, X509_free);
  return good;
}

bool gyre_tls_challenge_use(SSL *ssl, const char *folder, const char *name) {
  char path[4096];
  int length = snprintf(path, sizeof(path), "%s/%s.challenge", folder, name);
  if (length < 0 || (size_t)length >= sizeof(path) || strchr(name, '/')) return false; /* a client gave the name */
  BIO *file = BIO_new_file(path, "r");
  X509 *certificate = file ? PEM_read_bio_X509(file, NULL, give_passphrase, NULL) : NULL;
  EVP_PKEY *key = certificate ? PEM_read_bio_PrivateKey(file, NULL, give_passphrase, NULL) : NULL;
  bool used = key && SSL_use_cert_and_key(ssl, certificate, key, NULL, 1) == 1;
  EVP_PKEY_free(key);
  X509_free(certificate);
  BIO_free(file);
  ERR_clear_error();
  return used;
}
