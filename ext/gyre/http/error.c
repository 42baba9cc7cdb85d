/* Makes HTTP's errors (lib/gyre/http/errors.rb) and interrupts fibers with them. */
#include "http/exchange.h"

static VALUE initialize; /* Exception#initialize */

VALUE gyre_http_error(const char *name, int status, const char *message) {
  VALUE class = rb_const_get(rb_path2class("Gyre::HTTP"), rb_intern(name));
  VALUE arguments[] = {rb_str_new_cstr(message), INT2NUM(status)};
  return rb_class_new_instance(status ? 2 : 1, arguments, class);
}

struct cancellation {
  const char *class, *message;
};

/* Calls Exception's own `initialize`, even if the program has replaced it. */
static VALUE make(VALUE argument) {
  const struct cancellation *cancellation = (const struct cancellation *)argument;
  VALUE error = rb_obj_alloc(rb_path2class(cancellation->class));
  rb_funcall(initialize, rb_intern("bind_call"), 2, error, rb_str_new_cstr(cancellation->message));
  return error;
}

struct gyre_interrupt *gyre_http_cancel(struct gyre_scheduler *scheduler, VALUE fiber, const char *class,
                                        const char *message) {
  struct cancellation cancellation = {class, message};
  int state = 0;
  VALUE error = rb_protect(make, (VALUE)&cancellation, &state);
  if (!state) return gyre_interrupt_fiber(scheduler, fiber, error);
  rb_set_errinfo(Qnil);
  return NULL;
}

void gyre_init_http_error(void) {
  initialize = gyre_kept(rb_funcall(rb_eException, rb_intern("instance_method"), 1, ID2SYM(rb_intern("initialize"))));
}
