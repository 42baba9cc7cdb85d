/* Opens a loop on a backend; lists backends for lib/gyre/loop/backends.rb, which chooses. */
#include "gyre.h"
#include "loop/backends.h"
#include "loop/forks.h"
#include "loop/loop.h"

#include <ruby/ractor.h>

static const struct gyre_backend_choice *named(VALUE name) {
  const struct gyre_backend_choice *choice = gyre_backends;
  while (choice->name && strcmp(choice->name, StringValueCStr(name))) choice++;
  if (!choice->name) rb_raise(rb_eArgError, "unknown backend %+" PRIsVALUE, name);
  return choice;
}

static const char *hint(const struct gyre_backend_choice *choice, int error) {
  return choice->operations->refusal ? choice->operations->refusal(error) : NULL;
}

void gyre_loop_open_on(struct gyre_loop *loop, VALUE name) {
  const struct gyre_backend_choice *choice = named(name);
  if (!choice->operations) rb_raise(rb_eRuntimeError, "backend %s is not built: %s", choice->name, choice->missing);
  int error = -gyre_loop_open(loop, choice->operations);
  const char *why = error ? hint(choice, error) : NULL;
  if (error) rb_syserr_fail_str(error, rb_sprintf("backend %s%s%s", choice->name, why ? ": " : "", why ? why : ""));
  gyre_loop_enlist(loop);
}

/* Tries to open a backend. Returns [true, description or nil] or [false, reason]. */
static VALUE native_probe(VALUE self, VALUE name) {
  const struct gyre_backend_choice *choice = named(name);
  if (!choice->operations) return rb_assoc_new(Qfalse, rb_sprintf("not built: %s", choice->missing));

  void *state = NULL;
  int error = -choice->operations->open(&state);
  const char *why = error ? hint(choice, error) : NULL;
  if (error) return rb_assoc_new(Qfalse, rb_sprintf("%s%s%s", strerror(error), why ? ": " : "", why ? why : ""));
  char text[256] = "";
  if (choice->operations->describe) snprintf(text, sizeof(text), "%s", choice->operations->describe(state));
  choice->operations->close(state);
  return rb_assoc_new(Qtrue, *text ? rb_str_new_cstr(text) : Qnil);
}

void gyre_init_loop_backend(void) {
  gyre_forks_count();
  VALUE native = rb_define_module_under(gyre_mGyre, "Native");
  rb_define_singleton_method(native, "probe", native_probe, 1);
  /* Keys: backend names, best first. Values: why this build lacks the backend, or nil. */
  VALUE backends = rb_hash_new();
  for (const struct gyre_backend_choice *choice = gyre_backends; choice->name; choice++)
    rb_hash_aset(backends, rb_str_new_cstr(choice->name), choice->missing ? rb_str_new_cstr(choice->missing) : Qnil);
  rb_define_const(native, "BACKENDS", rb_ractor_make_shareable(backends));
}
