/* Functions that parts of the extension offer each other. */
#pragma once

#include <ruby.h>
#include <ruby/version.h>
#include <stdbool.h>

/* Keeps a small struct within its Ruby object. */
#if RUBY_API_VERSION_CODE >= 30300
#define GYRE_TYPED_EMBEDDABLE RUBY_TYPED_EMBEDDABLE
#else
#define GYRE_TYPED_EMBEDDABLE 0
#endif

extern VALUE gyre_mGyre;

/* A Ruby class of C structures: its functions for the collector, each or NULL. */
#define GYRE_TYPE(variable, name, mark, free, size, type_flags)                                                        \
  static const rb_data_type_t variable = {name, {mark, free, size}, NULL, NULL, type_flags}

/* Marks objects for the collector, which then leaves them at their addresses: C may keep these. */
static inline void gyre_mark(const VALUE *objects, size_t count) {
  for (size_t i = 0; i < count; i++) rb_gc_mark(objects[i]);
}
#define GYRE_MARK(...) gyre_mark((const VALUE[]){__VA_ARGS__}, sizeof((const VALUE[]){__VA_ARGS__}) / sizeof(VALUE))

/* Keeps the object alive, at its address. Classes that C has defined are kept by Ruby. */
static inline VALUE gyre_kept(VALUE object) {
  rb_gc_register_mark_object(object);
  return object;
}

struct gyre_loop;
struct gyre_watch;

/* Opens a loop on this backend (String). May raise. */
void gyre_loop_open_on(struct gyre_loop *loop, VALUE name);

/* loop_close.c: Ruby's closes and reopens wake this loop's waits, until gyre_loop_close. */
void gyre_loop_enlist(struct gyre_loop *loop);
/* Called for each watch of a closed IO's number, on all loops, from any thread. Wakes only this
 * IO's waits. Returns whether the watch is of the listener's kind. */
typedef bool gyre_close_listener(struct gyre_loop *loop, struct gyre_watch *watch, VALUE io);
void gyre_loop_on_io_close(gyre_close_listener *listener);
/* Returns the loop of this thread's scheduler, or NULL; set by the scheduler. */
extern struct gyre_loop *(*gyre_loop_here)(void);
/* Calls no Ruby code. */
bool gyre_io_is_closed(VALUE io);
