/* Gyre::TLS::Context, shared by transports, and Gyre::TLS::TicketKeys, shared by contexts. */
#include "net/net.h"
#include "net/tls.h"
#include "net/tls_tickets.h"

#ifdef GYRE_HAVE_LIBSSL
#include <openssl/crypto.h>

static void context_free(void *opaque) { gyre_tls_context_release(opaque); }

static size_t context_size(const void *opaque) { return 4096; } /* an estimate */

GYRE_TYPE(context_type, "Gyre::TLS::Context", NULL, context_free, context_size, RUBY_TYPED_FREE_IMMEDIATELY);

static VALUE context_allocate(VALUE class) { return TypedData_Wrap_Struct(class, &context_type, NULL); }

struct gyre_tls_context *gyre_tls_context_get(VALUE self) {
  struct gyre_tls_context *context = rb_check_typeddata(self, &context_type);
  if (!context) rb_raise(rb_eArgError, "uninitialized TLS context");
  return context;
}

static VALUE option(VALUE options, const char *name) { return rb_hash_lookup(options, ID2SYM(rb_intern(name))); }

static const char *text(VALUE options, const char *name) {
  VALUE string = option(options, name);
  return NIL_P(string) ? NULL : StringValueCStr(string);
}

static struct gyre_tls_tickets *tickets_of(VALUE tickets);

/* Returns the X509_STORE of Ruby's OpenSSL::X509::Store, which must use the same libcrypto. */
static void *store_of(VALUE store) {
  if (NIL_P(store)) return NULL;
  VALUE version = rb_const_get(rb_path2class("OpenSSL"), rb_intern("OPENSSL_LIBRARY_VERSION"));
  if (!RTYPEDDATA_P(store) || strcmp(RTYPEDDATA_TYPE(store)->wrap_struct_name, "OpenSSL/X509/STORE"))
    rb_raise(rb_eTypeError, "tls: store must be an OpenSSL::X509::Store");
  if (strcmp(StringValueCStr(version), OpenSSL_version(OPENSSL_VERSION)))
    rb_raise(rb_eArgError, "tls: store is of another libcrypto (%" PRIsVALUE "): write its authorities to a file",
             version);
  return RTYPEDDATA_DATA(store);
}

/* @api private Takes a Hash of struct gyre_tls_options' fields; nil: not given. */
static VALUE context_build(VALUE self, VALUE given) {
  char error[GYRE_TLS_ERROR_BYTES];
  struct gyre_tls_context *former = rb_check_typeddata(self, &context_type);
  Check_Type(given, T_HASH);
  VALUE alpn = option(given, "alpn"), tickets = option(given, "tickets");
  StringValue(alpn);
  struct gyre_tls_options options = {
      .server = RTEST(option(given, "server")),
      .certificate = text(given, "certificate"),
      .key = text(given, "key"),
      .key_passphrase = text(given, "key_passphrase"),
      .certificate_name = text(given, "certificate_name"),
      .key_name = text(given, "key_name"),
      .ca_file = text(given, "ca_file"),
      .ca_folder = text(given, "ca_folder"),
      .authorities = text(given, "authorities"),
      .verify = (enum gyre_tls_verify)NUM2INT(option(given, "verify")),
      .store = store_of(option(given, "store")),
      .any_name = RTEST(option(given, "any_name")),
      .crl = text(given, "crl"),
      .crl_name = text(given, "crl_name"),
      .ciphers = text(given, "ciphers"),
      .suites = text(given, "suites"),
      .oldest = NUM2INT(option(given, "oldest")),
      .newest = NUM2INT(option(given, "newest")),
      .groups = text(given, "groups"),
      .dh_parameters = text(given, "dh_parameters"),
      .tickets = NIL_P(tickets) ? NULL : tickets_of(tickets),
      .challenges = text(given, "challenges"),
      .alpn = (const unsigned char *)RSTRING_PTR(alpn),
      .alpn_length = (unsigned)RSTRING_LEN(alpn),
  };
  struct gyre_tls_context *context = gyre_tls_context_new(&options, error);
  RB_GC_GUARD(given); /* keeps all texts alive */
  if (!context) rb_raise(rb_eArgError, "tls: %s", error);
  RTYPEDDATA_DATA(self) = context;
  gyre_tls_context_release(former);
  return self;
}

