/*
 * Gyre::TLS::Context: what a transport needs to speak TLS, made once and used by many.
 */
#include "net/net.h"
#include "net/tls.h"

#ifdef GYRE_HAVE_LIBSSL

static void context_free(void *opaque) { gyre_tls_context_release(opaque); }

static size_t context_size(const void *opaque) {
  (void)opaque;
  return 4096; /* roughly what libssl takes; it has no figure */
}

static const rb_data_type_t context_type = {
    .wrap_struct_name = "Gyre::TLS::Context",
    .function = {.dfree = context_free, .dsize = context_size},
    .flags = RUBY_TYPED_FREE_IMMEDIATELY,
};

static VALUE context_allocate(VALUE class) { return TypedData_Wrap_Struct(class, &context_type, NULL); }

struct gyre_tls_context *gyre_tls_context_get(VALUE self) {
  struct gyre_tls_context *context = rb_check_typeddata(self, &context_type);
  if (!context) rb_raise(rb_eArgError, "uninitialized TLS context");
  return context;
}

/* Of a pair of Strings or nils. */
static const char *text(VALUE pair, long index) {
  VALUE string = rb_ary_entry(pair, index);
  return NIL_P(string) ? NULL : StringValueCStr(string);
}

/* @api private `identity`: certificate and key; `names`: their files; `authorities`: file and
 *   folder. */
static VALUE context_build(VALUE self, VALUE server, VALUE identity, VALUE names, VALUE authorities, VALUE verify,
                           VALUE alpn) {
  char error[GYRE_TLS_ERROR_BYTES];
  struct gyre_tls_context *former = rb_check_typeddata(self, &context_type);
  StringValue(alpn);
  struct gyre_tls_settings settings = {
      .server = RTEST(server),
      .certificate = text(identity, 0),
      .key = text(identity, 1),
      .certificate_name = text(names, 0),
      .key_name = text(names, 1),
      .ca_file = text(authorities, 0),
      .ca_folder = text(authorities, 1),
      .verify = (enum gyre_tls_verify)NUM2INT(verify),
      .alpn = (const unsigned char *)RSTRING_PTR(alpn),
      .alpn_length = (unsigned)RSTRING_LEN(alpn),
  };
  struct gyre_tls_context *context = gyre_tls_context_new(&settings, error);
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

void gyre_init_net_tls(void) {
  VALUE module = rb_define_module_under(gyre_mGyre, "TLS");
  VALUE class = rb_define_class_under(module, "Context", rb_cObject);
  rb_define_alloc_func(class, context_allocate);
  rb_define_private_method(class, "build", context_build, 6);
  rb_define_private_method(class, "add_name", context_add_name, 2);
}

#else

NORETURN(struct gyre_tls_context *gyre_tls_context_get(VALUE self));
struct gyre_tls_context *gyre_tls_context_get(VALUE self) {
  rb_raise(rb_eArgError, "%+" PRIsVALUE " is no TLS context", self); /* there can be none */
}

void gyre_init_net_tls(void) {}

#endif
