/*
 * IO#close while a fiber waits for the IO, on Rubies that tell the scheduler nothing of it (before 4.0, which calls io_close).
 * A backend that holds open what it watches would keep the end of the connection from the peer. So the first scheduler on
 * such a backend puts a step around IO#close: who waits is woken, and the kernel lets go of the descriptor. A close by another
 * thread is not seen here.
 */
#include "scheduler.h"

#include <ruby/io.h>
#include <ruby/version.h>

#if RUBY_API_VERSION_MAJOR < 4
static ID id_closed_p;

static VALUE close_it(VALUE self) {
  (void)self;
  return rb_call_super(0, NULL);
}

/* Its number is nobody else's yet: no fiber has run since. */
static VALUE let_go(VALUE fd) {
  struct gyre_scheduler *scheduler = gyre_scheduler_here();
  if (scheduler) gyre_loop_let_go(&scheduler->loop, NUM2INT(fd));
  return Qnil;
}

static VALUE io_close(VALUE self) {
  struct gyre_scheduler *scheduler = gyre_scheduler_here();
  if (!scheduler || scheduler->loop.backend->capabilities & GYRE_BACKEND_EDGE ||
      RTEST(rb_funcallv(self, id_closed_p, 0, NULL))) {
    return rb_call_super(0, NULL);
  }
  return rb_ensure(close_it, self, let_go, INT2NUM(rb_io_descriptor(self)));
}

void gyre_scheduler_sees_close(struct gyre_scheduler *scheduler) {
  static bool prepended; /* under the GVL, or a Ractor's: twice does no harm */
  if (prepended || scheduler->loop.backend->capabilities & GYRE_BACKEND_EDGE) return;
  prepended = true;
  id_closed_p = rb_intern("closed?");
  VALUE module = rb_define_module_under(gyre_cNativeScheduler, "Closing");
  rb_define_method(module, "close", io_close, 0);
  rb_prepend_module(rb_cIO, module);
}
#else
void gyre_scheduler_sees_close(struct gyre_scheduler *scheduler) { (void)scheduler; }
#endif
