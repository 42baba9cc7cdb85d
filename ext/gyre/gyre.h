/* Functions and macros that several parts of the extension use. */
#pragma once

#include "feature.h"

#include <ruby.h>
#include <ruby/version.h>

/* Stores a small struct inside its Ruby object (Ruby 3.3 and later). */
#if RUBY_API_VERSION_CODE >= 30300
#define GYRE_TYPED_EMBEDDABLE RUBY_TYPED_EMBEDDABLE
#else
#define GYRE_TYPED_EMBEDDABLE 0
#endif

extern VALUE gyre_mGyre;

/* Defines the rb_data_type_t of a Ruby class. `mark`, `free` and `size` may be NULL. */
#define GYRE_TYPE(variable, name, mark, free, size, type_flags)                                                        \
  static const rb_data_type_t variable = {name, {mark, free, size}, NULL, NULL, type_flags}

/* Defines a class below `outer`. Without `allocate`, only C makes its objects. */
static inline VALUE gyre_class(VALUE outer, const char *name, rb_alloc_func_t allocate) {
  VALUE class = rb_define_class_under(outer, name, rb_cObject);
  if (allocate) rb_define_alloc_func(class, allocate);
  if (!allocate) rb_undef_alloc_func(class);
  return class;
}

/* Marks and pins objects, so that C may keep their addresses. */
static inline void gyre_mark(const VALUE *objects, size_t count) {
  for (size_t i = 0; i < count; i++) rb_gc_mark(objects[i]);
}
#define GYRE_MARK(...) gyre_mark((const VALUE[]){__VA_ARGS__}, sizeof((const VALUE[]){__VA_ARGS__}) / sizeof(VALUE))
/* Defines the mark function of a Ruby object with this struct: it marks these members of `own`. */
#define GYRE_MARKER(function, type, ...)                                                                               \
  static void function(void *opaque) {                                                                                 \
    const type *own = opaque;                                                                                          \
    GYRE_MARK(__VA_ARGS__);                                                                                            \
  }

/* Keeps the object alive and pinned until the process ends. Named classes need no such call. */
static inline VALUE gyre_kept(VALUE object) {
  rb_gc_register_mark_object(object);
  return object;
}

struct gyre_loop;
struct gyre_watch;

/* Opens a loop on the named backend (a String). May raise. */
void gyre_loop_open_on(struct gyre_loop *loop, VALUE name);

/* From now until gyre_loop_close, IO#close and IO#reopen wake this loop's waits (loop_close.c). */
void gyre_loop_enlist(struct gyre_loop *loop);
/* Called for each watch of a closed IO's number, on each loop, in the closing thread. Wakes the
 * waiter if it waits for `io`. Returns false if the watch is another listener's. */
typedef bool gyre_close_listener(struct gyre_loop *loop, struct gyre_watch *watch, VALUE io);
void gyre_loop_on_io_close(gyre_close_listener *listener);
/* Returns the loop of this thread's scheduler, or NULL. scheduler.c sets this pointer. */
extern struct gyre_loop *(*gyre_loop_here)(void);
/* Calls no Ruby code. */
bool gyre_io_is_closed(VALUE io);
