/*
 * Which requests run although all places are taken: those about the server itself, and those for
 * files that are sent without the app. A connection asks when it has a head and no place for it.
 */
#include "http/http1.h"

#include <string.h>

static bool is_named(const struct gyre_http1_acceptor *acceptor, const struct gyre_http1_request *request) {
  const struct gyre_http1_slice path = request->head->path;
  for (long i = 0; i < RARRAY_LEN(acceptor->exempt); i++) {
    VALUE exempt = RARRAY_AREF(acceptor->exempt, i);
    if (RSTRING_LEN(exempt) == (long)path.length &&
        memcmp(RSTRING_PTR(exempt), request->bytes + path.offset, path.length) == 0)
      return true;
  }
  return false;
}

struct asking {
  VALUE files;
  const char *path;
  long length;
};

static VALUE ask(VALUE argument) {
  const struct asking *asking = (const struct asking *)argument;
  return rb_funcall(asking->files, rb_intern("call"), 1, rb_str_new(asking->path, asking->length));
}

/* Asked on the loop's fiber when all places are taken: it does not wait. What goes wrong is
 * reported, and the request waits for its turn like any other. */
static bool is_file(const struct gyre_http1_acceptor *acceptor, const struct gyre_http1_request *request) {
  if (NIL_P(acceptor->files)) return false;
  const struct gyre_http1_slice method = request->head->method, path = request->head->path;
  uint8_t number = gyre_http1_method_number(request->bytes + method.offset, method.length);
  if (number != GYRE_HTTP1_METHOD_GET && number != GYRE_HTTP1_METHOD_HEAD) return false;
  struct asking asking = {acceptor->files, request->bytes + path.offset, (long)path.length};
  int state = 0;
  VALUE found = rb_protect(ask, (VALUE)&asking, &state);
  if (!state) return RTEST(found);
  VALUE error = rb_errinfo();
  if (!rb_obj_is_kind_of(error, rb_eStandardError)) rb_jump_tag(state);
  rb_set_errinfo(Qnil);
  rb_funcall(acceptor->scheduler->self, rb_intern("report"), 2, error, rb_fiber_current());
  return false;
}

bool gyre_http1_is_exempt(const struct gyre_http1_acceptor *acceptor, const struct gyre_http1_request *request) {
  return is_named(acceptor, request) || is_file(acceptor, request);
}
