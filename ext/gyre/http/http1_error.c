/*
 * The errors of HTTP (lib/gyre/http/errors.rb), made and raised in C. Calls nothing of HTTP.
 */
#include "http/http1.h"

static VALUE initialize; /* of Exception */
static ID id_bind_call;

VALUE gyre_http1_error(const char *name, int status, const char *message) {
  VALUE http = rb_const_get(gyre_mGyre, rb_intern("HTTP"));
  VALUE class = rb_const_get(http, rb_intern(name));
  VALUE arguments[] = {rb_str_new_cstr(message), INT2NUM(status)};
  return rb_class_new_instance(status ? 2 : 1, arguments, class);
}

/* Ruby's own `initialize` makes it, whatever the program has put in its place. */
VALUE gyre_http1_cancellation(const char *class, const char *message) {
  VALUE error = rb_obj_alloc(rb_path2class(class));
  rb_funcall(initialize, id_bind_call, 2, error, rb_str_new_cstr(message));
  return error;
}

void gyre_http1_request_is_over(void) { rb_raise(rb_eIOError, "this request is over"); }

void gyre_init_http1_error(void) {
  id_bind_call = rb_intern("bind_call");
  initialize = rb_funcall(rb_eException, rb_intern("instance_method"), 1, ID2SYM(rb_intern("initialize")));
  rb_gc_register_mark_object(initialize);
}
