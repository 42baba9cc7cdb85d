/* Finds requests that need no place: about the server itself, and for files without the app. Called
 * for a head without a place. */
#include "http/exchange.h"

#include <string.h>

static bool is_named(const struct gyre_http_acceptor *acceptor, const struct gyre_http_request *request) {
  const struct gyre_http_slice path = request->head->path;
  for (long i = 0; i < RARRAY_LEN(acceptor->exempt.paths); i++) {
    VALUE exempt = RARRAY_AREF(acceptor->exempt.paths, i);
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

/* Never waits, as it runs on the loop's fiber. After a reported error the request queues. */
static bool is_file(const struct gyre_http_acceptor *acceptor, const struct gyre_http_request *request) {
  if (NIL_P(acceptor->exempt.files)) return false;
  const struct gyre_http_slice method = request->head->method, path = request->head->path;
  uint8_t number = gyre_http_method_number(request->bytes + method.offset, method.length);
  if (number != GYRE_HTTP_METHOD_GET && number != GYRE_HTTP_METHOD_HEAD) return false;
  struct asking asking = {acceptor->exempt.files, request->bytes + path.offset, (long)path.length};
  int state = 0;
  VALUE found = rb_protect(ask, (VALUE)&asking, &state);
  if (!state) return RTEST(found);
  VALUE error = rb_errinfo();
  if (!rb_obj_is_kind_of(error, rb_eStandardError)) rb_jump_tag(state);
  rb_set_errinfo(Qnil);
  rb_funcall(acceptor->scheduler->self, rb_intern("report"), 2, error, rb_fiber_current());
  return false;
}

bool gyre_http_is_exempt(const struct gyre_http_acceptor *acceptor, const struct gyre_http_request *request) {
  return is_named(acceptor, request) || is_file(acceptor, request);
}

bool gyre_http_admit(struct gyre_http_acceptor *acceptor, struct gyre_http_request *request) {
  struct gyre_admission *admission = &acceptor->capacity->admission;
  if (!gyre_admission_has_place(admission)) return gyre_http_is_exempt(acceptor, request);
  gyre_admission_take(admission);
  request->placed = true;
  return true;
}
