/* Ends waits for an IO when the IO is closed or reopened. The kernel drops the watch silently, and
 * the number may be reused at once. Ruby before 4.0 tells no scheduler; later versions tell only
 * the closing thread's scheduler, and fibers that are reading or writing. So the first loop wraps
 * IO#close and IO#reopen, for waits in all threads. Closes made in C (IO#close_write of a pipe) are
 * found by the sweeps of wait.c and keyed_watch.c. */
#include "gyre.h"
#include "loop/forks.h"
#include "loop/loop.h"

#include <ruby/io.h>
#include <ruby/ractor.h>

bool gyre_io_is_closed(VALUE io) {
#if RUBY_API_VERSION_CODE >= 30300
  return RTEST(rb_io_closed_p(io));
#else
  return !RFILE(io)->fptr || RFILE(io)->fptr->fd < 0;
#endif
}

struct gyre_loop *(*gyre_loop_here)(void);

#define LISTENERS_LIMIT 8
static gyre_close_listener *listeners[LISTENERS_LIMIT];

void gyre_loop_on_io_close(gyre_close_listener *listener) {
  int count = 0;
  while (listeners[count]) count++;
  if (count < LISTENERS_LIMIT - 1) listeners[count] = listener;
}

static rb_ractor_local_key_t loops_key;
/* Returns this Ractor's open loops: other Ractors cannot close its IOs. The list is never freed,
 * because a loop may outlive its Ractor. */
static struct gyre_list *loops(void) {
  struct gyre_list *list = rb_ractor_local_storage_ptr(loops_key);
  if (list) return list;
  list = malloc(sizeof(*list));
  if (!list) return NULL;
  gyre_list_init(list);
  rb_ractor_local_storage_ptr_set(loops_key, list);
  return list;
}

struct closing {
  VALUE io;
  int fd, argc;
  const VALUE *argv;
};

static VALUE call_super(VALUE argument) {
  struct closing *closing = (struct closing *)argument;
  return rb_call_super(closing->argc, closing->argv);
}

/* A watch may already be for the next IO with this number, so the loop registers the watch again
 * before it sleeps. */
static void notify_watches(struct gyre_loop *loop, int fd, VALUE io) {
  bool any = false, others = false;
  for (struct gyre_watch *watch = loop->descriptors[fd].first, *next; watch; watch = next) {
    next = watch->next;
    gyre_close_listener **listener = listeners;
    while (*listener && !(*listener)(loop, watch, io)) listener++;
    if (!*listener) {
      others = true;
      continue;
    }
    gyre_loop_ask_again(loop, watch);
    any = true;
  }
  if (!others) gyre_loop_closed(loop, fd);
  if (any && loop->waiting) gyre_loop_wake(loop);
}

static VALUE notify(VALUE argument) {
  struct closing *closing = (struct closing *)argument;
  struct gyre_loop *here = gyre_loop_here();
  if (here && !(here->backend->capabilities & GYRE_BACKEND_EDGE)) gyre_loop_let_go(here, closing->fd);
  struct gyre_list *all = loops();
  for (struct gyre_list *node = all ? all->next : NULL; node && node != all; node = node->next) {
    struct gyre_loop *loop = GYRE_CONTAINER(node, struct gyre_loop, open_node);
    if (loop->forks != gyre_forks || closing->fd >= loop->descriptor_capacity) continue;
    if (loop->descriptors[closing->fd].holder == (uintptr_t)closing->io) loop->descriptors[closing->fd].holder = 0;
    notify_watches(loop, closing->fd, closing->io);
  }
  return Qnil;
}

static VALUE with_step(VALUE self, int argc, const VALUE *argv) {
  struct gyre_list *all = loops();
  if (!all || gyre_list_empty(all) || gyre_io_is_closed(self)) return rb_call_super(argc, argv);
  struct closing closing = {self, rb_io_descriptor(self), argc, argv};
  return rb_ensure(call_super, (VALUE)&closing, notify, (VALUE)&closing);
}

static VALUE io_close(VALUE self) { return with_step(self, 0, NULL); }

static VALUE io_reopen(int argc, VALUE *argv, VALUE self) {
  if (rb_keyword_given_p()) return rb_call_super_kw(argc, argv, RB_PASS_KEYWORDS);
  return with_step(self, argc, argv);
}

void gyre_loop_enlist(struct gyre_loop *loop) {
  static bool prepended; /* not atomic, because prepending twice is harmless */
  struct gyre_list *all = loops();
  if (!all) return;
  loop->forks = gyre_forks;
  gyre_list_append(all, &loop->open_node);
  if (prepended) return;
  prepended = true;
  VALUE module = rb_define_module_under(rb_define_module_under(gyre_mGyre, "Native"), "Closing");
  rb_define_method(module, "close", io_close, 0);
  rb_define_method(module, "reopen", io_reopen, -1);
  rb_prepend_module(rb_cIO, module);
}

void gyre_init_loop_close(void) {
  static const struct rb_ractor_local_storage_type kept = {NULL, NULL};
  loops_key = rb_ractor_local_storage_ptr_newkey(&kept);
}
