/*
 * What one side shows and what it trusts: certificates, key, OCSP response and authorities out of
 * files or text into a context of libssl. Each mistake is a message with the file's name and what
 * to do. No ruby.h.
 */
#include "feature.h"

#ifdef GYRE_HAVE_LIBSSL
#include "net/tls_context.h"

#include <openssl/err.h>
#include <openssl/ocsp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* The reason is libssl's, if it has one. */
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
  (void)writing;
  if (!passphrase) return -1;
  passphrase->asked = true;
  size_t length = passphrase->text ? strlen(passphrase->text) : 0;
  if (!length || length > (size_t)size) return -1;
  memcpy(buffer, passphrase->text, length);
  return (int)length;
}

/* --- certificates --- */

/* The certificates in the order of the text; NULL: it cannot be read. */
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
  if (good && ERR_GET_REASON(ERR_peek_last_error()) != PEM_R_NO_START_LINE) good = false; /* the end of the text */
  BIO_free(bio);
  if (good) {
    ERR_clear_error();
    return chain;
  }
  sk_X509_pop_free(chain, X509_free);
  return NULL;
}

static void subject_of(X509 *certificate, char *text, size_t size) {
  BIO *bio = BIO_new(BIO_s_mem());
  int length = 0;
  if (bio && X509_NAME_print_ex(bio, X509_get_subject_name(certificate), 0, XN_FLAG_RFC2253) >= 0)
    length = BIO_read(bio, text, (int)size - 1);
  text[length > 0 ? length : 0] = '\0';
  BIO_free(bio);
  ERR_clear_error();
}

