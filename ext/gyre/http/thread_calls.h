/* Methods that only the loop's thread runs: in another thread, the caller waits while a fiber of
 * the loop's thread runs the method (lib/gyre/http/thread_calls.rb). A file lists them in a macro,
 * as METHOD(prefix, name, number of arguments), and has the function prefix_name of each. */
#pragma once

#include "http/acceptor.h"

/* Calls the method in the loop's thread. */
static inline VALUE gyre_http_hand_over(const struct gyre_http_acceptor *acceptor, VALUE self, const char *method,
                                        int count, const VALUE *arguments) {
  return rb_funcall(acceptor->thread_calls.object, rb_intern("call"), 3, self, ID2SYM(rb_intern(method)),
                    rb_ary_new_from_values(count, arguments));
}

#define GYRE_HTTP_PARAMETERS_0
#define GYRE_HTTP_PARAMETERS_1 , VALUE first
#define GYRE_HTTP_PARAMETERS_2 , VALUE first, VALUE second
#define GYRE_HTTP_PARAMETERS_3 , VALUE first, VALUE second, VALUE third
#define GYRE_HTTP_ARGUMENTS_0
#define GYRE_HTTP_ARGUMENTS_1 , first
#define GYRE_HTTP_ARGUMENTS_2 , first, second
#define GYRE_HTTP_ARGUMENTS_3 , first, second, third

/* The method for all threads. The file's prefix_elsewhere returns the acceptor in another thread
 * than the loop's, otherwise NULL. */
#define GYRE_HTTP_TRAMPOLINE(prefix, name, count)                                                                      \
  static VALUE prefix##_anywhere_##name(VALUE self GYRE_HTTP_PARAMETERS_##count) {                                     \
    const struct gyre_http_acceptor *acceptor = prefix##_elsewhere(self);                                              \
    if (!acceptor) return prefix##_##name(self GYRE_HTTP_ARGUMENTS_##count);                                           \
    return gyre_http_hand_over(acceptor, self, #name, count, (VALUE[]){self GYRE_HTTP_ARGUMENTS_##count} + 1);         \
  }

#define GYRE_HTTP_DEFINE(prefix, name, count) rb_define_method(class, #name, prefix##_anywhere_##name, count);
