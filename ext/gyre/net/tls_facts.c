/* Facts about the TLS of a Gyre::Transport; nil without TLS. */
#include "net/net.h"
#include "net/tls.h"

#ifdef GYRE_HAVE_LIBSSL

/* NULL without TLS. */
static const struct gyre_transport *get_tls(VALUE self) {
  const struct gyre_transport *transport = gyre_transport_of(self);
  return transport->operations == &gyre_transport_tls && transport->state ? transport : NULL;
}

/* @return [String, nil] the TLS version, such as "TLSv1.3"; nil without TLS */
static VALUE tls_version(VALUE self) {
  const struct gyre_transport *transport = get_tls(self);
  return transport ? rb_str_new_cstr(gyre_tls_version(transport)) : Qnil;
}

/* @return [String, nil] the cipher, as libssl names it; nil without TLS */
static VALUE tls_cipher(VALUE self) {
  const struct gyre_transport *transport = get_tls(self);
  return transport ? rb_str_new_cstr(gyre_tls_cipher(transport)) : Qnil;
}

/* @return [Integer, nil] the bits of the cipher's key; nil without TLS */
static VALUE tls_cipher_bits(VALUE self) {
  const struct gyre_transport *transport = get_tls(self);
  return transport ? INT2NUM(gyre_tls_cipher_bits(transport)) : Qnil;
}

/* @return [String, nil] the host name that the client asked for (SNI) */
static VALUE tls_server_name(VALUE self) {
  const struct gyre_transport *transport = get_tls(self);
  const char *name = transport ? gyre_tls_server_name(transport) : NULL;
  return name ? rb_str_new_cstr(name) : Qnil;
}

/* @return [String, nil] the negotiated protocol (ALPN) */
static VALUE alpn(VALUE self) {
  const struct gyre_transport *transport = get_tls(self);
  const unsigned char *protocol = NULL;
  unsigned length = transport ? gyre_tls_alpn(transport, &protocol) : 0;
  return length ? rb_str_new((const char *)protocol, length) : Qnil;
}

/* @return [Boolean] whether an earlier session was resumed */
static VALUE tls_resumed_p(VALUE self) {
  const struct gyre_transport *transport = get_tls(self);
  return transport && gyre_tls_resumed(transport) ? Qtrue : Qfalse;
}

static VALUE certificate_of(const struct gyre_transport *transport) {
  unsigned char *der = NULL;
  int length = gyre_tls_peer_certificate(transport, &der);
  if (!length) return Qnil;
  VALUE string = rb_str_new((const char *)der, length);
  gyre_tls_free(der);
  return string;
}

VALUE gyre_net_peer_certificate(const struct gyre_transport *transport) {
  bool asked = transport->operations == &gyre_transport_tls && transport->state && gyre_tls_verifies(transport);
  return asked ? certificate_of(transport) : Qundef;
}

/* @return [String, nil] the peer's certificate as DER; nil without one */
static VALUE peer_certificate(VALUE self) {
  const struct gyre_transport *transport = get_tls(self);
  return transport ? certificate_of(transport) : Qnil;
}

/* @return [String, nil] the peer's subject (RFC 2253) in UTF-8: "CN=client,O=Example" */
static VALUE peer_subject(VALUE self) {
  const struct gyre_transport *transport = get_tls(self);
  char text[1024];
  int length = transport ? gyre_tls_peer_subject(transport, text, sizeof(text)) : 0;
  return length ? rb_utf8_str_new(text, length) : Qnil;
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
}

#else

VALUE gyre_net_peer_certificate(const struct gyre_transport *transport) { return Qundef; }

static VALUE nothing(VALUE self) { return Qnil; } /* without TLS */

void gyre_init_net_tls_facts(void) {
  VALUE transport_class = rb_define_class_under(gyre_mGyre, "Transport", rb_cObject);
  static const char *const names[] = {"tls_version", "tls_cipher",   "tls_cipher_bits",      "tls_server_name",
                                      "alpn",        "tls_resumed?", "peer_certificate_der", "peer_subject"};
  for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) rb_define_method(transport_class, names[i], nothing, 0);
}

#endif