/* Each signed the one before it (RFC 5246, section 7.4.2); many clients take no other order. */
static bool check_order(STACK_OF(X509) * chain, const struct gyre_tls_options *options, char *error) {
  for (int i = 1; i < sk_X509_num(chain); i++) {
    X509 *before = sk_X509_value(chain, i - 1), *signer = sk_X509_value(chain, i);
    if (X509_NAME_cmp(X509_get_issuer_name(before), X509_get_subject_name(signer)) == 0) continue;
    char names[2][160];
    subject_of(before, names[0], sizeof(names[0]));
    subject_of(signer, names[1], sizeof(names[1]));
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

/* --- the key --- */

static bool refuse_key(const struct gyre_tls_options *options, const struct passphrase *passphrase, char *error) {
  const char *reason = " cannot be read: it must be a private key in PEM";
  if (passphrase->asked)
    reason = passphrase->text ? " is encrypted, and the passphrase given is not its own"
                              : " is encrypted: give its passphrase (gyre serve: key_password_command), or store it "
                                "without a passphrase (openssl pkey -in KEY -out NEW)";
  ERR_clear_error(); /* libssl's words for it are of no help */
  return explain(error, "the key", options->key_name, reason);
}

/* A certificate further down may be the key's: then the order is wrong. */
static bool refuse_pair(EVP_PKEY *key, STACK_OF(X509) * chain, const struct gyre_tls_options *options, char *error) {
  const char *name = options->certificate_name, *hint = "";
  for (int i = 1; chain && i < sk_X509_num(chain); i++) {
    if (X509_check_private_key(sk_X509_value(chain, i), key) == 1)
      hint = ": it belongs to a later one in that file, and the server's own must come first";
  }
  snprintf(error, GYRE_TLS_ERROR_BYTES, "the key %s does not belong to the certificate%s%s%s",
           options->key_name ? options->key_name : "given", name ? " " : "", name ? name : "", hint);
  ERR_clear_error();
  return false;
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
    (void)refuse_pair(key, chain, options, error);
  } else if (!used) {
    (void)explain(error, "the key", options->key_name, " cannot be used");
  }
  EVP_PKEY_free(key);
  ERR_clear_error();
  return used;
}

/* --- the OCSP response --- */

static int64_t seconds_of(const ASN1_GENERALIZEDTIME *when) {
  struct tm parts;
  return when && ASN1_TIME_to_tm(when, &parts) == 1 ? (int64_t)timegm(&parts) : 0;
}

/* The answer about this certificate, by its serial number. */
static OCSP_SINGLERESP *find_answer(OCSP_BASICRESP *basic, X509 *certificate) {
  for (int i = 0; basic && i < OCSP_resp_count(basic); i++) {
    OCSP_SINGLERESP *single = OCSP_resp_get0(basic, i);
    ASN1_INTEGER *serial = NULL;
    OCSP_id_get0_info(NULL, NULL, NULL, &serial, (OCSP_CERTID *)OCSP_SINGLERESP_get0_id(single));
    if (serial && ASN1_INTEGER_cmp(serial, X509_get0_serialNumber(certificate)) == 0) return single;
  }
  return NULL;
}

static bool use_staple(struct gyre_tls_context *context, X509 *certificate, const struct gyre_tls_options *options,
                       char *error) {
  const unsigned char *at = options->staple;
  OCSP_RESPONSE *response = d2i_OCSP_RESPONSE(NULL, &at, (long)options->staple_length);
  bool successful = response && OCSP_response_status(response) == OCSP_RESPONSE_STATUS_SUCCESSFUL;
  OCSP_BASICRESP *basic = successful ? OCSP_response_get1_basic(response) : NULL;
  OCSP_SINGLERESP *answer = find_answer(basic, certificate);
  ASN1_GENERALIZEDTIME *next = NULL;
  if (answer) OCSP_single_get0_status(answer, NULL, NULL, NULL, &next);
  struct gyre_tls_staple *staple = &context->staple;
  if (answer) staple->bytes = OPENSSL_memdup(options->staple, options->staple_length);
  staple->length = (int)options->staple_length;
  staple->until = seconds_of(next);
  OCSP_BASICRESP_free(basic);
  OCSP_RESPONSE_free(response);
  ERR_clear_error();
  if (staple->bytes) return true;
  if (answer) return explain(error, "no memory for the ocsp", options->staple_name, "");
  return explain(error, "the ocsp", options->staple_name,
                 !successful ? " holds no OCSP response in DER" : " holds no answer about the certificate");
}

/* --- authorities --- */

static bool use_authorities(SSL_CTX *ssl, const struct gyre_tls_options *options, char *error) {
  const char *name = options->ca_file ? options->ca_file : options->ca_folder;
  if (!name) {
    if (options->server) return true;
    return SSL_CTX_set_default_verify_paths(ssl) == 1 ||
           explain(error, "the system's authorities cannot be read", NULL, "");
  }
  if (SSL_CTX_load_verify_locations(ssl, options->ca_file, options->ca_folder) != 1)
    return explain(error, "the ca", name, " cannot be read");
  if (!options->server || !options->ca_file) return true;
  STACK_OF(X509_NAME) *names = SSL_load_client_CA_file(options->ca_file);
  if (!names) return explain(error, "the ca", name, " cannot be read");
  SSL_CTX_set_client_CA_list(ssl, names); /* which keeps them */
  return true;
}

bool gyre_tls_identity_use(struct gyre_tls_context *context, const struct gyre_tls_options *options, char *error) {
  STACK_OF(X509) *chain = NULL;
  if (options->certificate && !(chain = read_certificates(options->certificate)))
    return explain(error, "the certificate", options->certificate_name, " cannot be read");
  bool good = (!chain || use_certificates(context->ssl, chain, options, error)) &&
              (!options->key || use_key(context->ssl, chain, options, error)) &&
              (!options->staple || !chain || use_staple(context, sk_X509_value(chain, 0), options, error)) &&
              (options->verify == GYRE_TLS_VERIFY_NONE || use_authorities(context->ssl, options, error));
  sk_X509_pop_free(chain, X509_free);
  return good;
}

#endif
