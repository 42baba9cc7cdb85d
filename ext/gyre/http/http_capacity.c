/*
 * Gyre::HTTP::Capacity: the places and budgets of one server (http_capacity.h), which its acceptors
 * share. It outlives its Ruby object where an acceptor has it still.
 */
#include "http/http_capacity.h"
#include "http/http1.h"

#include <stdlib.h>

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

static size_t capacity_size(const void *opaque) {
  (void)opaque;
  return sizeof(struct gyre_http_capacity);
}

static const rb_data_type_t capacity_type = {
    .wrap_struct_name = "Gyre::HTTP::Capacity",
    .function = {.dmark = NULL, .dfree = capacity_free, .dsize = capacity_size},
    .flags = RUBY_TYPED_FREE_IMMEDIATELY,
};

static VALUE capacity_allocate(VALUE class) {
  struct gyre_http_capacity *capacity = calloc(1, sizeof(*capacity));
  if (!capacity) rb_memerror();
  capacity->owners = 1;
  gyre_admission_init(&capacity->admission);
  return TypedData_Wrap_Struct(class, &capacity_type, capacity);
}

static struct gyre_http_capacity *get(VALUE self) {
  struct gyre_http_capacity *capacity;
  TypedData_Get_Struct(self, struct gyre_http_capacity, &capacity_type, capacity);
  return capacity;
}

static VALUE capacity_initialize(VALUE self, VALUE limits) {
  struct gyre_http1_limits_table table;
  struct gyre_http_capacity *capacity = get(self);
  gyre_http1_limits_read(&table, limits);
  capacity->admission.running_limit = table.running;
  capacity->admission.queue_limit = table.queue;
  capacity->admission.queue_ns = table.queue_ns;
  capacity->heads.limit = table.head_bytes;
  capacity->input.limit = table.input_bytes;
  capacity->output.limit = table.output_bytes;
  capacity->files.limit = table.files;
  return self;
}

struct gyre_http_capacity *gyre_http_capacity_take(VALUE self) {
  struct gyre_http_capacity *capacity = get(self);
  capacity->owners++;
  return capacity;
}

/* What of each budget is in use, for tests and figures. */
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
  VALUE http = rb_define_module_under(gyre_mGyre, "HTTP");
  VALUE class = rb_define_class_under(http, "Capacity", rb_cObject);
  rb_define_alloc_func(class, capacity_allocate);
  rb_define_method(class, "initialize", capacity_initialize, 1);
  rb_define_method(class, "used", capacity_used, 0);
}
