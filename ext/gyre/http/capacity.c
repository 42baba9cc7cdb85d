/* Gyre::HTTP::Capacity: one server's places and budgets (capacity.h), shared by its acceptors.
 * Freed by its last owner. */
#include "http/capacity.h"
#include "http/acceptor.h"

#include <stdlib.h>

const char *gyre_http_capacity_enter(struct gyre_http_capacity *capacity, struct gyre_admission_waiter *waiter,
                                     uint32_t *counted, size_t bytes, bool last) {
  const char *reason = NULL;
  gyre_http_budget_hold(&capacity->heads, counted, bytes);
  if (gyre_http_budget_is_over(&capacity->heads)) {
    capacity->admission.refused++;
    reason = GYRE_HTTP_WAITING_HOLD_TOO_MUCH;
  } else if (gyre_admission_enter(&capacity->admission, waiter) == GYRE_ADMISSION_REFUSED) {
    reason = "too many requests wait already";
  }
  if (reason) {
    gyre_http_budget_hold(&capacity->heads, counted, 0);
  } else if (last) {
    gyre_admission_put_last(&capacity->admission, waiter);
  }
  return reason;
}

void gyre_http_capacity_start(struct gyre_http_capacity *capacity, struct gyre_loop *loop) {
  if (capacity->started++ == 0) gyre_admission_start(&capacity->admission, loop);
}

void gyre_http_capacity_stop(struct gyre_http_capacity *capacity) {
  if (capacity->started > 0 && --capacity->started == 0) gyre_admission_stop(&capacity->admission);
}

void gyre_http_capacity_forget(struct gyre_http_capacity *capacity) {
  capacity->started = 0;
  gyre_admission_forget(&capacity->admission);
}

void gyre_http_capacity_release(struct gyre_http_capacity *capacity) {
  if (capacity && --capacity->owners == 0) free(capacity);
}

static void capacity_free(void *opaque) { gyre_http_capacity_release(opaque); }

GYRE_TYPE(capacity_type, "Gyre::HTTP::Capacity", NULL, capacity_free, NULL, RUBY_TYPED_FREE_IMMEDIATELY);

static VALUE capacity_allocate(VALUE class) {
  struct gyre_http_capacity *capacity = calloc(1, sizeof(*capacity));
  if (!capacity) rb_memerror();
  capacity->owners = 1;
  gyre_admission_init(&capacity->admission);
  return TypedData_Wrap_Struct(class, &capacity_type, capacity);
}

static struct gyre_http_capacity *get(VALUE self) { return rb_check_typeddata(self, &capacity_type); }

static VALUE capacity_initialize(VALUE self, VALUE limits) {
  gyre_http_capacity_read(get(self), limits);
  return self;
}

struct gyre_http_capacity *gyre_http_capacity_take(VALUE self) {
  struct gyre_http_capacity *capacity = get(self);
  capacity->owners++;
  return capacity;
}

/* The use of each budget, for tests and figures. */
static VALUE capacity_used(VALUE self) {
  const struct gyre_http_capacity *capacity = get(self);
  VALUE used = rb_hash_new();
  rb_hash_aset(used, ID2SYM(rb_intern("heads")), LL2NUM(capacity->heads.used));
  rb_hash_aset(used, ID2SYM(rb_intern("input")), LL2NUM(capacity->input.used));
  rb_hash_aset(used, ID2SYM(rb_intern("output")), LL2NUM(capacity->output.used));
  rb_hash_aset(used, ID2SYM(rb_intern("files")), LL2NUM(capacity->files.used));
  rb_hash_aset(used, ID2SYM(rb_intern("places")), UINT2NUM(capacity->admission.running));
  return used;
}

void gyre_init_http_capacity(void) {
  VALUE class = rb_define_class_under(rb_define_module_under(gyre_mGyre, "HTTP"), "Capacity", rb_cObject);
  rb_define_alloc_func(class, capacity_allocate);
  rb_define_method(class, "initialize", capacity_initialize, 1);
  rb_define_method(class, "used", capacity_used, 0);
}