/* @api private */
static VALUE context_add_name(VALUE self, VALUE name, VALUE identity) {
  if (gyre_tls_context_add_name(gyre_tls_context_get(self), StringValueCStr(name), gyre_tls_context_get(identity)) < 0)
    rb_memerror();
  return self;
}

/* @api private Returns the certificate's validity in seconds since 1970, or nil. */
static VALUE context_times(VALUE self) {
  int64_t from, until;
  if (!gyre_tls_context_times(gyre_tls_context_get(self), &from, &until)) return Qnil;
  return rb_assoc_new(LL2NUM(from), LL2NUM(until));
}

static void tickets_free(void *opaque) { gyre_tls_tickets_release(opaque); }

static size_t tickets_size(const void *opaque) { return 512; }

GYRE_TYPE(tickets_type, "Gyre::TLS::TicketKeys", NULL, tickets_free, tickets_size, RUBY_TYPED_FREE_IMMEDIATELY);

static VALUE tickets_allocate(VALUE class) { return TypedData_Wrap_Struct(class, &tickets_type, NULL); }

static struct gyre_tls_tickets *tickets_of(VALUE self) {
  struct gyre_tls_tickets *tickets = rb_check_typeddata(self, &tickets_type);
  if (!tickets) rb_raise(rb_eArgError, "uninitialized ticket keys");
  return tickets;
}

/* @api private Takes the interval in seconds, or saved keys. */
static VALUE tickets_build(VALUE self, VALUE given) {
  struct gyre_tls_tickets *former = rb_check_typeddata(self, &tickets_type), *tickets;
  if (RB_INTEGER_TYPE_P(given)) {
    tickets = gyre_tls_tickets_new(NUM2LL(given));
  } else {
    StringValue(given);
    if (RSTRING_LEN(given) != GYRE_TLS_TICKETS_BYTES) rb_raise(rb_eArgError, "these are no ticket keys");
    tickets = gyre_tls_tickets_load((const unsigned char *)RSTRING_PTR(given));
  }
  if (!tickets) rb_raise(rb_eArgError, "ticket keys cannot be made of that");
  RTYPEDDATA_DATA(self) = tickets;
  gyre_tls_tickets_release(former);
  return self;
}

/* @return [String] secret, for TicketKeys.load */
static VALUE tickets_save(VALUE self) {
  unsigned char bytes[GYRE_TLS_TICKETS_BYTES];
  gyre_tls_tickets_save(tickets_of(self), bytes);
  return rb_str_new((const char *)bytes, sizeof(bytes));
}

void gyre_init_net_tls(void) {
  VALUE module = rb_define_module_under(gyre_mGyre, "TLS");
  VALUE tickets = rb_define_class_under(module, "TicketKeys", rb_cObject);
  rb_define_alloc_func(tickets, tickets_allocate);
  rb_define_private_method(tickets, "build", tickets_build, 1);
  rb_define_method(tickets, "save", tickets_save, 0);
  VALUE class = rb_define_class_under(module, "Context", rb_cObject);
  rb_define_alloc_func(class, context_allocate);
  rb_define_private_method(class, "build", context_build, 1);
  rb_define_private_method(class, "times", context_times, 0);
  rb_define_private_method(class, "add_name", context_add_name, 2);
}

#else

_Noreturn struct gyre_tls_context *gyre_tls_context_get(VALUE self) {
  rb_raise(rb_eArgError, "%+" PRIsVALUE " is no TLS context", self); /* built without libssl */
}

void gyre_init_net_tls(void) {}

#endif
