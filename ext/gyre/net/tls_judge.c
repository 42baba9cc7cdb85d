/* Lets Ruby judge a peer's certificates within the handshake (gyre_tls_set_judge). */
#include "net/net.h"
#include "net/tls.h"
#include "net/transport_object.h"

#ifdef GYRE_HAVE_LIBSSL

struct judging {
  VALUE judge, der;
};

static VALUE call_judge(VALUE argument) {
  const struct judging *judging = (const struct judging *)argument;
  return rb_funcall(judging->judge, rb_intern("call"), 1, judging->der);
}

/* An exception must not jump over libssl: the judge handles its own. */
static bool judge(void *argument, const unsigned char *der, int length) {
  const struct gyre_transport_object *object = argument;
  struct judging judging = {object->judge, rb_str_new((const char *)der, length)};
  int state = 0;
  VALUE trusted = rb_protect(call_judge, (VALUE)&judging, &state);
  if (state) rb_set_errinfo(Qnil);
  return !state && RTEST(trusted);
}

/* @api private Calls judge.call(der) for each certificate of the peer, the highest first; true
 * trusts it. Called after begin_tls. The judge neither waits nor calls this transport. */
static VALUE object_judge_by(VALUE self, VALUE callable, VALUE required) {
  struct gyre_transport_object *object = gyre_transport_object_get(self);
  if (object->transport.operations != &gyre_transport_tls) rb_raise(rb_eRuntimeError, "TLS has not begun");
  RB_OBJ_WRITE(self, &object->judge, callable);
  gyre_tls_set_judge(&object->transport, RTEST(required), judge, object);
  return self;
}

void gyre_init_net_tls_judge(void) {
  VALUE transport_class = rb_define_class_under(gyre_mGyre, "Transport", rb_cObject);
  rb_define_method(transport_class, "judge_by", object_judge_by, 2);
}

#else

void gyre_init_net_tls_judge(void) {}

#endif
