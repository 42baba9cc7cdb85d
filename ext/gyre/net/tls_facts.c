/* Gyre::Transport's methods about its TLS (nil if there is none), and judge_by, which lets Ruby
 * judge the peer's certificates. */
#include "net/net.h"

#ifdef GYRE_HAVE_LIBSSL
#include "net/tls_context.h"
#include "net/transport_object.h"

/* NULL for a plain transport. */
static SSL *ssl_of(const struct gyre_transport *transport) {
  return transport->operations == &gyre_transport_tls && transport->state ? gyre_tls_ssl(transport) : NULL;
}

static SSL *get_ssl(VALUE self) { return ssl_of(gyre_transport_of(self)); }

/* @return [String, nil] the TLS version, such as "TLSv1.3"; nil if plain */
static VALUE tls_version(VALUE self) {
  SSL *ssl = get_ssl(self);
  return ssl ? rb_str_new_cstr(SSL_get_version(ssl)) : Qnil;
}

/* @return [String, nil] the cipher, as libssl names it; nil if plain */
static VALUE tls_cipher(VALUE self) {
  SSL *ssl = get_ssl(self);
  return ssl ? rb_str_new_cstr(SSL_get_cipher_name(ssl)) : Qnil;
}

/* @return [Integer, nil] the bits of the cipher's key; nil if plain */
static VALUE tls_cipher_bits(VALUE self) {
  SSL *ssl = get_ssl(self);
  return ssl ? INT2NUM(SSL_get_cipher_bits(ssl, NULL)) : Qnil;
}

/* @return [String, nil] the host name that the client asked for (SNI) */
static VALUE tls_server_name(VALUE self) {
  SSL *ssl = get_ssl(self);
  const char *name = ssl ? SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name) : NULL;
  return name ? rb_str_new_cstr(name) : Qnil;
}

/* @return [String, nil] the negotiated protocol (ALPN) */
static VALUE alpn(VALUE self) {
  SSL *ssl = get_ssl(self);
  const unsigned char *protocol = NULL;
  unsigned length = 0;
  if (ssl) SSL_get0_alpn_selected(ssl, &protocol, &length);
  return length ? rb_str_new((const char *)protocol, length) : Qnil;
}

/* @return [Boolean] whether an earlier session was resumed */
static VALUE tls_resumed_p(VALUE self) {
  SSL *ssl = get_ssl(self);
  return ssl && SSL_session_reused(ssl) ? Qtrue : Qfalse;
}

static VALUE certificate_of(SSL *ssl) {
  X509 *certificate = SSL_get1_peer_certificate(ssl);
  unsigned char *der = NULL;
  int length = certificate ? i2d_X509(certificate, &der) : 0;
  X509_free(certificate);
  if (length <= 0) return Qnil;
  VALUE string = rb_str_new((const char *)der, length);
  OPENSSL_free(der);
  return string;
}

VALUE gyre_net_peer_certificate(const struct gyre_transport *transport) {
  SSL *ssl = ssl_of(transport);
  return ssl && SSL_get_verify_mode(ssl) != SSL_VERIFY_NONE ? certificate_of(ssl) : Qundef;
}

/* @return [String, nil] the peer's certificate as DER; nil if the peer sent none */
static VALUE peer_certificate(VALUE self) {
  SSL *ssl = get_ssl(self);
  return ssl ? certificate_of(ssl) : Qnil;
}

/* @return [String, nil] the peer's subject (RFC 2253) in UTF-8: "CN=client,O=Example" */
static VALUE peer_subject(VALUE self) {
  SSL *ssl = get_ssl(self);
  X509 *certificate = ssl ? SSL_get1_peer_certificate(ssl) : NULL;
  char text[1024];
  int length = certificate ? gyre_tls_subject(certificate, text, sizeof(text)) : 0;
  X509_free(certificate);
  return length ? rb_utf8_str_new(text, length) : Qnil;
}

struct judging {
  VALUE judge, der;
};

static VALUE call_judge(VALUE argument) {
  const struct judging *judging = (const struct judging *)argument;
  return rb_funcall(judging->judge, rb_intern("call"), 1, judging->der);
}

/* An exception must not unwind libssl's frames; instead, it rejects the certificate. */
static bool judge(void *argument, const unsigned char *der, int length) {
  const struct gyre_transport_object *object = argument;
  struct judging judging = {object->judge, rb_str_new((const char *)der, length)};
  int state = 0;
  VALUE trusted = rb_protect(call_judge, (VALUE)&judging, &state);
  if (state) rb_set_errinfo(Qnil);
  return !state && RTEST(trusted);
}

/* @api private Calls callable.call(der) for each of the peer's certificates, from the top of the
 * chain down; true trusts it. Call after begin_tls. The callable must not wait or use self. */
static VALUE object_judge_by(VALUE self, VALUE callable, VALUE required) {
  struct gyre_transport_object *object = gyre_transport_object_get(self);
  if (object->transport.operations != &gyre_transport_tls) rb_raise(rb_eRuntimeError, "TLS has not begun");
  RB_OBJ_WRITE(self, &object->judge, callable);
  gyre_tls_set_judge(&object->transport, RTEST(required), judge, object);
  return self;
}

void gyre_init_net_tls_facts(void) {
  VALUE transport_class = rb_define_class_under(gyre_mGyre, "Transport", rb_cObject);
  rb_define_method(transport_class, "tls_version", tls_version, 0);
  rb_define_method(transport_class, "tls_cipher", tls_cipher, 0);
  rb_define_method(transport_class, "tls_cipher_bits", tls_cipher_bits, 0);
  rb_define_method(transport_class, "tls_server_name", tls_server_name, 0);
  rb_define_method(transport_class, "alpn", alpn, 0);
  rb_define_method(transport_class, "tls_resumed?", tls_resumed_p, 0);
  rb_define_method(transport_class, "peer_certificate_der", peer_certificate, 0);
  rb_define_method(transport_class, "peer_subject", peer_subject, 0);
  rb_define_method(transport_class, "judge_by", object_judge_by, 2);
}

#else

VALUE gyre_net_peer_certificate(const struct gyre_transport *transport) { return Qundef; }

static VALUE nothing(VALUE self) { return Qnil; } /* built without libssl */

void gyre_init_net_tls_facts(void) {
  VALUE transport_class = rb_define_class_under(gyre_mGyre, "Transport", rb_cObject);
  static const char *const names[] = {"tls_version", "tls_cipher",   "tls_cipher_bits",      "tls_server_name",
                                      "alpn",        "tls_resumed?", "peer_certificate_der", "peer_subject"};
  for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) rb_define_method(transport_class, names[i], nothing, 0);
}

#endif
