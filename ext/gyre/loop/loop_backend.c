/* Opens a loop on the requested backend or the first that opens, and keeps failures' reasons, which
 * Gyre::Native.backends, probe and refusals show (lib/gyre/loop/backends.rb). */
#include "feature.h"

#include "gyre.h"
#include "loop/backends.h"
#include "loop/forks.h"
#include "loop/loop.h"

#include <errno.h>
#include <string.h>

#define BACKENDS_LIMIT 8

/* By backend: the errno that refused it at the last opening, or 0. Atomic. */
static int refused[BACKENDS_LIMIT];

static const struct gyre_backend_choice *find(const char *name) {
  const struct gyre_backend_choice *choice = gyre_backends;
  while (choice->name && strcmp(choice->name, name)) choice++;
  return choice->name ? choice : NULL;
}

/* An errno's meaning. */
static VALUE reason(const struct gyre_backend_choice *choice, int error) {
  VALUE text = rb_str_new_cstr(strerror(error));
  const char *hint = choice->operations->refusal ? choice->operations->refusal(error) : NULL;
  return hint ? rb_str_catf(text, ": %s", hint) : text;
}

static const struct gyre_backend_choice *named(VALUE name) {
  const struct gyre_backend_choice *choice = find(StringValueCStr(name));
  if (choice) return choice;
  VALUE names = rb_str_new(NULL, 0);
  for (choice = gyre_backends; choice->name; choice++)
    rb_str_catf(names, "%s%s", choice == gyre_backends ? "" : ", ", choice->name);
  rb_raise(rb_eArgError, "unknown backend %+" PRIsVALUE ": choose one of %" PRIsVALUE, name, names);
}

static void open_named(struct gyre_loop *loop, VALUE name) {
  const struct gyre_backend_choice *choice = named(name);
  if (!choice->operations) rb_raise(rb_eRuntimeError, "backend %s is not built: %s", choice->name, choice->missing);
  int error = gyre_loop_open(loop, choice->operations);
  if (error == 0) return;
  const char *hint = choice->operations->refusal ? choice->operations->refusal(-error) : NULL;
  rb_syserr_fail_str(-error, rb_sprintf("backend %s%s%s", choice->name, hint ? ": " : "", hint ? hint : ""));
}

static void open_first(struct gyre_loop *loop) {
  int error = -ENOSYS;
  for (int i = 0; i < BACKENDS_LIMIT && gyre_backends[i].name; i++) {
    if (!gyre_backends[i].operations) continue;
    int outcome = gyre_loop_open(loop, gyre_backends[i].operations);
    __atomic_store_n(&refused[i], -outcome, __ATOMIC_RELAXED);
    if (outcome == 0) return;
    if (error == -ENOSYS) error = outcome;
  }
  rb_syserr_fail(-error, "no native backend opens");
}

void gyre_loop_open_on(struct gyre_loop *loop, VALUE name) {
  if (NIL_P(name)) {
    open_first(loop);
  } else {
    open_named(loop, rb_String(name));
  }
  gyre_loop_enlist(loop);
}

/* The best first, even if not built. */
static VALUE native_backends(VALUE self) {
  VALUE names = rb_ary_new();
  for (const struct gyre_backend_choice *choice = gyre_backends; choice->name; choice++) {
    rb_ary_push(names, rb_str_new_cstr(choice->name));
  }
  return names;
}

/* Opens a backend. Returns true and a description, or false and the reason. */
static VALUE native_probe(VALUE self, VALUE name) {
  const struct gyre_backend_choice *choice = named(name);
  if (!choice->operations) return rb_assoc_new(Qfalse, rb_sprintf("not built: %s", choice->missing));

  void *state = NULL;
  int error = choice->operations->open(&state);
  if (error < 0) return rb_assoc_new(Qfalse, reason(choice, -error));
  char text[256] = "";
  if (choice->operations->describe) snprintf(text, sizeof(text), "%s", choice->operations->describe(state));
  choice->operations->close(state);
  return rb_assoc_new(Qtrue, *text ? rb_str_new_cstr(text) : Qnil);
}

/* Returns backends skipped at the last opening, and why. */
static VALUE native_refusals(VALUE self) {
  VALUE refusals = rb_hash_new();
  for (int i = 0; i < BACKENDS_LIMIT && gyre_backends[i].name; i++) {
    int error = __atomic_load_n(&refused[i], __ATOMIC_RELAXED);
    if (error) rb_hash_aset(refusals, rb_str_new_cstr(gyre_backends[i].name), reason(&gyre_backends[i], error));
  }
  return refusals;
}

void gyre_init_loop_backend(void) {
  gyre_forks_count();
  VALUE native = rb_define_module_under(gyre_mGyre, "Native");
  rb_define_singleton_method(native, "backends", native_backends, 0);
  rb_define_singleton_method(native, "probe", native_probe, 1);
  rb_define_singleton_method(native, "refusals", native_refusals, 0);
}
