/*
 * The errors of HTTP (lib/gyre/http/errors.rb), made and raised in C. Calls nothing of HTTP.
 */
#include "http/http1.h"

VALUE gyre_http1_error(const char *name, int status, const char *message) {
  VALUE http = rb_const_get(gyre_mGyre, rb_intern("HTTP"));
  VALUE class = rb_const_get(http, rb_intern(name));
  VALUE arguments[] = {rb_str_new_cstr(message), INT2NUM(status)};
  return rb_class_new_instance(status ? 2 : 1, arguments, class);
}

void gyre_http1_request_is_over(void) { rb_raise(rb_eIOError, "this request is over"); }
